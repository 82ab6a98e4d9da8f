//! Closes what a process that we forked inherited, so that nobody waits for the end of a pipe because of it.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// The first descriptor behind standard input, output and error.
const KEPT_AT: RawFd = 3;

/// Closes every descriptor but this one, which moves to number 3 and does not survive `exec`.
/// Standard input, output and error become `/dev/null`.
///
/// # Safety
/// For a process that has just been forked, in which nothing else owns a descriptor.
pub(crate) unsafe fn close_all_but(kept: RawFd) -> OwnedFd {
    // SAFETY: descriptors of a process in which nobody else runs.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        for standard in 0..KEPT_AT {
            libc::dup2(null, standard);
        }
        if kept != KEPT_AT {
            libc::dup2(kept, KEPT_AT);
        }
        libc::fcntl(KEPT_AT, libc::F_SETFD, libc::FD_CLOEXEC);
        libc::syscall(
            libc::SYS_close_range,
            KEPT_AT as libc::c_uint + 1,
            libc::c_uint::MAX,
            0,
        );
        OwnedFd::from_raw_fd(KEPT_AT)
    }
}
