//! Ctrl-Z: while we are stopped the terminal has its old title back, and the next figure sets ours again.
//!
//! A process that is stopped cannot write, so the handler of SIGTSTP does it before it stops us as the default action would.
//! SIGSTOP cannot be handled: there the title stays.

use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use super::terminal_title::POP;

/// The terminal, as a descriptor that never blocks the handler; -1 while there is no title.
static TERMINAL: AtomicI32 = AtomicI32::new(-1);
/// Whether our title is on the terminal, and the old one on the terminal's stack.
static IS_SHOWN: AtomicBool = AtomicBool::new(false);

/// Our title goes to the terminal; whether it was there already.
pub(crate) fn mark_shown() -> bool {
    IS_SHOWN.swap(true, Ordering::Relaxed)
}

/// The old title comes back; whether ours was there.
pub(crate) fn mark_gone() -> bool {
    IS_SHOWN.swap(false, Ordering::Relaxed)
}

pub(crate) fn is_shown() -> bool {
    IS_SHOWN.load(Ordering::Relaxed)
}

/// Takes the title back whenever we are about to be stopped. Once is enough; the command must have been started, so that it does not inherit anything.
pub(crate) fn watch_for_stops() {
    let Ok(terminal) = nilo_source::reopen_stderr(libc::O_NONBLOCK | libc::O_NOCTTY) else {
        return;
    };
    TERMINAL.store(terminal.into_raw_fd(), Ordering::Relaxed);
    // SAFETY: asks for the present action with a zero-initialised structure, its documented empty state.
    let is_ignored = unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGTSTP, std::ptr::null(), &mut old);
        old.sa_sigaction == libc::SIG_IGN
    };
    if !is_ignored {
        handle_stops();
    }
}

fn handle_stops() {
    // SAFETY: as above; the handler only makes calls that are safe in one.
    unsafe {
        let mut new: libc::sigaction = std::mem::zeroed();
        new.sa_sigaction = on_stop as *const () as usize;
        new.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGTSTP, &new, std::ptr::null_mut());
    }
}

extern "C" fn on_stop(signal: i32) {
    let terminal = TERMINAL.load(Ordering::Relaxed);
    // SAFETY: system calls that may be made in a signal handler; errno is restored for the interrupted code.
    unsafe {
        let errno = *libc::__errno_location();
        let is_foreground = libc::tcgetpgrp(terminal) == libc::getpgrp();
        if is_foreground && mark_gone() {
            libc::write(terminal, POP.as_ptr().cast(), POP.len());
        }
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
        let mut stop: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&mut stop, signal);
        // Here we are stopped, and here we go on.
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &stop, std::ptr::null_mut());
        handle_stops();
        *libc::__errno_location() = errno;
    }
}
