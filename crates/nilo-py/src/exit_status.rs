//! The status that the program ends with. Python's exit handlers are not told it, the C library's are.

use std::sync::{Mutex, PoisonError};

/// What waits for the status.
type StatusCallback = Box<dyn FnOnce(Option<i32>) + Send>;

static WAITING: Mutex<Vec<StatusCallback>> = Mutex::new(Vec::new());

/// Calls something with the exit status when the process ends; at once and without it where the C library does not tell.
pub(crate) fn with_exit_status(work: impl FnOnce(Option<i32>) + Send + 'static) {
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    if !waiting.is_empty() || system::call_at_exit() {
        waiting.push(Box::new(work));
        return;
    }
    drop(waiting);
    work(None);
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod system {
    use std::ffi::{c_int, c_void};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::PoisonError;

    unsafe extern "C" {
        fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    }

    /// Runs when the interpreter is gone: nothing of Python may be touched.
    extern "C" fn at_exit(status: c_int, _argument: *mut c_void) {
        let waiting = {
            let mut waiting = super::WAITING
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *waiting)
        };
        // The parent sees the lowest eight bits.
        let status = status & 0xff;
        for work in waiting {
            catch_unwind(AssertUnwindSafe(|| work(Some(status)))).ok();
        }
    }

    pub(super) fn call_at_exit() -> bool {
        // SAFETY: the function has the type that glibc documents, lives as long as the process, and does not unwind.
        unsafe { on_exit(at_exit, std::ptr::null_mut()) == 0 }
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod system {
    pub(super) fn call_at_exit() -> bool {
        false
    }
}
