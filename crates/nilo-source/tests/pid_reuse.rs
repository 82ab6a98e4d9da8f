//! A PID that comes back as somebody else. Played in a PID namespace of our own, where the kernel lets us choose the next number.
//!
//! The test starts this program again inside `unshare`; the inner run does the work.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test"
)]

mod support;

use std::process::Command;
use std::time::Duration;

use nilo_source::{Change, ProcessTree, Roots, TreeOptions};
use support::{Job, Ticker, find};

const INSIDE: &str = "NILO_TEST_INSIDE_NAMESPACE";

#[test]
fn a_reused_pid_is_another_process() {
    if std::env::var_os(INSIDE).is_some() {
        child_of_the_tree_gets_the_number_again();
        stranger_gets_the_number();
        println!("played to the end");
        return;
    }
    let output = Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc", "--kill-child"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "a_reused_pid_is_another_process", "--nocapture"])
        .env(INSIDE, "1")
        .output();
    let said = match &output {
        Ok(output) => format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) => error.to_string(),
    };
    if said.contains("played to the end") {
        assert!(output.unwrap().status.success(), "{said}");
        return;
    }
    let must_work = std::env::var_os("CI").is_some();
    assert!(!must_work && said.contains("unshare"), "{said}");
    eprintln!("not tested, no PID namespace: {said}");
}

fn next_pid_will_be(pid: u32) {
    std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).unwrap();
    // Start times are counted in hundredths of a second.
    std::thread::sleep(Duration::from_millis(30));
}

fn child_of_the_tree_gets_the_number_again() {
    let mut job = Job::python(
        "import os, sys, time\nfor line in sys.stdin:\n  pid = os.fork()\n  if pid == 0: time.sleep(1000)\n  print(pid, flush=True)\n  sys.stdin.readline()\n  os.kill(pid, 9); os.wait()\n  print('gone', flush=True)",
    );
    let mut tree = ProcessTree::new(&Roots::default(), TreeOptions::default()).unwrap();
    tree.add_root(job.pid()).unwrap();
    let mut ticker = Ticker::new();
    ticker.tick(&mut tree);
    job.tell("fork");
    let pid: u32 = job.hear().parse().unwrap();
    ticker.tick_until(&mut tree, "the first child", |tree| {
        find(tree, pid).is_some()
    });
    let first = find(&tree, pid).unwrap().id;
    job.tell("kill");
    job.hear();
    next_pid_will_be(pid);
    job.tell("fork");
    assert_eq!(job.hear().parse(), Ok(pid));
    ticker.tick(&mut tree);
    let second = find(&tree, pid).unwrap().id;
    assert_ne!(first, second);
    assert!(ticker.changes.contains(&Change::Started(second)));
    assert!(ticker.ended(pid));
    assert_eq!(tree.processes().len(), 2);
}

fn stranger_gets_the_number() {
    let job = Job::sh("exec sleep 1000");
    let mut tree = ProcessTree::new(&Roots::default(), TreeOptions::default()).unwrap();
    let mut without_kept_files = ProcessTree::new(
        &Roots::default(),
        TreeOptions {
            max_kept_files: Some(0),
            ..TreeOptions::default()
        },
    )
    .unwrap();
    let pid = job.pid();
    tree.add_root(pid).unwrap();
    without_kept_files.add_root(pid).unwrap();
    drop(job);
    next_pid_will_be(pid);
    let stranger = Job::sh("exec sleep 1000");
    assert_eq!(stranger.pid(), pid);
    for tree in [&mut tree, &mut without_kept_files] {
        let mut ticker = Ticker::new();
        ticker.tick(tree);
        assert!(ticker.ended(pid));
        assert!(tree.processes().is_empty());
    }
}
