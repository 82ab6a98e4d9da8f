//! Waits a bounded time for processes to end, whosever children they are.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Gives those that have not ended when the time is over; returns at once when all have.
pub(crate) fn wait_for_ends(pids: &[u32], limit: Duration) -> Vec<u32> {
    let until = Instant::now() + limit;
    let mut running: Vec<(u32, Option<OwnedFd>)> = pids
        .iter()
        .filter_map(|pid| match open(*pid) {
            Ok(process) => Some((*pid, Some(process))),
            Err(Errno::SRCH) => None,
            // A kernel before 5.3, or no descriptor left: it is not known to have ended.
            Err(_) => Some((*pid, None)),
        })
        .collect();
    loop {
        let mut waited: Vec<PollFd<'_>> = running
            .iter()
            .filter_map(|(_, process)| Some(PollFd::new(process.as_ref()?, PollFlags::IN)))
            .collect();
        let rest = until.saturating_duration_since(Instant::now());
        if waited.is_empty() || rest.is_zero() {
            break;
        }
        let Ok(rest) = Timespec::try_from(rest) else {
            break;
        };
        if matches!(poll(&mut waited, Some(&rest)), Err(error) if error != Errno::INTR) {
            break;
        }
        let ended: Vec<bool> = waited
            .iter()
            .map(|process| !process.revents().is_empty())
            .collect();
        let mut ended = ended.into_iter();
        running.retain(|(_, process)| process.is_none() || ended.next() != Some(true));
    }
    running.into_iter().map(|(pid, _)| pid).collect()
}

fn open(pid: u32) -> Result<OwnedFd, Errno> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pidfd_open(pid.ok_or(Errno::SRCH)?, PidfdFlags::empty())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn those_that_end_in_time_are_left_out() {
        let mut short = Command::new("sleep").arg("0.05").spawn().unwrap();
        let mut long = Command::new("sleep").arg("600").spawn().unwrap();
        let pids = [short.id(), long.id()];
        // As long as it takes: only the short one can end.
        let mut running = pids.to_vec();
        while running.len() == 2 {
            running = wait_for_ends(&pids, Duration::from_millis(200));
        }
        assert_eq!(running, [long.id()]);
        long.kill().unwrap();
        assert!(wait_for_ends(&pids, Duration::from_secs(60)).is_empty());
        short.wait().unwrap();
        long.wait().unwrap();
        assert!(wait_for_ends(&pids, Duration::from_secs(60)).is_empty());
    }
}
