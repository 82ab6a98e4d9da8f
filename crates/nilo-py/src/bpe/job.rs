//! Long work on a thread of its own, while the calling thread waits without the GIL.
//!
//! The waiting thread wakes ten times a second, takes signals, so that Ctrl-C stops the work, and tells Python how far it has come.
//! Python code never runs on the working thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use nilo_tokenizer::Progress;
use pyo3::prelude::*;

use super::failure::BpeFailure;

const TIME_BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// The total of a stage whose end is not known.
const UNKNOWN: u64 = u64::MAX;

/// Does the work; an exception of the progress function or of a signal handler stops it and is raised.
///
/// The progress function is called with the stage (`count`, `merge`), how much is done, and of how much, if known.
pub(super) fn run<T: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&JobProgress) -> Result<T, BpeFailure> + Send,
) -> PyResult<T> {
    let reached = JobProgress::default();
    let mut told = None;
    let mut raised = None;
    let done = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let _at_the_end = EndNotifier(&reached);
            work(&reached)
        });
        while !py.detach(|| reached.wait()) {
            if raised.is_none()
                && let Err(error) = py
                    .check_signals()
                    .and_then(|()| reached.tell(progress, &mut told))
            {
                reached.stop.store(true, Ordering::Relaxed);
                raised = Some(error);
            }
        }
        worker.join()
    });
    // A panic is a defect, and goes on as one.
    let done = done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    if let Some(error) = raised {
        // What else went wrong while it was being stopped is told along with it.
        if let Err(failure) = done
            && !failure.is_stop()
        {
            error.set_cause(py, Some(failure.into()));
        }
        return Err(error);
    }
    if done.is_ok() {
        reached.tell(progress, &mut told)?;
    }
    Ok(done?)
}

/// How far the work has come, and whether it should stop.
#[derive(Default)]
pub(super) struct JobProgress {
    scanned: Stage,
    merged: Stage,
    stop: AtomicBool,
    ended: Mutex<bool>,
    bell: Condvar,
}

#[derive(Default)]
struct Stage {
    begun: AtomicBool,
    done: AtomicU64,
    total: AtomicU64,
}

/// Stage, done, total.
type StageProgress = (&'static str, u64, Option<u64>);

impl Stage {
    fn set(&self, done: u64, total: Option<u64>) {
        self.done.store(done, Ordering::Relaxed);
        self.total
            .store(total.unwrap_or(UNKNOWN), Ordering::Relaxed);
        self.begun.store(true, Ordering::Release);
    }

    fn get(&self, name: &'static str) -> Option<StageProgress> {
        let begun = self.begun.load(Ordering::Acquire);
        let total = self.total.load(Ordering::Relaxed);
        let done = self.done.load(Ordering::Relaxed);
        begun.then_some((name, done, (total != UNKNOWN).then_some(total)))
    }
}

impl JobProgress {
    /// Waits for the end or the next look; whether it was the end.
    fn wait(&self) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .bell
            .wait_timeout_while(ended, TIME_BETWEEN_LOOKS, |ended| !*ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Tells Python, if there is anything it has not heard.
    fn tell(
        &self,
        progress: Option<&Bound<'_, PyAny>>,
        told: &mut Option<StageProgress>,
    ) -> PyResult<()> {
        let newest = self.merged.get("merge").or(self.scanned.get("count"));
        if let (Some(progress), Some(newest)) = (progress, newest)
            && *told != Some(newest)
        {
            *told = Some(newest);
            progress.call1(newest)?;
        }
        Ok(())
    }
}

impl Progress for JobProgress {
    fn scanned(&self, bytes: u64, total_bytes: Option<u64>) {
        self.scanned.set(bytes, total_bytes);
    }

    fn merged(&self, merges: u64, wanted: u64) {
        self.merged.set(merges, Some(wanted));
    }

    fn should_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Rings when the work ends, also by a panic.
struct EndNotifier<'r>(&'r JobProgress);

impl Drop for EndNotifier<'_> {
    fn drop(&mut self) {
        *self.0.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.bell.notify_all();
    }
}
