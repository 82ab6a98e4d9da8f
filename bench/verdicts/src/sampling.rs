//! When a drawn trace is sampled: how long, how often, how regularly.

use crate::random::Random;

/// Sampling times and the pace of what happens between them.
#[derive(Debug, Clone)]
pub struct SamplingTimes {
    /// In seconds from the beginning, ascending, the first 0.
    pub times_secs: Vec<f64>,
    /// How long the job is watched if nothing ends it.
    pub duration_secs: f64,
    /// Factor on the durations of phases: a job of five minutes has epochs of seconds; one of six hours has the epochs
    /// of a job of one hour, only more of them.
    pub pace: f64,
}

/// The length of most traces.
pub const USUAL_DURATION_SECS: f64 = 3600.0;
const SHORTEST_SECS: f64 = 300.0;
const LONGEST_SECS: f64 = 6.0 * 3600.0;

impl SamplingTimes {
    /// An hour at 1 Hz in a good third of the cases; otherwise another duration, another interval, or both.
    pub fn draw(random: &mut Random) -> Self {
        let duration_secs = if random.chance(0.6) {
            USUAL_DURATION_SECS
        } else {
            random.factor_between(SHORTEST_SECS, LONGEST_SECS).round()
        };
        let (interval_secs, jitter) = match random.count_between(0, 9) {
            0..6 => (1.0, 0.0),
            6 if duration_secs <= USUAL_DURATION_SECS => (0.1, 0.0),
            7 if duration_secs >= 1200.0 => (5.0, 0.0),
            _ => (1.0, 0.4),
        };
        let mut times_secs = Vec::with_capacity((duration_secs / interval_secs) as usize + 1);
        let mut tick = 0_u32;
        while f64::from(tick) * interval_secs <= duration_secs {
            let late = if jitter == 0.0 || tick == 0 {
                0.0
            } else if random.chance(0.01) {
                // A busy machine: some ticks come late, and those they run over are skipped.
                random.between(1.0, 4.0)
            } else {
                random.between(0.0, jitter)
            };
            times_secs.push((f64::from(tick) + late) * interval_secs);
            tick += 1 + late as u32;
        }
        times_secs.retain(|time| *time <= duration_secs);
        Self {
            times_secs,
            duration_secs,
            pace: (duration_secs / USUAL_DURATION_SECS).min(1.0),
        }
    }

    /// Takes out the samples of some stretches of time.
    pub fn without(mut self, gaps_secs: &[(f64, f64)]) -> Self {
        self.times_secs.retain(|time| {
            gaps_secs
                .iter()
                .all(|(begin, end)| time < begin || time >= end)
        });
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_ascend_from_zero_to_the_duration() {
        for seed in 0..200 {
            let sampling = SamplingTimes::draw(&mut Random::new(0, seed));
            let times = &sampling.times_secs;
            assert_eq!(times[0], 0.0);
            assert!(
                times.windows(2).all(|pair| pair[0] < pair[1]),
                "seed {seed}"
            );
            let last = times[times.len() - 1];
            assert!(last <= sampling.duration_secs && last > sampling.duration_secs - 10.0);
            assert!(times.len() >= 60, "seed {seed}: {}", times.len());
        }
    }

    #[test]
    fn most_traces_are_an_hour_at_one_hertz_and_every_other_kind_occurs() {
        let drawn: Vec<SamplingTimes> = (0..400)
            .map(|seed| SamplingTimes::draw(&mut Random::new(0, seed)))
            .collect();
        let share = |test: &dyn Fn(&SamplingTimes) -> bool| {
            drawn.iter().filter(|sampling| test(sampling)).count() as f64 / 400.0
        };
        let usual = share(&|sampling| sampling.times_secs.len() == 3601);
        assert!((0.3..0.5).contains(&usual), "{usual}");
        assert!(share(&|sampling| sampling.times_secs[1] == 0.1) > 0.04);
        assert!(share(&|sampling| sampling.times_secs[1] == 5.0) > 0.04);
        assert!(share(&|sampling| sampling.duration_secs < 600.0) > 0.02);
        assert!(share(&|sampling| sampling.duration_secs > 7200.0) > 0.05);
    }
}
