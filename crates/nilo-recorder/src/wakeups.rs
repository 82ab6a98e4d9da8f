//! The sampling thread is woken on time, however busy the machine is.

/// Less than the kernel's own slice of a few milliseconds, in which a tick of most trees is done.
const SLICE_NANOS: u64 = 100_000;

/// Asks the kernel to wake this thread when it wants to be, once the command has started: that keeps its own attributes.
pub(crate) fn ask_for_prompt_wakeups(interval_nanos: u64) {
    // The kernel may delay timers by 50 µs; at a millisecond that matters.
    if interval_nanos < 20_000_000 {
        // SAFETY: sets an attribute of this thread; no memory is involved.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
    }
    shorten_slice();
}

/// Who asks for a short slice runs before those with longer ones, for no larger share of the processor (Linux 6.12; earlier ones do nothing).
///
/// Beside ten busy loops on two cores, 95 of 100 wake-ups came up to 4 ms late without it, 0.1 ms with it.
fn shorten_slice() {
    let size = size_of::<libc::sched_attr>() as u32;
    // SAFETY: a structure of numbers, for which zeros are values.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills at most `size` bytes of a structure that is ours.
    let read = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &mut attributes, size, 0) };
    // Whoever chose another policy for us has reasons.
    if read != 0 || attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return;
    }
    attributes.size = size;
    attributes.sched_runtime = SLICE_NANOS;
    // SAFETY: the kernel reads the structure; the other attributes stay as they were read.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &attributes, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nice_and_policy_of_the_thread_stay() {
        let of_a_thread = std::thread::spawn(|| {
            // SAFETY: sets and reads attributes of this thread.
            unsafe {
                assert_eq!(libc::setpriority(libc::PRIO_PROCESS, 0, 7), 0);
                ask_for_prompt_wakeups(100_000_000);
                (
                    libc::getpriority(libc::PRIO_PROCESS, 0),
                    libc::sched_getscheduler(0),
                )
            }
        });
        assert_eq!(of_a_thread.join().unwrap(), (7, libc::SCHED_OTHER));
    }
}
