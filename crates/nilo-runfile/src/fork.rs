//! Noticing that this process is a fork of the one that opened a writer.
//!
//! A forked child shares the parent's mapping and file: one more row, or the truncation at close, would damage what the parent records.
//! The writer compares a counter that `pthread_atfork` raises in the child; that costs a load, where `getpid` costs a system call.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

static FORKS: AtomicU32 = AtomicU32::new(0);
static REGISTER: Once = Once::new();

extern "C" fn count_in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Which process we are in, counted in forks since the first writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Generation(u32);

impl Generation {
    /// The present one; registers the handler on first use.
    pub(crate) fn current() -> Generation {
        REGISTER.call_once(|| {
            // SAFETY: the handler touches one atomic, which is safe in a forked child.
            // Failure (no memory) leaves the guard off, as if this file did not exist.
            unsafe { libc::pthread_atfork(None, None, Some(count_in_child)) };
        });
        Generation(FORKS.load(Ordering::Relaxed))
    }

    /// Whether this is still the same process.
    #[inline]
    pub(crate) fn is_current(self) -> bool {
        FORKS.load(Ordering::Relaxed) == self.0
    }
}
