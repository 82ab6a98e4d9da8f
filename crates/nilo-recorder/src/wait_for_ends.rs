//! Waits a bounded time for processes to end, whosever children they are.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Those that are held up get this many times the time in all.
const MOST_TIMES: u32 = 10;

/// Gives those that have not ended when the time is over; returns at once when all have.
/// As long as one of them `is_held_up`, so that it could not have ended in time, all get more of it.
pub(crate) fn wait_for_ends(
    pids: &[u32],
    limit: Duration,
    is_held_up: &dyn Fn(u32) -> bool,
) -> Vec<u32> {
    let begun = Instant::now();
    let mut until = begun + limit;
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
        if waited.is_empty() {
            break;
        }
        if rest.is_zero() {
            let may_wait = begun.elapsed() < MOST_TIMES * limit;
            if !may_wait || !running.iter().any(|(pid, _)| is_held_up(*pid)) {
                break;
            }
            until = Instant::now() + limit / MOST_TIMES;
            continue;
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
            running = wait_for_ends(&pids, Duration::from_millis(200), &|_| false);
        }
        assert_eq!(running, [long.id()]);
        long.kill().unwrap();
        assert!(wait_for_ends(&pids, Duration::from_secs(60), &|_| false).is_empty());
        short.wait().unwrap();
        long.wait().unwrap();
        assert!(wait_for_ends(&pids, Duration::from_secs(60), &|_| false).is_empty());
    }

    #[test]
    fn one_that_is_held_up_gets_more_time() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = child.id();
        let limit = Duration::from_millis(10);
        assert_eq!(wait_for_ends(&[pid], limit, &|_| false), [pid]);
        // However long it is held up, the wait has an end.
        assert_eq!(wait_for_ends(&[pid], limit, &|_| true), [pid]);
        let child = std::cell::RefCell::new(&mut child);
        let ends_late = |_| {
            child.borrow_mut().kill().unwrap();
            child.borrow_mut().wait().unwrap();
            true
        };
        assert!(wait_for_ends(&[pid], limit, &ends_late).is_empty());
    }
}
