//! The CPU clock of another process: one system call, nanoseconds, no text.
//!
//! A clock id made of a PID is how `clock_getcpuclockid(3)` does it; the kernel asks for no permission.
//! It also tells processes from threads: the id of a thread that does not lead its process is refused, which `kill(tid, 0)` does not do.

/// Nanoseconds of CPU time that the process and its threads have used; `None` for threads and for PIDs nobody has.
///
/// A zombie that nobody waited for still answers, with its final time.
pub(crate) fn process_cpu_nanos(pid: u32) -> Option<u64> {
    // CPUCLOCK_SCHED (2) in the low bits, the complement of the PID above, as the kernel's posix-timers.h has it.
    let clock = (!(i32::try_from(pid).ok()?) << 3) | 2;
    clock_nanos(clock)
}

/// CPU time of the calling thread, for the price of what it did.
pub(crate) fn own_thread_nanos() -> u64 {
    clock_nanos(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0)
}

fn clock_nanos(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid, writable timespec for the whole call; any clock id may be passed.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    if result != 0 {
        return None;
    }
    let secs = u64::try_from(time.tv_sec).ok()?;
    let nanos = u64::try_from(time.tv_nsec).ok()?;
    secs.checked_mul(1_000_000_000)?.checked_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_clock_runs() {
        let before = process_cpu_nanos(std::process::id()).unwrap();
        let mut sum = 0u64;
        for i in 0..3_000_000u64 {
            sum = sum.wrapping_add(std::hint::black_box(i));
        }
        std::hint::black_box(sum);
        assert!(process_cpu_nanos(std::process::id()).unwrap() > before);
    }

    #[test]
    fn a_thread_has_no_process_clock() {
        let (said, hears) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            said.send(rustix::thread::gettid().as_raw_pid()).unwrap();
            std::thread::park();
        });
        let tid = u32::try_from(hears.recv().unwrap()).unwrap();
        assert_eq!(process_cpu_nanos(tid), None);
        thread.thread().unpark();
        thread.join().unwrap();
    }

    #[test]
    fn a_pid_that_cannot_be_has_no_clock() {
        assert_eq!(process_cpu_nanos(u32::MAX), None);
        assert_eq!(process_cpu_nanos(4_194_305), None);
    }
}
