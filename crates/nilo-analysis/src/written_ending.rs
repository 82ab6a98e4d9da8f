//! The ending in a run's description, as it came out for the whole run: the process that wrote it knew only of itself.

use nilo_sample::{Ending, Recording, RunMode};

use crate::failed_rank::with_failed_rank;
use crate::gpu_ending::with_gpu_failure;

/// How a run ended that has an ending in its description, and how long it took: not less than until its last row,
/// since other ranks may log on, and as the rank that failed first.
pub fn written_ending(recording: &Recording) -> Option<Ending> {
    let ending = recording.description.ending.clone()?;
    let last_row_nanos = match recording.description.mode {
        RunMode::Python => recording.written_until_nanos,
        // A job is over when its command is.
        _ => 0,
    };
    let ending = Ending {
        time_nanos: ending.time_nanos.max(last_row_nanos),
        ..ending
    };
    let ending = with_failed_rank(recording, ending);
    // Runs of earlier versions do not say it.
    Some(with_gpu_failure(recording, ending))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::{Event, RunStatus, TimedEvent, fixture};

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_run_ends_with_its_last_rank_and_as_the_one_that_failed() {
        let mut recording = fixture::recording();
        assert_eq!(written_ending(&recording), None);
        recording.description.mode = RunMode::Python;
        recording.description.ending = Some(Ending {
            status: RunStatus::Exited,
            exit_code: Some(0),
            signal: None,
            time_nanos: SECOND,
            oom: None,
            left_running: Vec::new(),
            recorder_death: None,
            lost_rank: None,
            gpu_out_of_memory: None,
        });
        recording.written_until_nanos = 3 * SECOND;
        let ended = written_ending(&recording).unwrap();
        assert_eq!((ended.time_nanos, ended.exit_code), (3 * SECOND, Some(0)));
        recording.events.push(TimedEvent {
            time_nanos: 2 * SECOND,
            event: Event::RankEnded {
                rank: 1,
                exit_code: Some(5),
                signal: None,
            },
        });
        let ended = written_ending(&recording).unwrap();
        assert_eq!((ended.time_nanos, ended.exit_code), (3 * SECOND, Some(5)));
        recording.description.mode = RunMode::Run;
        let ended = written_ending(&recording).unwrap();
        assert_eq!((ended.time_nanos, ended.exit_code), (SECOND, Some(0)));
    }
}
