//! Pages that a process has mapped more than once, at every look: what was never there must not become the peak.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use nilo_source::{ProcessTree, Roots, TreeOptions};
use support::{Job, Ticker, find};

const MIB: u64 = 1 << 20;

/// Maps 64 MiB of memory, always the same, once more for each line; `fork` makes a child that reads all of its mappings on the next line.
const JOB: &str = "
import mmap, os, sys
memory = os.memfd_create('data')
os.ftruncate(memory, 64 << 20)
kept, children = [], []
def read(data):
    for at in range(0, len(data), 4096):
        data[at]
for line in sys.stdin:
    if line == 'map\\n':
        kept.append(mmap.mmap(memory, 64 << 20))
        read(kept[-1])
    elif line == 'fork\\n':
        start, go = os.pipe()
        if os.fork() == 0:
            os.read(start, 1)
            for data in kept:
                read(data)
            print('read', flush=True)
            os.read(start, 1)
        children.append(go)
        print(os.getpid(), flush=True)
        continue
    else:
        os.write(children[-1], b'x')
        continue
    print('mapped', flush=True)
";

#[test]
fn memory_that_one_process_maps_again_is_in_no_level() {
    let mut job = Job::python(JOB);
    let mut tree = ProcessTree::new(&Roots::default(), TreeOptions::default()).unwrap();
    tree.add_root(job.pid()).unwrap();
    let mut ticker = Ticker::new();
    let mut map = |ticker: &mut Ticker, tree: &mut ProcessTree| {
        job.tell("map");
        assert_eq!(job.hear(), "mapped");
        tree.glance(ticker.now_nanos)
    };
    let first = map(&mut ticker, &mut tree);
    assert!(first > 64 * MIB && first < 96 * MIB, "{first}");
    for _ in 0..2 {
        let again = map(&mut ticker, &mut tree);
        assert!(again < first + 8 * MIB, "{first} -> {again}");
        ticker.tick(&mut tree);
        assert!(tree.memory_bytes() < first + 8 * MIB);
    }
    let process = &tree.processes()[0];
    assert!(process.reading.rss_bytes > 3 * 64 * MIB);
    assert!(process.distinct_bytes() < first + 8 * MIB);
}

#[test]
fn a_child_that_reads_what_its_parent_has_mapped_twice_is_in_no_level() {
    let mut job = Job::python(JOB);
    let mut tree = ProcessTree::new(&Roots::default(), TreeOptions::default()).unwrap();
    tree.add_root(job.pid()).unwrap();
    let mut ticker = Ticker::new();
    for _ in 0..2 {
        job.tell("map");
        assert_eq!(job.hear(), "mapped");
        ticker.tick(&mut tree);
    }
    let before = tree.memory_bytes();
    job.tell("fork");
    job.hear();
    ticker.tick_until(&mut tree, "two processes", |tree| {
        tree.processes().len() == 2
    });
    job.tell("read");
    assert_eq!(job.hear(), "read");
    let level = tree.glance(ticker.now_nanos);
    let parent = job.pid();
    let child = tree.processes().iter().find(|it| it.id.pid != parent);
    assert!(child.unwrap().reading.rss_bytes > 2 * 64 * MIB);
    assert!(level < before + 16 * MIB, "{before} -> {level}");
    assert!(find(&tree, parent).is_some());
}

#[test]
fn what_had_been_mapped_twice_before_anybody_looked_is_in_no_level() {
    let mut job = Job::python(JOB);
    for _ in 0..3 {
        job.tell("map");
        assert_eq!(job.hear(), "mapped");
    }
    let mut tree = ProcessTree::new(&Roots::default(), TreeOptions::default()).unwrap();
    tree.add_root(job.pid()).unwrap();
    let level = tree.glance(Ticker::new().now_nanos);
    assert!(level > 64 * MIB && level < 96 * MIB, "{level}");
}
