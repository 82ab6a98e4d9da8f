//! The reaper's account has the orphans of the tree. A program of its own: being a reaper, and what one waited for, concern the whole process.
#![allow(clippy::unwrap_used, unsafe_code, reason = "a test")]

mod support;

use nilo_source::{ProcessTree, Roots, TreeOptions};
use support::{Job, Ticker};

const MS: u64 = 1_000_000;

/// What the kernel has counted for those that this process waited for.
fn used_by_children() -> u64 {
    // SAFETY: getrusage fills the structure, for which zero is a valid state.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage), 0);
        usage
    };
    let nanos = |time: libc::timeval| {
        u64::try_from(time.tv_sec).unwrap() * 1_000_000_000
            + u64::try_from(time.tv_usec).unwrap() * 1000
    };
    nanos(usage.ru_utime) + nanos(usage.ru_stime)
}

/// Waits for whatever has ended, as a reaper does.
fn reap() {
    loop {
        let mut status = 0;
        // SAFETY: waitpid writes the status and nothing else.
        if unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) } <= 0 {
            return;
        }
    }
}

fn tree() -> ProcessTree {
    let own_pid = std::process::id();
    let options = TreeOptions {
        include_orphans_of: Some(own_pid),
        exclude_pid: Some(own_pid),
        ..TreeOptions::default()
    };
    ProcessTree::new(&Roots::default(), options).unwrap()
}

const BURN: &str = "import os, sys, time\ndef burn(secs):\n begin = time.process_time()\n while time.process_time() - begin < secs: pass\n";

#[test]
fn orphans_count_once_seen_or_not() {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    // Daemons that nobody sees: each is forked by a child that ends at once.
    let used = used_by_children();
    let mut job = Job::python(&format!(
        "{BURN}sys.stdin.readline()\nfor _ in range(10):\n pid = os.fork()\n if pid == 0:\n  if os.fork() == 0: burn(0.05)\n  os._exit(0)\n os.waitpid(pid, 0)\nprint('forked', flush=True)\nsys.stdin.readline()"
    ));
    let mut tree_of_daemons = tree();
    let mut ticker = Ticker::new();
    tree_of_daemons.add_root(job.pid()).unwrap();
    ticker.tick(&mut tree_of_daemons);
    job.tell("go");
    assert_eq!(job.hear(), "forked");
    while nilo_source::own_children(&Roots::default()).len() > 1 {
        reap();
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    ticker.tick(&mut tree_of_daemons);
    ticker.tick(&mut tree_of_daemons);
    let counted = tree_of_daemons.cpu_nanos_total();
    assert!(counted > 480 * MS, "{counted}");
    drop(job);
    tree_of_daemons.be_thorough();
    ticker.tick(&mut tree_of_daemons);
    assert_same(tree_of_daemons.cpu_nanos_total(), used_by_children() - used);

    // A whole tree is killed at once: who waited for whom is not known, but it was used once.
    let used = used_by_children();
    let mut job = Job::python(&format!(
        "{BURN}pid = os.fork()\nfor _ in range(3):\n if os.fork() == 0: break\nburn(0.1)\nos.write(1, b'burned\\n')\nsys.stdin.read()"
    ));
    let mut tree_of_killed = tree();
    tree_of_killed.add_root(job.pid()).unwrap();
    (0..8).for_each(|_| assert_eq!(job.hear(), "burned"));
    ticker.tick(&mut tree_of_killed);
    assert_eq!(tree_of_killed.processes().len(), 8);
    drop(job);
    while !nilo_source::own_children(&Roots::default()).is_empty() {
        reap();
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    tree_of_killed.be_thorough();
    (0..3).for_each(|_| ticker.tick(&mut tree_of_killed));
    assert!(tree_of_killed.processes().is_empty());
    assert_same(tree_of_killed.cpu_nanos_total(), used_by_children() - used);
}

#[track_caller]
fn assert_same(counted: u64, used: u64) {
    assert!(counted + used / 20 + 60 * MS > used, "{counted} of {used}");
    // What the reaper has waited for is read twice, user and system time cut to whole ticks: the difference may be two ticks too much.
    assert!(counted < used + 20 * MS, "{counted} for {used}");
}
