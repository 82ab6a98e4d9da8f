//! The run's time axis: from a writer's clock to nanoseconds since the run began.

use nilo_sample::RunDescription;

use crate::clock;
use crate::header::ClockPair;

/// Where the run began, on both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeAxis {
    started: ClockPair,
}

/// What to do to a file's times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shift {
    Add(u64),
    Subtract(u64),
}

impl TimeAxis {
    pub(crate) fn new(description: &RunDescription) -> TimeAxis {
        TimeAxis {
            started: ClockPair {
                monotonic_nanos: description.started_monotonic_nanos,
                unix_nanos: description.started_unix_nanos,
                boot_id: clock::boot_id_bytes(&description.boot_id).unwrap_or_default(),
            },
        }
    }

    /// An axis that begins at the given moment.
    pub(crate) fn at(started: ClockPair) -> TimeAxis {
        TimeAxis { started }
    }

    /// A time of the monotonic clock of the boot in which the run began.
    pub(crate) fn of_same_boot(&self, monotonic_nanos: u64) -> u64 {
        monotonic_nanos.saturating_sub(self.started.monotonic_nanos)
    }

    /// Within one boot the monotonic clocks are the same one; between machines and boots only the wall clock is.
    pub(crate) fn shift(&self, file: &ClockPair) -> Shift {
        let same_boot = file.boot_id == self.started.boot_id && file.boot_id != [0; 16];
        if same_boot {
            return Shift::Subtract(self.started.monotonic_nanos);
        }
        let forward = i128::from(file.unix_nanos)
            - i128::from(file.monotonic_nanos)
            - i128::from(self.started.unix_nanos);
        let nanos = u64::try_from(forward.unsigned_abs()).unwrap_or(u64::MAX);
        if forward < 0 {
            Shift::Subtract(nanos)
        } else {
            Shift::Add(nanos)
        }
    }
}

impl Shift {
    /// Times before the run began are its beginning.
    #[inline]
    pub(crate) fn apply(self, time_nanos: u64) -> u64 {
        match self {
            Shift::Add(nanos) => time_nanos.saturating_add(nanos),
            Shift::Subtract(nanos) => time_nanos.saturating_sub(nanos),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AXIS: TimeAxis = TimeAxis {
        started: ClockPair {
            monotonic_nanos: 1000,
            unix_nanos: 5_000_000,
            boot_id: [1; 16],
        },
    };

    #[test]
    fn one_boot_uses_the_monotonic_clock() {
        let shift = AXIS.shift(&ClockPair {
            monotonic_nanos: 4000,
            unix_nanos: 999,
            boot_id: [1; 16],
        });
        assert_eq!(shift.apply(4500), 3500);
        assert_eq!(shift.apply(10), 0);
    }

    #[test]
    fn another_boot_goes_through_the_wall_clock() {
        let shift = AXIS.shift(&ClockPair {
            monotonic_nanos: 70,
            unix_nanos: 5_002_000,
            boot_id: [2; 16],
        });
        assert_eq!(shift.apply(75), 2005);
    }
}
