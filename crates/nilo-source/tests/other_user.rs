//! A recorder without rights over what it watches. A program of its own: giving up rights concerns more than one test.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test")]

mod support;

use nilo_source::{ProcessTree, Roots, TreeOptions, list_processes, resolve_limits};
use rustix::fs::Uid;
use support::{Job, Ticker, find};

#[test]
fn what_belongs_to_another_user_is_a_blind_spot_and_memory_follows_from_the_laws_alone() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("CI").is_none(), "CI tests run as root");
        eprintln!("not tested: only root can become another user");
        return;
    }
    let mut job = Job::python(
        "import os, sys\nif os.fork() == 0: sys.stdin.read()\nprint(1, flush=True)\nsys.stdin.read()",
    );
    job.hear();
    let pid = job.pid();
    let watcher = std::thread::spawn(move || {
        // The system call concerns this thread only, unlike the C library's function.
        let nobody = Uid::from_raw(65534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        let mut tree = ProcessTree::new(&Roots::default(), TreeOptions::default()).unwrap();
        tree.add_root(pid).unwrap();
        let mut ticker = Ticker::new();
        for _ in 0..50 {
            ticker.tick(&mut tree);
        }
        assert_eq!(tree.processes().len(), 2);
        let process = find(&tree, pid).unwrap();
        assert!(process.reading.rss_bytes > 1 << 20);
        assert!(process.reading.cpu_nanos > 0);
        let detail = process.detail;
        assert!(detail.peak_rss_bytes.is_some() && detail.threads == Some(1));
        assert_eq!((detail.pss_bytes, detail.uss_bytes), (None, None));
        assert_eq!((detail.read_bytes, detail.written_bytes), (None, None));
        // The child has its parent's memory until somebody says otherwise.
        let sum: u64 = tree
            .processes()
            .iter()
            .map(|process| process.reading.rss_bytes)
            .sum();
        assert!(
            tree.memory_bytes() < sum * 3 / 4,
            "{} of {sum}",
            tree.memory_bytes()
        );
        assert_eq!(
            (process.info.cwd.as_ref(), process.info.uid),
            (None, Some(0))
        );
        // Two processes, two files each, one sentence.
        let said = tree.blind_spots();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("belongs to user 0"), "{said:?}");
        assert!(!resolve_limits(&Roots::default(), pid).is_empty());
        assert!(
            list_processes(&Roots::default())
                .iter()
                .any(|listing| listing.id.pid == pid)
        );
    });
    watcher.join().unwrap();
}
