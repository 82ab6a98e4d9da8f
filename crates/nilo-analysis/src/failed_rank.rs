//! The rank of a distributed run that failed first: launchers end the others because of it.

use nilo_sample::units::{NANOS_PER_SEC, to_secs};
use nilo_sample::{Ending, Event, Recording, RunMode, RunStatus};
use schemars::JsonSchema;
use serde::Serialize;

/// The end of a rank that failed.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct FailedRank {
    /// Which one.
    pub rank: u32,
    /// Its exit code.
    pub exit_code: i32,
    /// Seconds since the run began.
    pub secs: f64,
}

/// The rank that brought the run down, by its own account.
///
/// Nobody, where the first to end was told to by a signal: a rank that was killed by SIGKILL, which cannot tell, may be the reason.
pub fn failed_rank(recording: &Recording) -> Option<FailedRank> {
    let ends = recording
        .events
        .iter()
        .filter_map(|timed| match timed.event {
            Event::RankEnded {
                rank,
                exit_code,
                signal,
            } if signal.is_some() || exit_code.is_some_and(|code| code != 0) => {
                Some((timed.time_nanos, rank, exit_code))
            }
            _ => None,
        });
    let (time_nanos, rank, exit_code) = ends.min_by_key(|(time_nanos, ..)| *time_nanos)?;
    Some(FailedRank {
        rank,
        exit_code: exit_code?,
        secs: to_secs(time_nanos),
    })
}

/// The ending of the process that began a run, or that of a rank which failed before it.
pub fn with_failed_rank(recording: &Recording, ending: Ending) -> Ending {
    // A job ends as its command does.
    if recording.description.mode != RunMode::Python
        || !matches!(
            ending.status,
            RunStatus::Exited | RunStatus::Ended | RunStatus::Killed | RunStatus::Lost
        )
    {
        return ending;
    }
    let has_failed = ending.signal.is_some() || ending.exit_code.is_some_and(|code| code != 0);
    match failed_rank(recording) {
        Some(failed) if !has_failed || failed.secs < to_secs(ending.time_nanos) => Ending {
            status: RunStatus::Exited,
            exit_code: Some(failed.exit_code),
            signal: None,
            // Other ranks may go on after the one that began the run.
            time_nanos: ending.time_nanos.max(from_secs(failed.secs)),
            ..ending
        },
        _ => ending,
    }
}

impl FailedRank {
    /// As part of a run of this length: a rank tells of its end when its process ends, a moment after the run did.
    pub(crate) fn within(self, duration_secs: f64) -> FailedRank {
        FailedRank {
            secs: self.secs.min(duration_secs),
            ..self
        }
    }
}

fn from_secs(secs: f64) -> u64 {
    (secs * NANOS_PER_SEC as f64).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::{TimedEvent, fixture};

    const SECOND: u64 = 1_000_000_000;

    fn recording(ends: &[(u64, u32, Option<i32>, Option<i32>)]) -> Recording {
        let mut recording = fixture::recording();
        recording.description.mode = RunMode::Python;
        let ended = |(secs, rank, exit_code, signal): &(u64, u32, Option<i32>, Option<i32>)| {
            let event = Event::RankEnded {
                rank: *rank,
                exit_code: *exit_code,
                signal: *signal,
            };
            TimedEvent {
                time_nanos: secs * SECOND,
                event,
            }
        };
        recording.events = ends.iter().map(ended).collect();
        recording
    }

    fn ending(status: RunStatus, exit_code: Option<i32>, signal: Option<i32>) -> Ending {
        Ending {
            status,
            exit_code,
            signal,
            time_nanos: 10 * SECOND,
            oom: None,
            left_running: Vec::new(),
            recorder_death: None,
            lost_rank: None,
            gpu_out_of_memory: None,
        }
    }

    #[test]
    fn the_rank_that_failed_first_is_how_the_run_ended() {
        let failed = recording(&[
            (9, 3, None, Some(15)),
            (8, 1, Some(9), None),
            (2, 2, Some(0), None),
        ]);
        let owners = [
            ending(RunStatus::Killed, None, Some(15)),
            ending(RunStatus::Exited, Some(0), None),
            ending(RunStatus::Ended, None, None),
        ];
        for owner in owners {
            let ended = with_failed_rank(&failed, owner);
            assert_eq!(
                (ended.status, ended.exit_code),
                (RunStatus::Exited, Some(9))
            );
            assert_eq!((ended.signal, ended.time_nanos), (None, 10 * SECOND));
        }
        assert_eq!(failed_rank(&failed).unwrap().rank, 1);
    }

    #[test]
    fn a_rank_that_fails_after_the_first_has_left_fails_within_the_run() {
        let failed = recording(&[(12, 1, Some(9), None)]);
        let ended = with_failed_rank(&failed, ending(RunStatus::Exited, Some(0), None));
        assert_eq!((ended.exit_code, ended.time_nanos), (Some(9), 12 * SECOND));
        // The first rank's own failure, told a moment after the run ended by it.
        let told = failed_rank(&failed).unwrap();
        assert_eq!(told.within(12.0).secs, 12.0);
        assert_eq!(told.within(11.9).secs, 11.9);
    }

    #[test]
    fn ranks_that_were_ended_afterwards_are_not_the_cause() {
        let ended_later = recording(&[(11, 1, None, Some(15))]);
        let owner = ending(RunStatus::Exited, Some(3), None);
        assert_eq!(with_failed_rank(&ended_later, owner.clone()), owner);
        // Rank 0 was killed and could not say so.
        let lost = ending(RunStatus::Lost, None, None);
        assert_eq!(with_failed_rank(&ended_later, lost.clone()), lost);
        assert_eq!(failed_rank(&ended_later), None);
    }

    #[test]
    fn a_job_ends_as_its_command_does() {
        let mut job = recording(&[(1, 1, Some(9), None)]);
        job.description.mode = RunMode::Run;
        let command = ending(RunStatus::Exited, Some(1), None);
        assert_eq!(with_failed_rank(&job, command.clone()), command);
        let mut python = job;
        python.description.mode = RunMode::Python;
        let oom = ending(RunStatus::OomKilled, None, Some(9));
        assert_eq!(with_failed_rank(&python, oom.clone()), oom);
    }
}
