//! The end of a run whose process is ended by SIGTERM, as `timeout`, `scancel` and `multiprocessing.Pool` do.
//!
//! Nobody but the process itself can tell: its parent collects the exit status, and the kernel tells no other.
//! So the handler adds the end to the run, and the default action follows. Programs that handle or ignore SIGTERM keep doing so.

use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use nilo_runfile::PreparedEvent;
use nilo_sample::Event;

/// Runs that can be open at a time; further ones are not told of the signal.
const MOST_RUNS: usize = 16;

static WAITING: [AtomicPtr<PendingEnd>; MOST_RUNS] = [const { AtomicPtr::new(ptr::null_mut()) }; _];

struct PendingEnd {
    pid: u32,
    event: PreparedEvent,
}

/// The place of a run among those that SIGTERM would end; dropped when the run has ended in another way.
pub(crate) struct EndsBySigterm(usize);

impl EndsBySigterm {
    /// None where SIGTERM does not end the program, or the run's folder cannot be written.
    /// `ended` is the event that tells of it.
    pub(crate) fn watch(run_dir: &Path, ended: &Event) -> Option<EndsBySigterm> {
        // The default action does not end a container's first process.
        if std::process::id() == 1 || !install() {
            return None;
        }
        let waiting = Box::into_raw(Box::new(PendingEnd {
            pid: std::process::id(),
            event: PreparedEvent::new(run_dir, ended).ok()?,
        }));
        for (index, slot) in WAITING.iter().enumerate() {
            let (order, null) = (Ordering::AcqRel, ptr::null_mut());
            if slot
                .compare_exchange(null, waiting, order, Ordering::Relaxed)
                .is_ok()
            {
                return Some(EndsBySigterm(index));
            }
        }
        // SAFETY: it came from a box and nobody else has it.
        drop(unsafe { Box::from_raw(waiting) });
        None
    }
}

impl Drop for EndsBySigterm {
    fn drop(&mut self) {
        let waiting = WAITING[self.0].swap(ptr::null_mut(), Ordering::AcqRel);
        if !waiting.is_null() {
            // SAFETY: it came from a box, and whoever swaps it out is the only one to have it.
            drop(unsafe { Box::from_raw(waiting) });
        }
    }
}

/// Whether our handler stands, in place of the default action.
fn install() -> bool {
    let handler = on_sigterm as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: plain sigaction calls with zero-initialised structures, which is their documented empty state.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGTERM, ptr::null(), &mut now) != 0 {
            return false;
        }
        if now.sa_sigaction == handler {
            return true;
        }
        if now.sa_sigaction != libc::SIG_DFL {
            return false;
        }
        let mut ours: libc::sigaction = std::mem::zeroed();
        ours.sa_sigaction = handler;
        ours.sa_flags = libc::SA_RESETHAND;
        libc::sigaction(libc::SIGTERM, &ours, ptr::null_mut()) == 0
    }
}

extern "C" fn on_sigterm(signal: libc::c_int) {
    // Not `std::process::id`: only what POSIX calls async-signal-safe.
    // SAFETY: getpid is async-signal-safe.
    let pid = unsafe { libc::getpid() } as u32;
    for slot in &WAITING {
        let waiting = slot.swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: whoever swaps it out has it alone; it is never freed here, since the process ends.
        if let Some(waiting) = unsafe { waiting.as_ref() }
            && waiting.pid == pid
        {
            waiting.event.append_now();
        }
    }
    // The default action stands again (SA_RESETHAND), and follows as soon as this returns.
    // SAFETY: raise is async-signal-safe.
    unsafe { libc::raise(signal) };
}
