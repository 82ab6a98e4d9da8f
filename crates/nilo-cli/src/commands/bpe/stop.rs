//! Ctrl-C during long work: the first one asks to stop at the next safe place, the second one ends at once.

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

/// What becomes of a read that waits for input when the signal comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitingReads {
    /// It goes on: the work looks for itself whether it should stop.
    GoOn,
    /// It breaks off, with [`std::io::ErrorKind::Interrupted`]: otherwise a terminal without input would hold us.
    BreakOff,
}

/// Listens from here on to SIGINT and SIGTERM.
pub(super) fn listen(reads: WaitingReads) {
    extern "C" fn asked(_signal: i32) {
        ASKED.store(true, Ordering::Relaxed);
    }
    let restart = match reads {
        WaitingReads::GoOn => libc::SA_RESTART,
        WaitingReads::BreakOff => 0,
    };
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the structure is plain numbers, an empty mask among them; the handler stores one flag.
        // The next signal gets the system's own treatment, which SA_RESETHAND brings back.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = asked as *const () as usize;
            action.sa_flags = restart | libc::SA_RESETHAND;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// Whether the user asked.
pub(super) fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
