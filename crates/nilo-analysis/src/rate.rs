//! Rates from counters: two readings and the time between, never a stored percentage.

use nilo_sample::{SeriesView, is_absent};

/// Percent of one core between consecutive readings of a CPU-time counter, each with the time of the later reading.
///
/// A counter that falls (a process tree that was restarted) counts as zero, never as a negative rate.
pub fn cpu_percent(cpu_nanos: SeriesView<'_>) -> Vec<(u64, f64)> {
    let points: Vec<(u64, f64)> = cpu_nanos.present().collect();
    points
        .windows(2)
        .filter(|pair| pair[1].0 > pair[0].0)
        .map(|pair| {
            let spent = (pair[1].1 - pair[0].1).max(0.0);
            (pair[1].0, 100.0 * spent / (pair[1].0 - pair[0].0) as f64)
        })
        .collect()
}

/// Readings come a little early or late: spans this share of the wanted length count.
const NEARLY: f64 = 0.95;

/// The largest percent of one core over spans of at least about this length; `None` where the series is shorter.
/// A counter that began with the recording was zero at its beginning.
///
/// Single samples say little: what was spent before a reading that was held up counts in its interval, and twice the cores can come out.
pub fn busiest_cpu_percent(
    cpu_nanos: SeriesView<'_>,
    span_nanos: u64,
    from_zero: bool,
) -> Option<f64> {
    let span_nanos = (NEARLY * span_nanos as f64) as u64;
    // A second pass follows the first by a span: there may be millions of rows.
    let beginning = from_zero.then_some((0, 0.0));
    let mut behind = beginning.into_iter().chain(cpu_nanos.present()).peekable();
    let (mut begin, mut before) = behind.next()?;
    let mut busiest = None;
    for (time, spent) in cpu_nanos.present() {
        while let Some(next) = behind.next_if(|next| next.0 + span_nanos <= time) {
            (begin, before) = next;
        }
        if begin + span_nanos <= time {
            let percent = 100.0 * (spent - before).max(0.0) / (time - begin) as f64;
            busiest = Some(busiest.map_or(percent, |known: f64| known.max(percent)));
        }
    }
    busiest
}

/// How much a counter grew over the whole series; one reading alone does not say.
pub fn growth(counter: SeriesView<'_>) -> Option<f64> {
    let mut readings = counter.present();
    let (_, first) = readings.next()?;
    let (_, last) = readings.last()?;
    Some((last - first).max(0.0))
}

/// The mean of a level, each value weighted by the time until the next one.
///
/// Plain averages over-count the stretches in which the recorder sampled faster.
pub fn time_weighted_mean(level: SeriesView<'_>) -> Option<f64> {
    let points: Vec<(u64, f64)> = level.present().filter(|(_, v)| v.is_finite()).collect();
    let (weighted, total) = points.windows(2).fold((0.0, 0.0), |(sum, total), pair| {
        let span = pair[1].0.saturating_sub(pair[0].0) as f64;
        (sum + span * (pair[0].1 + pair[1].1) / 2.0, total + span)
    });
    match points.first() {
        Some(_) if total > 0.0 => Some(weighted / total),
        Some((_, only)) => Some(*only),
        None => None,
    }
}

/// The smallest measured value.
pub fn minimum(level: SeriesView<'_>) -> Option<f64> {
    level
        .values
        .iter()
        .copied()
        .filter(|v| !is_absent(*v) && !v.is_nan())
        .reduce(f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::ABSENT;
    use proptest::prelude::*;

    #[test]
    fn the_first_second_counts_although_it_is_read_a_little_early() {
        // A second of work, read at 5 ms, 1.003 s and 2.001 s.
        let view = SeriesView {
            times: &[5_000_000, 1_003_000_000, 2_001_000_000],
            values: &[4e6, 0.9e9, 0.9e9],
        };
        let busiest = |from_zero| busiest_cpu_percent(view, 1_000_000_000, from_zero).unwrap();
        assert!((89.0..91.0).contains(&busiest(true)), "{}", busiest(true));
        assert!((89.0..91.0).contains(&busiest(false)), "{}", busiest(false));
        // What was spent before the first reading counts where the counter began with the recording.
        let late = SeriesView {
            times: &[300_000_000, 1_003_000_000, 2_001_000_000],
            values: &[0.3e9, 0.9e9, 0.9e9],
        };
        let busiest = |from_zero| busiest_cpu_percent(late, 1_000_000_000, from_zero).unwrap();
        assert!((89.0..91.0).contains(&busiest(true)), "{}", busiest(true));
        assert!(busiest(false) < 40.0, "{}", busiest(false));
    }

    #[test]
    fn the_busiest_second_evens_out_samples_that_came_late() {
        // Two busy cores; the reading of the third sample was held up for 80 ms.
        let times: Vec<u64> = (0..20).map(|tick| tick * 100_000_000).collect();
        let mut values: Vec<f64> = times.iter().map(|time| 2.0 * *time as f64).collect();
        values[3] += 160_000_000.0;
        let view = SeriesView {
            times: &times,
            values: &values,
        };
        let single = cpu_percent(view).into_iter().map(|(_, percent)| percent);
        assert!(single.fold(0.0, f64::max) > 350.0);
        let busiest = busiest_cpu_percent(view, 1_000_000_000, false).unwrap();
        assert!((199.0..=217.0).contains(&busiest), "{busiest}");
        assert_eq!(busiest_cpu_percent(view, 5_000_000_000, false), None);
    }

    #[test]
    fn a_busy_core_is_a_hundred_percent() {
        let view = SeriesView {
            times: &[0, 1000, 2000],
            values: &[0.0, 1000.0, 1500.0],
        };
        assert_eq!(cpu_percent(view), [(1000, 100.0), (2000, 50.0)]);
    }

    #[test]
    fn a_counter_that_falls_is_no_negative_rate() {
        let view = SeriesView {
            times: &[0, 1000],
            values: &[500.0, 0.0],
        };
        assert_eq!(cpu_percent(view), [(1000, 0.0)]);
    }

    #[test]
    fn absent_values_are_left_out_of_the_mean() {
        let view = SeriesView {
            times: &[0, 10, 20],
            values: &[4.0, ABSENT, 4.0],
        };
        assert_eq!(time_weighted_mean(view), Some(4.0));
        assert_eq!(
            time_weighted_mean(SeriesView {
                times: &[],
                values: &[]
            }),
            None
        );
    }

    #[test]
    fn a_long_stretch_weighs_more_than_a_short_one() {
        let view = SeriesView {
            times: &[0, 1, 2, 102],
            values: &[100.0, 100.0, 0.0, 0.0],
        };
        assert!(time_weighted_mean(view).unwrap() < 2.0);
    }

    proptest! {
        #[test]
        fn the_mean_lies_between_the_extremes(values in prop::collection::vec(0.0..1e12f64, 1..50)) {
            let times: Vec<u64> = (0..values.len() as u64).map(|i| i * 100).collect();
            let view = SeriesView { times: &times, values: &values };
            let mean = time_weighted_mean(view).unwrap();
            let low = minimum(view).unwrap();
            let high = view.max().unwrap().1;
            prop_assert!(mean >= low - 1.0 && mean <= high + 1.0);
        }
    }
}
