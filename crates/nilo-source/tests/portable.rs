//! The portable tree against real processes, on Linux, where what it says can be compared.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use nilo_source::{
    Change, PortableTree, ProcessSource, ProcessTree, Roots, SourceError, TreeOptions,
};
use support::{Job, Ticker, find};

#[test]
fn both_trees_see_the_same() {
    let mut job = Job::python(
        "import os, sys, threading, time\nblock = bytearray(b'x') * (64 << 20)\nif os.fork() == 0:\n  threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n  print('ready', flush=True)\n  sys.stdin.read()\nelse: os.wait()",
    );
    job.hear();
    let mut portable = PortableTree::new(Some(std::process::id())).unwrap();
    let mut linux = ProcessTree::new(&Roots::default(), TreeOptions::default()).unwrap();
    portable.add_root(job.pid()).unwrap();
    linux.add_root(job.pid()).unwrap();
    let mut ticker = Ticker::new();
    ticker.tick(&mut portable);
    ticker.tick(&mut linux);
    assert_eq!(portable.processes().len(), 2);
    for process in linux.processes() {
        let other = find(&portable, process.id.pid).unwrap();
        assert!(other.reading.rss_bytes.abs_diff(process.reading.rss_bytes) < 4 << 20);
        assert!(other.reading.cpu_nanos.abs_diff(process.reading.cpu_nanos) < 200_000_000);
        assert_eq!(other.info, process.info);
        assert_eq!(other.detail.peak_rss_bytes, None);
    }
    assert_eq!(portable.blind_spots().len(), 1);
}

#[test]
fn children_come_are_renamed_and_leave() {
    let mut job = Job::sh(
        "read go; sleep 1000 & echo $!; read go; kill $!; wait; echo done; exec sleep 1000",
    );
    let mut tree = PortableTree::new(None).unwrap();
    let root = tree.add_root(job.pid()).unwrap();
    let mut ticker = Ticker::new();
    job.tell("go");
    let child: u32 = job.hear().parse().unwrap();
    ticker.tick_until(&mut tree, "the child", |tree| find(tree, child).is_some());
    job.tell("go");
    job.hear();
    ticker.tick_until(&mut tree, "the root alone", |tree| {
        tree.processes().len() == 1
    });
    assert!(ticker.ended(child));
    ticker.tick_until(&mut tree, "the new name", |tree| {
        tree.processes()[0].info.name == "sleep"
    });
    assert!(ticker.changes.contains(&Change::Renamed(root)));
}

#[test]
fn a_pid_that_nobody_has_is_an_error() {
    let mut tree = PortableTree::new(None).unwrap();
    assert!(matches!(
        tree.add_root(4_194_305),
        Err(SourceError::NoSuchProcess { .. })
    ));
    tree.tick(1);
    assert!(tree.processes().is_empty());
}
