//! Signals as a message to the job: its name as users write it, and sending it to nobody else.

use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

const KNOWN: [(&str, i32); 17] = [
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("ABRT", libc::SIGABRT),
    ("KILL", libc::SIGKILL),
    ("USR1", libc::SIGUSR1),
    ("USR2", libc::SIGUSR2),
    ("ALRM", libc::SIGALRM),
    ("TERM", libc::SIGTERM),
    ("CHLD", libc::SIGCHLD),
    ("CONT", libc::SIGCONT),
    ("STOP", libc::SIGSTOP),
    ("TSTP", libc::SIGTSTP),
    ("URG", libc::SIGURG),
    ("XCPU", libc::SIGXCPU),
    ("WINCH", libc::SIGWINCH),
    ("IO", libc::SIGIO),
];

/// The number of `USR1`, `SIGUSR1` or `usr1`.
pub fn signal_number(name: &str) -> Option<i32> {
    let upper = name.trim().to_ascii_uppercase();
    let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
    let known = KNOWN.iter().find(|(known, _)| *known == bare);
    known.map(|(_, number)| *number)
}

/// The processes that get the signal. Held open, so that a number which is handed out again reaches nobody.
pub(crate) struct SignalTargets {
    signal: Signal,
    processes: Vec<OwnedFd>,
}

impl SignalTargets {
    /// To be called while the processes are surely the meant ones.
    pub(crate) fn open(number: i32, pids: &[u32]) -> Option<SignalTargets> {
        let signal = Signal::from_named_raw(number)?;
        let opened = pids.iter().filter_map(|pid| {
            let pid = Pid::from_raw(i32::try_from(*pid).ok()?)?;
            pidfd_open(pid, PidfdFlags::empty()).ok()
        });
        Some(SignalTargets {
            signal,
            processes: opened.collect(),
        })
    }

    /// Sends it; gives whether anybody was there to get it.
    pub(crate) fn send(&self) -> bool {
        let mut reached = false;
        for process in &self.processes {
            reached |= pidfd_send_signal(process, self.signal).is_ok();
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_shells_write_them() {
        for name in ["USR1", "SIGUSR1", "usr1", " sigusr1 "] {
            assert_eq!(signal_number(name), Some(libc::SIGUSR1));
        }
        for name in ["", "SIG", "USR9", "10", "SIGSIGTERM"] {
            assert_eq!(signal_number(name), None, "{name}");
        }
    }

    #[test]
    fn a_process_that_has_ended_is_not_reached() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let targets = SignalTargets::open(libc::SIGTERM, &[child.id()]).unwrap();
        child.wait().unwrap();
        assert!(!targets.send());
    }
}
