//! Where the axes have their ticks and what stands there.

use nilo_sample::units::{GIB, KIB, MIB, TIB};

/// A tick: its position in the axis' own unit (bytes, nanoseconds) and its label.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tick {
    pub(crate) at: f64,
    pub(crate) label: String,
}

/// Ticks at multiples of a power of two, at most `most` above zero: 0, 256 MiB, 512 MiB, 768 MiB, 1 GiB.
pub(crate) fn byte_ticks(top_bytes: f64, most: usize) -> Vec<Tick> {
    let mut step = 1.0;
    while top_bytes / step > most.max(1) as f64 {
        step *= 2.0;
    }
    let count = (top_bytes / step) as usize;
    (0..=count)
        .map(|index| {
            let at = index as f64 * step;
            let label = byte_label(at);
            Tick { at, label }
        })
        .collect()
}

/// `1.25 GiB`, without zeros that say nothing.
fn byte_label(bytes: f64) -> String {
    let units = [("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)];
    let (unit, size) = units
        .into_iter()
        .find(|(_, size)| bytes >= *size as f64)
        .unwrap_or(("B", 1));
    if bytes == 0.0 {
        return "0".to_owned();
    }
    let value = format!("{:.4}", bytes / size as f64);
    let value = value.trim_end_matches('0').trim_end_matches('.');
    format!("{value} {unit}")
}

/// Powers of ten are clamped to 1e-300, and a tick may be a billionth of a step beside its place.
/// Of smaller ranges the ticks are found in a larger one.
const SMALLEST_HALF_RANGE: f64 = 1e-290;
const ENLARGED_BY: f64 = 1e200;

/// Ticks at round numbers between two values, at most `most` of them and one.
pub(crate) fn value_ticks(low: f64, high: f64, most: usize) -> Vec<Tick> {
    // Halved, since the distance of two numbers may be too large for a number.
    let half_range = high / 2.0 - low / 2.0;
    let scale = match half_range {
        range if !range.is_finite() || range <= 0.0 => return Vec::new(),
        range if range <= SMALLEST_HALF_RANGE => ENLARGED_BY,
        _ => 1.0,
    };
    let (low, high, half_range) = (low * scale, high * scale, half_range * scale);
    let wanted = half_range / (most.max(1) as f64 / 2.0);
    let power = wanted.log10().floor().clamp(-300.0, 300.0) as i32;
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0, 20.0].map(|m| m * 10f64.powi(power));
    let Some(step) = steps.into_iter().find(|step| *step >= wanted) else {
        return Vec::new();
    };
    let first = (low / step).ceil();
    let ticks = (0..=most)
        .map(|index| (first + index as f64) * step)
        // A hair of tolerance: 0.3 / 0.1 is less than 3.
        .take_while(|at| *at <= high + step * 1e-9)
        .map(|at| Tick {
            at: at / scale,
            label: value_label(at / scale, step / scale),
        });
    ticks.collect()
}

/// As many decimals as the step between two ticks needs.
fn value_label(at: f64, step: f64) -> String {
    // What is nearly zero is zero: 3 * 0.1 - 0.3 is not.
    let at = if at.abs() < step * 1e-6 { 0.0 } else { at };
    let magnitude = at.abs().max(step);
    if (1e-4..1e7).contains(&magnitude) && step >= 1e-6 {
        let exponent = step.log10().floor();
        // Steps of 2.5 need one decimal more.
        let digits = step / 10f64.powf(exponent);
        let more = if (digits - digits.round()).abs() > 0.1 {
            1.0
        } else {
            0.0
        };
        let decimals = (more - exponent).clamp(0.0, 9.0) as usize;
        format!("{at:.decimals$}")
    } else if at == 0.0 {
        "0".to_owned()
    } else {
        let digits = at.abs().log10().floor() - step.log10().floor() + 1.0;
        if digits > 6.0 && step >= 1.0 {
            return format!("{at:.0}");
        }
        let digits = digits.clamp(0.0, 6.0) as usize;
        let text = format!("{at:.digits$e}");
        let (number, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let number = match number.contains('.') {
            true => number.trim_end_matches('0').trim_end_matches('.'),
            false => number,
        };
        format!("{number}e{exponent}")
    }
}

/// A unit of the time axis and the steps that people read well in it.
struct TimeUnit {
    name: &'static str,
    nanos: f64,
    /// Ranges up to this many of it are written in it.
    up_to: f64,
    steps: &'static [f64],
}

const TIME_UNITS: [TimeUnit; 5] = [
    TimeUnit {
        name: "ms",
        nanos: 1e6,
        up_to: 800.0,
        steps: &[],
    },
    TimeUnit {
        name: "s",
        nanos: 1e9,
        up_to: 180.0,
        steps: &[0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0],
    },
    TimeUnit {
        name: "min",
        nanos: 60e9,
        up_to: 180.0,
        steps: &[0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0],
    },
    TimeUnit {
        name: "h",
        nanos: 3600e9,
        up_to: 96.0,
        steps: &[0.5, 1.0, 2.0, 3.0, 6.0, 12.0, 24.0],
    },
    TimeUnit {
        name: "d",
        nanos: 86_400e9,
        up_to: f64::INFINITY,
        steps: &[],
    },
];

/// Ticks from zero up to a range, at most `most` above zero, and the unit of their labels.
pub(crate) fn time_ticks(range_nanos: f64, most: usize) -> (Vec<Tick>, &'static str) {
    let most = most.max(1) as f64;
    let unit = TIME_UNITS
        .iter()
        .find(|unit| range_nanos <= unit.up_to * unit.nanos)
        .unwrap_or(&TIME_UNITS[4]);
    let range = range_nanos / unit.nanos;
    let fits = |step: &f64| range / step <= most;
    let decades = (-9..=15).flat_map(|power| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(power)));
    let step = unit
        .steps
        .iter()
        .copied()
        .find(fits)
        .or_else(|| decades.clone().find(fits))
        .unwrap_or(range);
    // Where even the finest listed step is too coarse for a short range, decades go on.
    let step = if range / step < 2.0 {
        decades.clone().find(fits).unwrap_or(step)
    } else {
        step
    };
    // One tick alone tells no scale: where none but zero fits, the roundest time near the end is the other.
    let step = match step > range {
        true => {
            let finest = decades.rev().find(|finer| *finer <= range);
            finest.map_or(range, |finer| (range / finer + 1e-9).floor() * finer)
        }
        false => step,
    };
    let decimals = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
    // A hair of tolerance: 0.3 / 0.1 is less than 3.
    let count = (range / step + 1e-9) as usize;
    let ticks = (0..=count).map(|index| {
        let value = index as f64 * step;
        Tick {
            at: value * unit.nanos,
            label: format!("{value:.decimals$}"),
        }
    });
    (ticks.collect(), unit.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(ticks: &[Tick]) -> Vec<&str> {
        ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn memory_ticks_are_powers_of_two() {
        let ticks = byte_ticks(1.3 * GIB as f64, 6);
        assert_eq!(
            labels(&ticks),
            ["0", "256 MiB", "512 MiB", "768 MiB", "1 GiB", "1.25 GiB"]
        );
        assert_eq!(labels(&byte_ticks(0.5, 6)), ["0"]);
    }

    #[test]
    fn time_ticks_choose_their_unit() {
        let labels_of = |secs: f64| {
            let (ticks, unit) = time_ticks(secs * 1e9, 8);
            (labels(&ticks).join(" "), unit)
        };
        assert_eq!(labels_of(60.0), ("0 10 20 30 40 50 60".into(), "s"));
        assert_eq!(labels_of(2.15), ("0.0 0.5 1.0 1.5 2.0".into(), "s"));
        assert_eq!(labels_of(3600.0), ("0 10 20 30 40 50 60".into(), "min"));
        assert_eq!(labels_of(86_400.0), ("0 3 6 9 12 15 18 21 24".into(), "h"));
        assert_eq!(labels_of(0.5), ("0 100 200 300 400 500".into(), "ms"));
    }

    #[test]
    fn the_narrowest_axis_of_time_has_two_ticks() {
        let labels_of = |secs: f64| labels(&time_ticks(secs * 1e9, 1).0).join(" ");
        assert_eq!(labels_of(13.1), "0 10");
        assert_eq!(labels_of(41.75), "0 40");
        assert_eq!(labels_of(2.3), "0 2");
        assert_eq!(labels_of(100.0), "0 100");
    }

    #[test]
    fn value_ticks_are_round() {
        let labels_of = |low, high| labels(&value_ticks(low, high, 4)).join(" ");
        assert_eq!(labels_of(0.93, 4.05), "1 2 3 4");
        assert_eq!(labels_of(-0.31, 0.32), "-0.2 0.0 0.2");
        assert_eq!(labels_of(0.0, 3e-7), "0 1e-7 2e-7 3e-7");
        assert_eq!(labels_of(1e9, 1.35e9), "1e9 1.1e9 1.2e9 1.3e9");
        assert_eq!(labels_of(-4.5, 4.5), "-2.5 0.0 2.5");
        assert_eq!(labels_of(0.0, 90.0), "0 25 50 75");
        assert_eq!(labels_of(5.0, 5.0), "");
        assert_eq!(labels_of(f64::NAN, 1.0), "");
        assert_eq!(labels_of(0.0, 3e-300), "0 1e-300 2e-300 3e-300");
        assert_eq!(labels_of(-3.7e-306, -8.8e-310), "-3e-306 -2e-306 -1e-306");
        assert_eq!(labels_of(0.0, 4e300), "0 1e300 2e300 3e300 4e300");
        // Steps beyond what an exponent and a few digits tell apart.
        let step = 2f64.powi(62);
        assert_eq!(
            labels_of(step, step + 2048.0),
            "4611686018427387904 4611686018427388928 4611686018427389952"
        );
    }

    proptest! {
        #[test]
        fn value_ticks_are_few_and_lie_between(a in any::<f64>(), b in any::<f64>(), most in 1usize..20) {
            let (low, high) = (a.min(b), a.max(b));
            let ticks = value_ticks(low, high, most);
            prop_assert!(ticks.len() <= most + 1);
            let slack = (high / 2.0 - low / 2.0) * 1e-6;
            prop_assert!(ticks.iter().all(|tick| tick.at >= low - slack && tick.at <= high + slack));
        }

        #[test]
        fn ticks_are_few_and_lie_on_the_axis(range in 1.0..1.9e19f64, most in 1usize..20) {
            for ticks in [byte_ticks(range, most), time_ticks(range, most).0] {
                prop_assert!(ticks.len() <= most + 1);
                prop_assert!(ticks.iter().all(|tick| tick.at <= range * 1.000001));
            }
            prop_assert!(time_ticks(range, most).0.len() >= 2);
        }
    }
}
