//! When a job that has ended began to give its memory back.
//!
//! A program frees what it holds before it is gone, and a sample may fall into that moment: it tells nothing of what the job needed or was about to need.

use nilo_sample::units::NANOS_PER_SEC;
use nilo_sample::{Ending, Recording, RunStatus, Subject};

use crate::exceptions::failed_allocation;

/// Giving memory back takes less than this.
const LONGEST_NANOS: u64 = NANOS_PER_SEC / 2;

/// A job that stands still for longer than this after it gave memory back lives on without it.
const LONGEST_PAUSE_NANOS: u64 = NANOS_PER_SEC / 4;

/// The time from which on rows of a job do not tell what it needed: it gives its memory back, an allocation failed, or the kernel has killed it.
/// What a job does after that did not lead there.
pub fn ending_began(recording: &Recording, ending: &Ending) -> Option<u64> {
    let failed = failed_allocation(recording, ending).map(|(nanos, _)| nanos);
    let ran_out = ending.kill_nanos().or(failed);
    let ran_out = ran_out.map(|nanos| nanos.saturating_add(1));
    let times = [tear_down_began(recording, ending), ran_out];
    times.into_iter().flatten().min()
}

fn tear_down_began(recording: &Recording, ending: &Ending) -> Option<u64> {
    // A job that is no longer watched has not ended.
    if matches!(
        ending.status,
        RunStatus::Running | RunStatus::Detached | RunStatus::Lost
    ) {
        return None;
    }
    let levels = recording.table(&Subject::Tree)?.series("memory_bytes")?;
    let levels: Vec<(u64, f64)> = levels.present().collect();
    last_fall_began(&levels)
}

/// The time from which on the memory of a job fell and did not rise again until it ended with the last of these levels.
pub fn last_fall_began(levels: &[(u64, f64)]) -> Option<u64> {
    let (last, _) = *levels.last()?;
    let pairs = levels.windows(2).rev().map(|pair| (pair[0].1, pair[1]));
    // Two samples may fall between two frees.
    let not_rising =
        pairs.take_while(|(before, (time, level))| level <= before && time + LONGEST_NANOS >= last);
    let falling = not_rising.filter(|(before, (_, level))| level < before);
    let mut began = None;
    for (_, (time, _)) in falling {
        if time + LONGEST_PAUSE_NANOS < began.unwrap_or(last) {
            break;
        }
        began = Some(time);
    }
    began
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: u64 = NANOS_PER_SEC / 10;

    fn began(levels: &[f64]) -> Option<u64> {
        let times = (0..).map(|tick| tick * TICK);
        last_fall_began(&times.zip(levels.iter().copied()).collect::<Vec<_>>())
            .map(|nanos| nanos / TICK)
    }

    #[test]
    fn a_job_that_gives_its_memory_back_and_is_gone_is_ending() {
        assert_eq!(began(&[1.0, 5.0, 9.0, 4.0]), Some(3));
        assert_eq!(began(&[1.0, 5.0, 9.0, 6.0, 6.0, 2.0]), Some(3));
        assert_eq!(began(&[1.0, 5.0, 9.0, 4.0, 4.0]), Some(3));
        assert_eq!(began(&[1.0, 5.0, 9.0]), None);
    }

    /// It has freed what it kept, and does something else before it ends.
    #[test]
    fn a_job_that_lives_on_without_what_it_gave_back_is_not_ending_yet() {
        assert_eq!(began(&[1.0, 5.0, 9.0, 1.0, 1.0, 1.0, 1.0]), None);
        assert_eq!(began(&[1.0, 5.0, 9.0, 2.0, 2.0, 2.0, 2.0, 1.0]), Some(7));
    }
}
