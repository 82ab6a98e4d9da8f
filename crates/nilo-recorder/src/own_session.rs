//! Starts a helper process of ours that is no part of the job: not our child, and in a session of its own.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::inherited_descriptors::close_all_but;

/// Runs `serve` in a new process, and gives our end of a socket that keeps packets apart, with the session, whose leader has ended.
///
/// To be called before the caller has threads, descriptors of its own and the job; afterwards it may become the reaper of orphans.
pub(crate) fn start_in_own_session(
    name: &CStr,
    serve: impl FnOnce(OwnedFd),
) -> io::Result<(OwnedFd, u32)> {
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: plain system calls. The children run ordinary code after fork: the caller has no other threads whose locks they could inherit,
    // and the C library keeps its allocator usable in any case. They leave by `_exit`, so nothing of the parent is run twice.
    let session = unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
        match libc::fork() {
            -1 => return Err(io::Error::last_os_error()),
            0 => {
                libc::setsid();
                if libc::fork() == 0 {
                    let socket = close_all_but(theirs.as_raw_fd());
                    libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0);
                    serve(socket);
                }
                libc::_exit(0);
            }
            child => {
                libc::waitpid(child, std::ptr::null_mut(), 0);
                child as u32
            }
        }
    };
    Ok((ours, session))
}
