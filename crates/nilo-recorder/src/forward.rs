//! Handing signals on to the command, each exactly once.
//!
//! A signal to our PID alone is meant for the command and is forwarded; one to the whole process group has reached the command already.
//! [`Sentinel`] tells them apart, a moment later: `timeout` signals its child first and the group right after, and Slurm and systemd go from process to process.

use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Child;

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::sentinel::Sentinel;
use crate::signals::ReceivedSignal;

/// How long a signal to the whole group may take to reach everybody.
const SETTLE_NANOS: u64 = 100_000_000;

/// Signals that a user or a scheduler may send to us and means for the command: all that end a process and that can be handled, and the window's size.
pub(crate) fn forwarded_signals() -> Vec<i32> {
    let mut signals = vec![
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGALRM,
        libc::SIGTERM,
        libc::SIGXCPU,
        libc::SIGVTALRM,
        libc::SIGPROF,
        libc::SIGIO,
        libc::SIGPWR,
        libc::SIGWINCH,
    ];
    signals.extend(libc::SIGRTMIN()..=libc::SIGRTMAX());
    signals
}

#[derive(Debug, Clone, Copy)]
struct PendingSignal {
    signal: i32,
    due_nanos: u64,
}

/// A signal that the group was seen to have.
#[derive(Debug, Clone, Copy)]
struct GroupWide {
    signal: i32,
    until_nanos: u64,
}

/// Signals on their way to the command.
pub(crate) struct Forwarder {
    sentinel: Option<Sentinel>,
    pid: u32,
    /// Reaches nobody else when the number is used again; kernels before 5.3 have none.
    pidfd: Option<OwnedFd>,
    waiting: Vec<PendingSignal>,
    group_wide: Vec<GroupWide>,
}

impl Forwarder {
    /// `command` must not have been waited for.
    pub(crate) fn new(sentinel: Option<Sentinel>, command: &Child) -> Forwarder {
        Forwarder {
            sentinel,
            pid: command.id(),
            pidfd: pidfd_open(Pid::from_child(command), PidfdFlags::empty()).ok(),
            waiting: Vec::new(),
            group_wide: Vec::new(),
        }
    }

    /// Takes a signal that arrived here.
    pub(crate) fn take(&mut self, arrived: ReceivedSignal, now_nanos: u64) {
        let due_nanos = match (&self.sentinel, arrived.from_kernel) {
            (Some(_), _) => now_nanos + SETTLE_NANOS,
            // Without a sentinel: a key on the terminal reaches the whole foreground group.
            (None, true) => return,
            (None, false) => now_nanos,
        };
        self.waiting.push(PendingSignal {
            signal: arrived.signal,
            due_nanos,
        });
    }

    /// When to call [`Forwarder::forward_due`].
    pub(crate) fn wait_nanos(&self, now_nanos: u64) -> Option<u64> {
        let due = self.waiting.iter().map(|waiting| waiting.due_nanos).min();
        due.map(|due| due.saturating_sub(now_nanos))
    }

    /// Forwards what was sent to us alone. The command must not have been waited for.
    pub(crate) fn forward_due(&mut self, now_nanos: u64) {
        if self.wait_nanos(now_nanos) != Some(0) {
            return;
        }
        self.drop_group_wide(now_nanos);
        let is_due = |waiting: &PendingSignal| waiting.due_nanos <= now_nanos;
        for waiting in self.waiting.iter().filter(|waiting| is_due(waiting)) {
            self.send(waiting.signal);
        }
        self.waiting.retain(|waiting| !is_due(waiting));
    }

    /// The command is gone.
    pub(crate) fn forget(&mut self) {
        self.waiting.clear();
    }

    fn drop_group_wide(&mut self, now_nanos: u64) {
        let Some(sentinel) = &self.sentinel else {
            return;
        };
        let Some(received) = sentinel.received() else {
            // Killed or stopped by somebody: a signal that arrives twice is better than one that never does.
            self.sentinel = None;
            return;
        };
        self.group_wide
            .retain(|known| known.until_nanos > now_nanos);
        for signal in (1..=64).filter(|signal| received.contains(*signal)) {
            self.group_wide.push(GroupWide {
                signal,
                until_nanos: now_nanos + SETTLE_NANOS,
            });
        }
        let group_wide = &self.group_wide;
        let has_it = |signal| group_wide.iter().any(|known| known.signal == signal);
        self.waiting.retain(|waiting| !has_it(waiting.signal));
    }

    fn send(&self, signal: i32) {
        // SAFETY: plain system calls. Without a descriptor the PID is still the command's, as the caller has not waited for it.
        unsafe {
            match &self.pidfd {
                Some(pidfd) => {
                    let nothing = std::ptr::null::<libc::siginfo_t>();
                    libc::syscall(
                        libc::SYS_pidfd_send_signal,
                        pidfd.as_raw_fd(),
                        signal,
                        nothing,
                        0,
                    );
                }
                None => {
                    libc::kill(self.pid as i32, signal);
                }
            }
        }
    }
}
