//! The rank of a distributed run that ended without a word before the others were stopped.
//!
//! A rank that is killed by SIGKILL cannot tell. Its launcher then sends SIGTERM to the others, which do tell:
//! a rank that wrote to the run, did not close its file, told of no end and is gone was there first.

use std::collections::BTreeSet;

use nilo_sample::{Ending, Event, LostRank, ProcessId, Recording, RunMode, RunStatus};

const SIGTERM: i32 = 15;

/// What is gone later than this after the first SIGTERM is no reason for it: launchers look several times a second.
const SAME_MOMENT_NANOS: u64 = 1_500_000_000;

/// The ending with the rank that was lost first, if there is one; that is how the run ended too.
/// `is_gone` tells whether a process of this machine has ended.
pub fn with_lost_rank(
    recording: &Recording,
    ending: Ending,
    is_gone: &dyn Fn(&ProcessId) -> bool,
) -> Ending {
    let is_open = matches!(
        ending.status,
        RunStatus::Running | RunStatus::OomKilled | RunStatus::GpuOutOfMemory
    );
    let lost_rank = match is_open {
        true => None,
        false => find_lost_rank(recording, is_gone),
    };
    // A job ends as its command does.
    if lost_rank.is_none() || recording.description.mode != RunMode::Python {
        return Ending {
            lost_rank,
            ..ending
        };
    }
    Ending {
        status: RunStatus::Lost,
        exit_code: None,
        signal: None,
        lost_rank,
        ..ending
    }
}

fn find_lost_rank(recording: &Recording, is_gone: &dyn Fn(&ProcessId) -> bool) -> Option<LostRank> {
    let mut told = BTreeSet::new();
    let mut first: Option<(u64, Option<i32>)> = None;
    for timed in &recording.events {
        if let Event::RankEnded { rank, signal, .. } = timed.event {
            told.insert(rank);
            if first.is_none_or(|(time_nanos, _)| timed.time_nanos < time_nanos) {
                first = Some((timed.time_nanos, signal));
            }
        }
    }
    let (stopped_nanos, signal) = first?;
    if signal != Some(SIGTERM) {
        return None;
    }
    // Workers write as their rank; one that ended in good order speaks for it.
    let ended = recording.ranks.iter().filter(|it| it.has_left);
    told.extend(ended.map(|it| it.rank));
    let silent = recording.ranks.iter();
    let silent = silent.filter(|it| !told.contains(&it.rank) && is_gone(&it.id));
    let lost = silent.filter_map(|it| {
        let seen = ended_nanos(recording, &it.id).unwrap_or(it.written_until_nanos);
        let last = seen.max(it.written_until_nanos);
        (last <= stopped_nanos.saturating_add(SAME_MOMENT_NANOS)).then_some(LostRank {
            rank: it.rank,
            time_nanos: seen.min(stopped_nanos),
        })
    });
    lost.min_by_key(|lost| (lost.time_nanos, lost.rank))
}

/// When a recorder saw that a process had ended.
fn ended_nanos(recording: &Recording, process: &ProcessId) -> Option<u64> {
    let mut ends = recording.events.iter();
    ends.find_map(|timed| match timed.event {
        Event::ProcessEnded { id, .. } if id == *process => Some(timed.time_nanos),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::{RecordedRank, TimedEvent, fixture};

    const SECOND: u64 = 1_000_000_000;

    fn id(pid: u32) -> ProcessId {
        ProcessId {
            pid,
            start_ticks: 1,
        }
    }

    /// Ranks 0 and 1 with these PIDs wrote until the third second; rank 0 told of this end in the fifth.
    fn recording(exit_code: Option<i32>, signal: Option<i32>) -> Recording {
        let mut recording = fixture::recording();
        recording.description.mode = RunMode::Python;
        recording.ranks = (0..2)
            .map(|rank| RecordedRank {
                rank,
                id: id(rank),
                written_until_nanos: 3 * SECOND,
                has_left: false,
            })
            .collect();
        recording.events = vec![TimedEvent {
            time_nanos: 5 * SECOND,
            event: Event::RankEnded {
                rank: 0,
                exit_code,
                signal,
            },
        }];
        recording
    }

    fn killed() -> Ending {
        Ending {
            status: RunStatus::Killed,
            exit_code: None,
            signal: Some(SIGTERM),
            time_nanos: 6 * SECOND,
            oom: None,
            left_running: Vec::new(),
            recorder_death: None,
            lost_rank: None,
            gpu_out_of_memory: None,
        }
    }

    #[test]
    fn a_rank_that_is_gone_without_a_word_is_how_the_run_ended() {
        let mut lost = recording(None, Some(SIGTERM));
        let ended = with_lost_rank(&lost, killed(), &|_| true);
        assert_eq!((ended.status, ended.signal), (RunStatus::Lost, None));
        let rank = ended.lost_rank.unwrap();
        assert_eq!((rank.rank, rank.time_nanos), (1, 3 * SECOND));
        lost.events.push(TimedEvent {
            time_nanos: 4 * SECOND,
            event: Event::ProcessEnded {
                id: id(1),
                peak_rss_bytes: None,
                exit_code: None,
                signal: None,
            },
        });
        let ended = with_lost_rank(&lost, killed(), &|_| true);
        assert_eq!(ended.lost_rank.unwrap().time_nanos, 4 * SECOND);
        // The job of the run ends as its command does, and names the rank.
        lost.description.mode = RunMode::Run;
        let ended = with_lost_rank(&lost, killed(), &|_| true);
        assert_eq!((ended.signal, ended.lost_rank.is_some()), (Some(15), true));
    }

    #[test]
    fn nobody_is_lost_who_lives_or_left_or_was_stopped_with_the_others() {
        let stopped = recording(None, Some(SIGTERM));
        assert_eq!(with_lost_rank(&stopped, killed(), &|_| false), killed());
        let mut left = stopped.clone();
        left.ranks[1].has_left = true;
        assert_eq!(with_lost_rank(&left, killed(), &|_| true), killed());
        let mut later = stopped.clone();
        later.ranks[1].written_until_nanos = 9 * SECOND;
        assert_eq!(with_lost_rank(&later, killed(), &|_| true), killed());
        let failed = recording(Some(3), None);
        assert_eq!(with_lost_rank(&failed, killed(), &|_| true), killed());
    }
}
