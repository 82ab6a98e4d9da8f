//! One alarm that does not flap.
//!
//! It is raised at once, and cleared after a time of calm.
//! That time doubles with each raise: a job whose every evaluation passes a threshold is told of it a few times, not all night.

/// Calm for this long clears an alarm that was raised once ...
const FIRST_CALM_NANOS: u64 = 30_000_000_000;
/// ... and never is more than this asked for.
const LONGEST_CALM_NANOS: u64 = 3_600_000_000_000;

/// How an alarm stands at one look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AlarmState {
    /// The reason is there.
    Alarm,
    /// Neither: a raised alarm stays raised, a quiet one quiet.
    Between,
    /// The reason is gone.
    Calm,
}

/// What follows from a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LatchChange {
    Raised,
    Cleared,
}

/// The alarm.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Latch {
    raised: bool,
    times_raised: u32,
    calm_since_nanos: Option<u64>,
}

impl Latch {
    /// Takes a look at a time that does not go back.
    pub(crate) fn look(&mut self, time_nanos: u64, sign: AlarmState) -> Option<LatchChange> {
        if sign != AlarmState::Calm {
            self.calm_since_nanos = None;
        }
        match sign {
            AlarmState::Alarm if !self.raised => {
                self.raised = true;
                self.times_raised += 1;
                Some(LatchChange::Raised)
            }
            AlarmState::Calm if self.raised => {
                let since = *self.calm_since_nanos.get_or_insert(time_nanos);
                if time_nanos.saturating_sub(since) < self.calm_needed_nanos() {
                    return None;
                }
                self.raised = false;
                self.calm_since_nanos = None;
                Some(LatchChange::Cleared)
            }
            _ => None,
        }
    }

    fn calm_needed_nanos(&self) -> u64 {
        let doublings = self.times_raised.saturating_sub(1).min(10);
        (FIRST_CALM_NANOS << doublings).min(LONGEST_CALM_NANOS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn turns(signs: impl IntoIterator<Item = AlarmState>) -> Vec<(u64, LatchChange)> {
        let mut latch = Latch::default();
        let looks = signs.into_iter().zip(0..);
        looks
            .filter_map(|(sign, second)| Some((second, latch.look(second * SECOND, sign)?)))
            .collect()
    }

    #[test]
    fn an_alarm_is_raised_once_and_cleared_after_calm() {
        let signs = std::iter::repeat_n(AlarmState::Alarm, 50).chain([AlarmState::Calm; 60]);
        assert_eq!(
            turns(signs),
            [(0, LatchChange::Raised), (80, LatchChange::Cleared)]
        );
    }

    #[test]
    fn swinging_around_the_threshold_alarms_once() {
        let signs = (0..1000).map(|i| {
            if i % 2 == 0 {
                AlarmState::Alarm
            } else {
                AlarmState::Between
            }
        });
        assert_eq!(turns(signs), [(0, LatchChange::Raised)]);
        let signs = (0..1000).map(|i| {
            if i % 20 < 5 {
                AlarmState::Alarm
            } else {
                AlarmState::Calm
            }
        });
        assert_eq!(turns(signs), [(0, LatchChange::Raised)]);
    }

    #[test]
    fn what_comes_again_and_again_is_told_ever_more_rarely() {
        // A peak of ten seconds every two minutes, for a day.
        let signs = (0..86_400).map(|i| {
            if i % 120 < 10 {
                AlarmState::Alarm
            } else {
                AlarmState::Calm
            }
        });
        assert!(turns(signs).len() <= 6);
    }

    #[test]
    fn what_lies_between_neither_raises_nor_clears() {
        assert_eq!(turns([AlarmState::Between; 100]), []);
        let signs = [AlarmState::Alarm]
            .into_iter()
            .chain([AlarmState::Between; 100]);
        assert_eq!(turns(signs), [(0, LatchChange::Raised)]);
    }
}
