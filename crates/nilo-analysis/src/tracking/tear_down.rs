//! When a job that has ended began to give its memory back.
//!
//! A program frees what it holds before it is gone, and a sample may fall into that moment: it tells nothing of what the job needed or was about to need.

use nilo_sample::units::NANOS_PER_SEC;
use nilo_sample::{Recording, RunStatus, Subject};

/// Giving memory back takes less than this.
const LONGEST_NANOS: u64 = NANOS_PER_SEC / 2;

/// The time from which on the job's memory only fell until it ended.
pub(super) fn began(recording: &Recording) -> Option<u64> {
    let ending = recording.description.ending.as_ref()?;
    // A job that is no longer watched has not ended.
    if matches!(ending.status, RunStatus::Running | RunStatus::Detached) {
        return None;
    }
    let levels = recording.table(&Subject::Tree)?.series("memory_bytes")?;
    let levels: Vec<(u64, f64)> = levels.present().collect();
    let (last, _) = *levels.last()?;
    let falling = levels.windows(2).rev().take_while(|pair| {
        let [(_, before), (time, level)] = pair else {
            return false;
        };
        level < before && time + LONGEST_NANOS >= last
    });
    falling.last().map(|pair| pair[1].0)
}
