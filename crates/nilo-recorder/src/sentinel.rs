//! Tells a signal that was sent to the whole process group from one that was sent to us alone.
//!
//! Nothing in a signal says whether `kill PID` or `kill -PGID` sent it, but the command must be told only in the first case: in the second it has the signal already.
//! So a tiny process stays in our group with every signal blocked.
//! A signal to the group (`kill -TERM -PGID`, `timeout`, Ctrl-C) or to every process of the job one after the other (Slurm, systemd) stays pending there until we ask.
//! Because it stays pending, the answer does not depend on when the sentinel gets to run.
//!
//! It is handed to the init process before we become the tree's reaper, so that it is neither part of the job nor waited for, and it ends when our end of the socket closes.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};

use crate::inherited_descriptors::close_all_but;

/// No sentinel that runs needs this long for an answer, on however busy a machine.
const LONGEST_ANSWER: Timespec = Timespec {
    tv_sec: 5,
    tv_nsec: 0,
};
/// As `ps` shows it.
/// Without our own name: `pkill nilo` is meant for us alone, and would look like a signal to the group if it hit the sentinel too.
const NAME: &std::ffi::CStr = c"signal-sentinel";

/// Signals, one bit for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SignalSet(u64);

impl SignalSet {
    pub(crate) fn insert(&mut self, signal: i32) {
        if (1..=64).contains(&signal) {
            self.0 |= 1 << (signal - 1);
        }
    }

    pub(crate) fn contains(self, signal: i32) -> bool {
        (1..=64).contains(&signal) && self.0 & (1 << (signal - 1)) != 0
    }
}

/// Our end.
pub(crate) struct Sentinel {
    socket: OwnedFd,
    pid: u32,
}

impl Sentinel {
    /// Starts the process; to be called before there are threads and the job.
    ///
    /// The first process of a container gets none: orphans fall to it, so the sentinel would be its child and part of the job.
    pub(crate) fn start() -> Option<Sentinel> {
        if std::process::id() == 1 {
            return None;
        }
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .ok()?;
        // SAFETY: plain system calls in a process without other threads. The children leave by `_exit`, so nothing of ours runs twice.
        unsafe {
            libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
            let mut all: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&mut all);
            // Blocked before the fork, so that no signal finds the sentinel unprepared.
            libc::pthread_sigmask(libc::SIG_BLOCK, &all, &mut before);
            let child = libc::fork();
            if child == 0 {
                if libc::fork() == 0 {
                    serve(close_all_but(theirs.as_raw_fd()));
                }
                libc::_exit(0);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
            if child < 0 {
                return None;
            }
            while libc::waitpid(child, std::ptr::null_mut(), 0) < 0
                && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
            {}
        }
        drop(theirs);
        let mut sentinel = Sentinel {
            socket: ours,
            pid: 0,
        };
        let mut greeting = [0; 4];
        sentinel.receive(&mut greeting)?;
        sentinel.pid = u32::from_ne_bytes(greeting);
        Some(sentinel)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// The signals that arrived there since the last call; `None` when there is no answer and never will be.
    pub(crate) fn received(&self) -> Option<SignalSet> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        send(&self.socket, &[0], flags).ok()?;
        let mut answer = [0; 8];
        self.receive(&mut answer)?;
        Some(SignalSet(u64::from_ne_bytes(answer)))
    }

    fn receive(&self, answer: &mut [u8]) -> Option<()> {
        loop {
            let mut ready = [PollFd::new(&self.socket, PollFlags::IN)];
            match poll(&mut ready, Some(&LONGEST_ANSWER)) {
                Err(rustix::io::Errno::INTR) => continue,
                Ok(1..) => {}
                _ => return None,
            }
            let (length, _) = recv(&self.socket, &mut *answer, RecvFlags::DONTWAIT).ok()?;
            return (length == answer.len()).then_some(());
        }
    }
}

/// Shows [`NAME`] as the command line: `pkill -f train.py` or `pkill -f 'nilo run'` must not hit the copy of ours.
///
/// # Safety
/// For a process that does not use its arguments any more.
unsafe fn replace_command_line() {
    let Some(place) = nilo_source::own_arguments() else {
        return;
    };
    let name = NAME.to_bytes();
    let length = name.len().min(place.len() - 1);
    // SAFETY: the kernel says that our arguments lie there, on our own stack, which can be written.
    unsafe {
        let arguments = std::ptr::with_exposed_provenance_mut::<u8>(place.start);
        arguments.write_bytes(0, place.len());
        arguments.copy_from_nonoverlapping(name.as_ptr(), length);
    }
}

/// Answers until the recorder is gone.
fn serve(socket: OwnedFd) -> ! {
    let socket = socket.as_raw_fd();
    // SAFETY: system calls on our own buffers and the one descriptor that is left; nobody uses our arguments any more.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr(), 0, 0, 0);
        replace_command_line();
        let pid = std::process::id().to_ne_bytes();
        libc::send(socket, pid.as_ptr().cast(), pid.len(), libc::MSG_NOSIGNAL);
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        let at_once: libc::timespec = std::mem::zeroed();
        let mut question = [0u8; 1];
        while libc::recv(socket, question.as_mut_ptr().cast(), 1, 0) == 1 {
            let mut received = SignalSet::default();
            loop {
                let signal = libc::sigtimedwait(&all, std::ptr::null_mut(), &at_once);
                if signal <= 0 {
                    break;
                }
                received.insert(signal);
            }
            let answer = received.0.to_ne_bytes();
            libc::send(
                socket,
                answer.as_ptr().cast(),
                answer.len(),
                libc::MSG_NOSIGNAL,
            );
        }
        libc::_exit(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_the_first_and_the_last_signal() {
        let mut set = SignalSet::default();
        for signal in [1, 15, 64, 0, 65, -3] {
            set.insert(signal);
        }
        let held: Vec<i32> = (-5..70).filter(|signal| set.contains(*signal)).collect();
        assert_eq!(held, [1, 15, 64]);
    }
}
