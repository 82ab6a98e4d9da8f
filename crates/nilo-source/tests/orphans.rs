//! Orphans of the tree come to us when we are its reaper. A program of its own: being a reaper concerns the whole process.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use nilo_source::{ProcessTree, Roots, TreeOptions};
use support::{Job, Stray, Ticker, find};

#[test]
fn an_orphan_that_was_never_seen_with_its_parent_belongs_to_the_tree() {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    let mut job = Job::sh("read go; sh -c 'sleep 1000 >/dev/null & echo $$ $!'; read go");
    let own_pid = std::process::id();
    let options = TreeOptions {
        include_orphans_of: Some(own_pid),
        exclude_pid: Some(own_pid),
        ..TreeOptions::default()
    };
    let mut tree = ProcessTree::new(&Roots::default(), options).unwrap();
    tree.add_root(job.pid()).unwrap();
    let mut ticker = Ticker::new();
    ticker.tick(&mut tree);
    job.tell("go");
    let stray = Stray::orphaned(&job.hear());
    let orphan = stray.0;
    ticker.tick_until(&mut tree, "the orphan", |tree| find(tree, orphan).is_some());
    ticker.tick_until(&mut tree, "the root and the orphan", |tree| {
        tree.processes().len() == 2
    });

    // It outlives the root, and the tree goes on.
    job.close_input();
    job.wait();
    ticker.tick_until(&mut tree, "the orphan alone", |tree| {
        tree.processes().len() == 1 && find(tree, orphan).is_some()
    });
    // The guard ends the whole group, the orphan included.
    drop(job);
    ticker.tick_until(&mut tree, "nobody", |tree| tree.processes().is_empty());
    assert!(ticker.ended(orphan));
}
