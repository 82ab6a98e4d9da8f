//! How long a program had run before anybody watched it: what it loads at its start it has loaded by then.

use nilo_sample::units::NANOS_PER_SEC;
use nilo_sample::{ProcessId, RunDescription, RunMode};

/// The kernel counts the time at which a process began in these.
const TICKS_PER_SEC: u64 = 100;

/// The processes that somebody asked to watch.
#[derive(Debug, Clone, Default)]
pub(super) struct PriorRuntime {
    /// Those that ran already when the recording began, and when that was; none of programs that it began with.
    roots: Vec<u32>,
    began_nanos: u64,
    /// Of the youngest.
    secs: Option<f64>,
}

impl PriorRuntime {
    pub(super) fn new(description: &RunDescription) -> PriorRuntime {
        let is_watched = description.mode == RunMode::Watch;
        PriorRuntime {
            roots: description
                .root_pids
                .iter()
                .copied()
                .filter(|_| is_watched)
                .collect(),
            began_nanos: description.started_monotonic_nanos,
            secs: None,
        }
    }

    /// A process joined.
    pub(super) fn see(&mut self, id: ProcessId) {
        if !self.roots.contains(&id.pid) {
            return;
        }
        let born_nanos = id.start_ticks.saturating_mul(NANOS_PER_SEC / TICKS_PER_SEC);
        // After a time of sleep the machine's clocks differ, by as much as it was.
        let lived_nanos = self.began_nanos.saturating_sub(born_nanos);
        let secs = lived_nanos as f64 / NANOS_PER_SEC as f64;
        self.secs = Some(self.secs.map_or(secs, |known| known.min(secs)));
    }

    /// In seconds; 0 where it is not known.
    pub(super) fn secs(&self) -> f64 {
        self.secs.unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use nilo_sample::fixture::{level, recording, table, tick};
    use nilo_sample::{Event, ProcessInfo, TableSpec, TimedEvent};

    use super::super::ResourceTracker;
    use super::*;

    const MIB: f64 = 1048576.0;

    /// Whether growth over 40 seconds may be loading, in a process that began so many seconds before the recording.
    fn may_be_loading(mode: RunMode, lived_secs: u64) -> bool {
        let mut run = recording();
        run.description.mode = mode;
        run.description.root_pids = vec![10];
        run.description.started_monotonic_nanos = 1000 * NANOS_PER_SEC;
        let id = ProcessId {
            pid: 10,
            start_ticks: (1000 - lived_secs) * TICKS_PER_SEC,
        };
        run.events.push(TimedEvent {
            time_nanos: 0,
            event: Event::ProcessStarted {
                id,
                info: ProcessInfo::default(),
            },
        });
        let mut tree = table(TableSpec::tree());
        for tenth in 0..400 {
            let grown = (100.0 + tenth as f64) * MIB;
            tick(&mut tree, tenth * NANOS_PER_SEC / 10, level(grown));
        }
        run.tables.push(tree);
        let (tracker, _) = ResourceTracker::over(&run, None);
        let verdicts = tracker.verdicts(None);
        assert!(verdicts[0].growth.is_some());
        verdicts[0].growth_may_be_loading()
    }

    #[test]
    fn the_first_minute_is_that_of_the_program_not_of_watching_it() {
        assert!(may_be_loading(RunMode::Watch, 10));
        assert!(!may_be_loading(RunMode::Watch, 30));
        assert!(!may_be_loading(RunMode::Watch, 80));
        // Others begin with what they record.
        assert!(may_be_loading(RunMode::Run, 80));
    }
}
