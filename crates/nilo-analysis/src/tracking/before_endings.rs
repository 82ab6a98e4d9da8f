//! The growth of a job before its processes ended: a job that ends process by process gives its memory back on the way.

use nilo_forecast::Growth;
use nilo_sample::units::NANOS_PER_SEC;

/// A job ends, process by process, within this time.
const ENDING_NANOS: u64 = 5 * NANOS_PER_SEC;
/// A job is over so soon after the last of its processes that had lived for some time: a launcher notices their end, a script copies a file.
/// What goes on for longer is a job that has got the memory back.
const LEFT_OVER_NANOS: u64 = 2 * NANOS_PER_SEC;

/// How the job grew when a process of it that had lived for some time ended: a job that ends process by process gives its memory back on the way.
#[derive(Debug, Clone, Copy)]
pub(super) struct BeforeEndings {
    time_nanos: u64,
    /// When the last of them ended, so far.
    last_nanos: u64,
    pub(super) growth: Option<Growth>,
}

impl BeforeEndings {
    /// A process has ended: the first ending of a series is the one before which the job was whole.
    pub(super) fn remember(
        before: &mut Option<BeforeEndings>,
        now_nanos: u64,
        growth: impl FnOnce() -> Option<Growth>,
    ) {
        match before {
            Some(before) if now_nanos.saturating_sub(before.time_nanos) <= ENDING_NANOS => {
                before.last_nanos = now_nanos;
            }
            other => {
                *other = Some(BeforeEndings {
                    time_nanos: now_nanos,
                    last_nanos: now_nanos,
                    growth: growth(),
                });
            }
        }
    }

    /// Whether the job is ending at this time.
    pub(super) fn is_now(&self, now_nanos: u64) -> bool {
        let since = |nanos: u64| now_nanos.saturating_sub(nanos);
        since(self.time_nanos) <= ENDING_NANOS && since(self.last_nanos) <= LEFT_OVER_NANOS
    }
}
