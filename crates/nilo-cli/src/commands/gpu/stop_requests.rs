//! Ctrl-C and the like while a program of ours runs: it is ended first, then we die of the signal.

use std::sync::atomic::{AtomicI32, Ordering};

use crate::end_by_signal::end_by_signal;

/// The signal that came; 0 is none.
static CAME: AtomicI32 = AtomicI32::new(0);

/// Listens to requests to end, until dropped. Those that were ignored (`nohup`) stay ignored.
pub(super) struct StopRequests {
    before: Vec<(i32, libc::sighandler_t)>,
}

extern "C" fn note(signal: i32) {
    CAME.store(signal, Ordering::Relaxed);
}

impl StopRequests {
    pub(super) fn listen() -> StopRequests {
        let mut before = Vec::new();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
            let handler = note as *const () as libc::sighandler_t;
            // SAFETY: the handler only stores to an atomic.
            let old = unsafe { libc::signal(signal, handler) };
            if old == libc::SIG_IGN {
                // SAFETY: puts back what was there.
                unsafe { libc::signal(signal, old) };
            }
            before.push((signal, old));
        }
        StopRequests { before }
    }

    pub(super) fn came(&self) -> bool {
        CAME.load(Ordering::Relaxed) != 0
    }

    /// Dies of the signal that came.
    pub(super) fn obey(&self) {
        end_by_signal(CAME.load(Ordering::Relaxed));
    }
}

impl Drop for StopRequests {
    fn drop(&mut self) {
        for (signal, old) in &self.before {
            // SAFETY: puts back what `listen` found.
            unsafe { libc::signal(*signal, *old) };
        }
    }
}
