//! Ctrl-C during long work: the first one asks to stop at the next safe place, the second one ends at once.

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

/// Listens from now on to SIGINT and SIGTERM.
pub(crate) fn listen() {
    extern "C" fn asked(signal: i32) {
        ASKED.store(true, Ordering::Relaxed);
        // SAFETY: `signal` may be called in a handler; the next one gets the system's own treatment.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler stores one flag and restores the default, both of which handlers may do.
        unsafe { libc::signal(signal, asked as *const () as usize) };
    }
}

/// Whether the user asked.
pub(crate) fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
