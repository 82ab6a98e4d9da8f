//! A captured `/proc` is read like a live one: copied here from real processes, then changed under the tree.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use std::path::Path;

use nilo_source::{Change, ProcessTree, Roots, TreeOptions};
use support::{Job, Ticker, find};

fn capture(pid: u32, into: &Path) {
    let folder = into.join(pid.to_string());
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["stat", "statm", "status", "cmdline", "io", "smaps_rollup"] {
        let text = std::fs::read(format!("/proc/{pid}/{name}")).unwrap();
        std::fs::write(folder.join(name), text).unwrap();
    }
}

#[test]
fn a_captured_tree_is_read_and_followed() {
    let mut job = Job::sh("sleep 1000 & echo $!; wait");
    let child: u32 = job.hear().parse().unwrap();
    let folder = tempfile::tempdir().unwrap();
    // Until the child is `sleep` and not the shell that forked it.
    while std::fs::read(format!("/proc/{child}/cmdline")).unwrap() != b"sleep\x001000\0" {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    capture(job.pid(), folder.path());
    capture(child, folder.path());
    let roots = Roots {
        proc: folder.path().to_owned(),
        ..Roots::default()
    };
    let mut tree = ProcessTree::new(&roots, TreeOptions::default()).unwrap();
    tree.add_root(job.pid()).unwrap();
    let mut ticker = Ticker::new();
    for _ in 0..10 {
        ticker.tick(&mut tree);
    }
    assert_eq!(tree.processes().len(), 2);
    let process = find(&tree, child).unwrap();
    assert_eq!(process.info.name, "sleep");
    assert!(process.reading.rss_bytes > 0);
    assert!(process.detail.peak_rss_bytes.is_some());
    assert!(process.detail.pss_bytes.is_some());
    assert!(tree.blind_spots().is_empty());
    let first = process.id;

    // The same number, started later: somebody else.
    let path = folder.path().join(child.to_string()).join("stat");
    let stat = std::fs::read_to_string(&path).unwrap();
    let later = stat.replace(
        &format!(" {} ", first.start_ticks),
        &format!(" {} ", first.start_ticks + 1),
    );
    std::fs::write(&path, later).unwrap();
    ticker.tick(&mut tree);
    assert!(ticker.ended(child));
    ticker.tick(&mut tree);
    let second = find(&tree, child).unwrap().id;
    assert_ne!(first, second);
    assert!(ticker.changes.contains(&Change::Started(second)));

    // Files that vanish or turn into nonsense end a process and nothing else.
    std::fs::write(&path, b"\xff\xff(((").unwrap();
    ticker.tick(&mut tree);
    assert_eq!(tree.processes().len(), 1);
    std::fs::remove_dir_all(folder.path().join(job.pid().to_string())).unwrap();
    ticker.tick(&mut tree);
    assert!(tree.processes().is_empty());
}

/// A process that was killed has given its memory back, and its command line with it, some time before it is a zombie.
#[test]
fn a_process_whose_memory_is_gone_keeps_its_name() {
    let mut job = Job::python("print('ready', flush=True)\nimport sys; sys.stdin.read()");
    job.hear();
    let folder = tempfile::tempdir().unwrap();
    capture(job.pid(), folder.path());
    let roots = Roots {
        proc: folder.path().to_owned(),
        ..Roots::default()
    };
    let mut tree = ProcessTree::new(&roots, TreeOptions::default()).unwrap();
    tree.add_root(job.pid()).unwrap();
    let command = folder.path().join(job.pid().to_string()).join("cmdline");
    std::fs::write(command, b"").unwrap();
    let mut ticker = Ticker::new();
    ticker.tick_until(&mut tree, "its details", |tree| {
        tree.processes()[0].detail.threads.is_some()
    });
    assert_eq!(tree.processes()[0].info.name, "python -c …");
    let renamed = |change: &Change| matches!(change, Change::Renamed(_));
    assert!(!ticker.changes.iter().any(renamed));
}
