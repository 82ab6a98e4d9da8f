//! Ending as the command ended: of its signal, so that a shell stops its loop and a scheduler sees the truth.

/// Signals that ask a program to end, or to make room: who dies of one was told to.
///
/// The others mean a crash (SEGV, ABRT, BUS, FPE, ILL, SYS, TRAP) or the OOM killer (KILL).
/// Dying of those ourselves would look as if we had crashed or been killed; 128 and the signal says it as well.
fn is_request_to_end(signal: i32) -> bool {
    matches!(
        signal,
        libc::SIGHUP
            | libc::SIGINT
            | libc::SIGQUIT
            | libc::SIGPIPE
            | libc::SIGALRM
            | libc::SIGTERM
            | libc::SIGUSR1
            | libc::SIGUSR2
            | libc::SIGVTALRM
            | libc::SIGPROF
            | libc::SIGIO
            | libc::SIGPWR
            | libc::SIGXCPU
    ) || (libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(&signal)
}

/// Dies of the signal if it is one that asks programs to end; otherwise returns.
///
/// Everything must be written by then: nothing is dropped any more.
pub(crate) fn end_by_signal(signal: i32) {
    if !is_request_to_end(signal) {
        return;
    }
    // SAFETY: plain system calls with zero-initialised structures, which is their documented empty state.
    unsafe {
        // The command's core dump is the interesting one; a pipe as core pattern disregards the limit on its size.
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        libc::signal(signal, libc::SIG_DFL);
        let mut only: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut only);
        libc::sigaddset(&mut only, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &only, std::ptr::null_mut());
        libc::raise(signal);
    }
}
