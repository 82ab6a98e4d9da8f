//! The process tree against real processes.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use nilo_source::{Change, ProcessTree, Roots, SourceError, TreeOptions};
use support::{Job, Stray, Ticker, find};

fn tree_of(job: &Job) -> ProcessTree {
    let mut tree = ProcessTree::new(&Roots::default(), TreeOptions::default()).unwrap();
    tree.add_root(job.pid()).unwrap();
    tree
}

const MIB: u64 = 1 << 20;

#[test]
fn memory_peak_and_cpu_of_a_process_are_seen() {
    let mut job = Job::python(
        "import sys\nspike = bytearray(b'x') * (160 << 20)\ndel spike\nkept = bytearray(b'x') * (64 << 20)\nprint('ready', flush=True)\nsys.stdin.read()",
    );
    let mut tree = tree_of(&job);
    job.hear();
    let mut ticker = Ticker::new();
    ticker.tick(&mut tree);
    let pid = job.pid();
    ticker.tick_until(&mut tree, "a measured PSS", |tree| {
        find(tree, pid).is_some_and(|process| process.detail.pss_bytes.is_some())
    });
    let process = find(&tree, pid).unwrap();
    assert!(process.reading.rss_bytes > 64 * MIB);
    assert!(process.reading.rss_bytes < 140 * MIB);
    // The spike was over before anybody looked.
    assert!(process.detail.peak_rss_bytes.unwrap() > 160 * MIB);
    assert!(process.reading.cpu_nanos > 1_000_000);
    // Where `python3` is a script that becomes Python, it has waited for commands of its own.
    assert!(tree.cpu_nanos_total() >= process.reading.cpu_nanos);
    let detail = process.detail;
    assert!(detail.pss_bytes.unwrap() <= process.reading.rss_bytes + MIB);
    assert!(detail.uss_bytes <= detail.pss_bytes);
    assert_eq!(detail.threads, Some(1));
    assert!(detail.open_files.unwrap() >= 3);
    assert!(detail.minor_faults.unwrap() > 1000);
    assert!(detail.read_bytes.is_some() && detail.swap_bytes.is_some());
    assert_eq!(process.info.name, "python -c …");
    assert_eq!(process.info.parent, std::process::id());
    assert!(process.info.cwd.is_some() && process.info.uid.is_some());
    assert!(tree.blind_spots().is_empty());
}

/// Calls of `read` and its kind by this process so far.
fn read_calls() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap();
    let calls = text.lines().find_map(|line| line.strip_prefix("syscr: "));
    calls.unwrap().parse().unwrap()
}

/// To look at every process of a machine takes longer than a short command runs.
#[test]
fn a_tree_that_begins_with_a_new_process_does_not_look_at_strangers_first() {
    let many = "i=0; while [ $i -lt 400 ]; do sleep 1000 & i=$((i+1)); done; echo ready; wait";
    let mut strangers = Job::sh(many);
    strangers.hear();
    let mut tree = ProcessTree::new(&Roots::default(), TreeOptions::default()).unwrap();
    tree.expect_first_root();
    let mut job = Job::sh("sleep 1000 & echo $!; wait");
    let child: u32 = job.hear().parse().unwrap();
    let before = read_calls();
    tree.add_first_root(job.pid()).unwrap();
    assert!(read_calls() - before < 100, "{}", read_calls() - before);
    assert_eq!(tree.processes().len(), 1);
    // What it has started meanwhile is found by the first sample.
    Ticker::new().tick(&mut tree);
    assert!(find(&tree, child).is_some());
    assert_eq!(tree.processes().len(), 2);
}

#[test]
fn descendants_that_are_there_already_are_found_with_their_root() {
    let mut job = Job::sh("sh -c 'sleep 1000 & echo $!; wait' & wait");
    let grandchild: u32 = job.hear().parse().unwrap();
    let tree = tree_of(&job);
    assert_eq!(tree.processes().len(), 3);
    assert!(find(&tree, grandchild).is_some());
}

#[test]
fn descendants_that_come_later_are_found_and_leave_again() {
    let mut job = Job::sh(
        "read go; sh -c 'sleep 1000 & echo $!; read go; kill $!; wait'; echo done; read go",
    );
    let mut tree = tree_of(&job);
    let mut ticker = Ticker::new();
    ticker.tick(&mut tree);
    assert_eq!(tree.processes().len(), 1);
    job.tell("go");
    let grandchild: u32 = job.hear().parse().unwrap();
    ticker.tick_until(&mut tree, "three processes", |tree| {
        tree.processes().len() == 3
    });
    assert!(find(&tree, grandchild).is_some());
    job.tell("go");
    assert_eq!(job.hear(), "done");
    ticker.tick_until(&mut tree, "one process", |tree| tree.processes().len() == 1);
    assert!(ticker.ended(grandchild));
    let started = |change: &&Change| matches!(change, Change::Started(_));
    let ended = |change: &&Change| matches!(change, Change::Ended { .. });
    assert_eq!(ticker.changes.iter().filter(started).count(), 3);
    assert_eq!(ticker.changes.iter().filter(ended).count(), 2);
}

#[test]
fn threads_are_not_processes() {
    let mut job = Job::python(
        "import sys, threading, os\nsys.stdin.readline()\nif os.fork() == 0:\n  e = threading.Event()\n  [threading.Thread(target=e.wait, daemon=True).start() for _ in range(20)]\n  print('ready', flush=True)\n  sys.stdin.read()\nelse:\n  os.wait()",
    );
    let mut tree = tree_of(&job);
    let mut ticker = Ticker::new();
    ticker.tick(&mut tree);
    job.tell("go");
    job.hear();
    ticker.tick_until(&mut tree, "21 threads in the child", |tree| {
        tree.processes()
            .iter()
            .any(|process| process.detail.threads == Some(21))
    });
    // Through the sweep of all of `/proc`, too.
    for _ in 0..120 {
        ticker.tick(&mut tree);
    }
    assert_eq!(tree.processes().len(), 2);
}

#[test]
fn a_process_whose_first_thread_has_ended_lives_on() {
    let mut job = Job::python(
        "import ctypes, sys, threading, time\ndef other():\n  time.sleep(0.05)\n  block = bytearray(b'x') * (32 << 20)\n  print('ready', flush=True)\n  sys.stdin.read()\nthreading.Thread(target=other).start()\nctypes.CDLL(None).pthread_exit(None)",
    );
    let mut tree = tree_of(&job);
    job.hear();
    let mut ticker = Ticker::new();
    let pid = job.pid();
    ticker.tick_until(&mut tree, "memory seen through the other thread", |tree| {
        find(tree, pid).is_some_and(|process| process.reading.rss_bytes > 32 * MIB)
    });
    assert!(!ticker.ended(pid));
}

#[test]
fn another_program_in_the_same_process_is_a_new_name() {
    let mut job = Job::sh("read go; exec sleep 1000");
    let mut tree = tree_of(&job);
    let mut ticker = Ticker::new();
    // A process that is just being started has no arguments yet.
    ticker.tick_until(&mut tree, "the first name", |tree| {
        tree.processes()[0].info.name == "sh -c …"
    });
    job.tell("go");
    ticker.tick_until(&mut tree, "the new name", |tree| {
        tree.processes()[0].info.name == "sleep"
    });
    let id = tree.processes()[0].id;
    assert!(ticker.changes.contains(&Change::Renamed(id)));
    assert_eq!(tree.processes()[0].info.command, "sleep 1000");
}

#[test]
fn another_program_of_a_forked_process_is_a_new_name_as_soon_as_its_memory_is_another() {
    let mut job = Job::python(
        "import os, sys\nif os.fork() == 0:\n  held = b'x' * (64 << 20)\n  print(os.getpid(), flush=True)\n  sys.stdin.readline()\n  os.execvp('sleep', ['sleep', '1000'])\nos.wait()",
    );
    let child: u32 = job.hear().parse().unwrap();
    // The turn of its details comes once in a quarter of its age.
    let options = TreeOptions {
        detail_every_nanos: 3_600_000_000_000,
        ..TreeOptions::default()
    };
    let mut tree = ProcessTree::new(&Roots::default(), options).unwrap();
    tree.add_root(job.pid()).unwrap();
    let mut ticker = Ticker::new();
    for _ in 0..600 {
        ticker.tick(&mut tree);
    }
    job.tell("go");
    ticker.tick_until(&mut tree, "memory of another program", |tree| {
        find(tree, child).is_some_and(|process| process.reading.rss_bytes < 16 * MIB)
    });
    let seen_nanos = ticker.now_nanos;
    // The kernel replaces the memory a moment before the name.
    ticker.tick_until(&mut tree, "the new name", |tree| {
        find(tree, child).is_some_and(|process| process.info.name == "sleep")
    });
    assert!(ticker.now_nanos - seen_nanos < 5_000_000_000);
}

#[test]
fn a_name_that_the_program_gave_itself_is_added() {
    let mut job = Job::python(
        "import ctypes, sys\nsys.stdin.readline()\nctypes.CDLL(None).prctl(15, b'pt_data_worker')\nsys.stdin.read()",
    );
    let mut tree = tree_of(&job);
    let mut ticker = Ticker::new();
    job.tell("go");
    ticker.tick_until(&mut tree, "the name", |tree| {
        tree.processes()[0].info.name == "python -c … [pt_data_worker]"
    });
}

#[test]
fn a_zombie_has_ended_and_its_cpu_time_stays_counted() {
    let mut job = Job::python(
        "import os, sys, time\npid = os.fork()\nif pid == 0:\n  sys.stdin.readline()\n  t = time.process_time()\n  while time.process_time() - t < 0.05: pass\n  os._exit(0)\nprint(pid, flush=True)\nos.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)\nprint('zombie', flush=True)\ntime.sleep(1000)",
    );
    let child: u32 = job.hear().parse().unwrap();
    let mut tree = tree_of(&job);
    let mut ticker = Ticker::new();
    ticker.tick(&mut tree);
    assert_eq!(tree.processes().len(), 2);
    job.tell("go");
    assert_eq!(job.hear(), "zombie");
    ticker.tick(&mut tree);
    assert_eq!(tree.processes().len(), 1);
    let last_cpu = ticker.changes.iter().find_map(|change| match change {
        Change::Ended {
            id,
            last_reading,
            peak_rss_bytes,
            ..
        } if id.pid == child => {
            assert!(peak_rss_bytes.unwrap() > MIB);
            Some(last_reading.cpu_nanos)
        }
        _ => None,
    });
    // All of its last 50 ms, though no tick fell between.
    assert!(last_cpu.unwrap() >= 50_000_000);
    assert!(tree.cpu_nanos_total() >= 50_000_000);
    assert!(matches!(
        ProcessTree::new(&Roots::default(), TreeOptions::default())
            .unwrap()
            .add_root(child),
        Err(SourceError::NoSuchProcess { .. })
    ));
}

#[test]
fn a_storm_of_short_lives_leaves_nobody_behind() {
    let mut job = Job::sh(
        "read go; i=0; while [ $i -lt 400 ]; do /bin/true; i=$((i+1)); done; sleep 1000 & echo $!; wait",
    );
    let mut tree = tree_of(&job);
    let mut ticker = Ticker::new();
    let mut last_cpu = 0;
    job.tell("go");
    for _ in 0..300 {
        ticker.tick(&mut tree);
        assert!(tree.cpu_nanos_total() >= last_cpu);
        last_cpu = tree.cpu_nanos_total();
    }
    let survivor: u32 = job.hear().parse().unwrap();
    ticker.tick_until(&mut tree, "the root and the survivor", |tree| {
        tree.processes().len() == 2 && find(tree, survivor).is_some()
    });
}

#[test]
fn a_child_that_lives_between_two_ticks_does_no_harm() {
    let mut job = Job::sh("read go; /bin/true; echo over; read go");
    let mut tree = tree_of(&job);
    let mut ticker = Ticker::new();
    ticker.tick(&mut tree);
    job.tell("go");
    job.hear();
    ticker.tick(&mut tree);
    ticker.tick(&mut tree);
    assert_eq!(tree.processes().len(), 1);
}

#[test]
fn a_pid_that_nobody_has_is_an_error() {
    let mut tree = ProcessTree::new(&Roots::default(), TreeOptions::default()).unwrap();
    assert!(matches!(
        tree.add_root(4_194_305),
        Err(SourceError::NoSuchProcess { pid: 4_194_305 })
    ));
    tree.tick(1);
    assert!(tree.processes().is_empty());
    assert_eq!(tree.cpu_nanos_total(), 0);
}

#[test]
fn an_orphan_in_a_session_of_the_tree_is_kept() {
    // The parent is gone before any tick; the session tells where the child came from.
    let mut job = Job::start(std::process::Command::new("setsid").args([
        "--wait",
        "sh",
        "-c",
        "read go; sh -c 'sleep 1000 >/dev/null & echo $$ $!'; read go",
    ]));
    let mut tree = tree_of(&job);
    let mut ticker = Ticker::new();
    ticker.tick_until(&mut tree, "the session's leader", |tree| {
        tree.processes()
            .iter()
            .any(|process| process.info.name == "sh -c …")
    });
    job.tell("go");
    let orphan = Stray::orphaned(&job.hear());
    ticker.tick_until(&mut tree, "the orphan", |tree| {
        find(tree, orphan.0).is_some()
    });
}

#[test]
fn ourselves_can_be_left_out() {
    let job = Job::sh("read go");
    let options = TreeOptions {
        exclude_pid: Some(job.pid()),
        ..TreeOptions::default()
    };
    let mut tree = ProcessTree::new(&Roots::default(), options).unwrap();
    tree.add_root(std::process::id()).unwrap();
    for tick in 0..60 {
        tree.tick(tick * 100_000_000);
        assert!(find(&tree, job.pid()).is_none());
    }
}

#[test]
fn a_sleeper_that_wakes_to_free_memory_is_looked_at_soon() {
    let mut job = Job::python(
        "import os, sys, time\nfor _ in range(5):\n  if os.fork() == 0: time.sleep(1000)\nblock = bytearray(b'x') * (64 << 20)\nprint('ready', flush=True)\nsys.stdin.readline()\ndel block\nprint('freed', flush=True)\nsys.stdin.read()",
    );
    job.hear();
    let mut tree = tree_of(&job);
    let mut ticker = Ticker::new();
    // Long enough for everybody to count as steady.
    for _ in 0..200 {
        ticker.tick(&mut tree);
    }
    assert_eq!(tree.processes().len(), 6);
    assert!(tree.memory_bytes() > 64 * MIB);
    job.tell("free");
    job.hear();
    // It sleeps again before anybody looks, so that nothing but its clock tells of it.
    for _ in 0..8 {
        ticker.tick(&mut tree);
    }
    assert!(tree.memory_bytes() < 40 * MIB, "{}", tree.memory_bytes());
}

#[test]
fn pages_shared_after_fork_count_once() {
    let mut job = Job::python(
        "import os, sys, time\nblock = bytearray(b'x') * (64 << 20)\nfor _ in range(3):\n  if os.fork() == 0: time.sleep(1000)\nprint('ready', flush=True)\ntime.sleep(1000)",
    );
    job.hear();
    let mut tree = tree_of(&job);
    let mut ticker = Ticker::new();
    let measured = |tree: &ProcessTree| {
        let processes = tree.processes();
        processes
            .iter()
            .all(|process| process.detail.pss_bytes.is_some())
    };
    ticker.tick_until(&mut tree, "PSS of all four", |tree| {
        tree.processes().len() == 4 && measured(tree)
    });
    let of = |part: fn(&nilo_source::TrackedProcess) -> u64| -> u64 {
        tree.processes().iter().map(part).sum()
    };
    let rss = of(|process| process.reading.rss_bytes);
    let pss = of(|process| process.detail.pss_bytes.unwrap_or(0));
    let memory = tree.memory_bytes();
    assert!(rss > 4 * 64 * MIB);
    assert!(memory >= pss && memory < 90 * MIB, "{memory} {pss}");
    // The parent has what all of them share.
    let parent = find(&tree, job.pid()).unwrap();
    assert!(parent.memory_bytes > 64 * MIB);
}

#[test]
fn two_thousand_processes_are_watched_with_and_without_kept_files() {
    const COUNT: usize = 2000;
    let mut job = Job::sh(&format!(
        "i=0; while [ $i -lt {COUNT} ]; do sleep 1000 & i=$((i+1)); done; echo ready; wait"
    ));
    job.hear();
    for max_kept_files in [None, Some(700)] {
        let options = TreeOptions {
            max_kept_files,
            ..TreeOptions::default()
        };
        let mut tree = ProcessTree::new(&Roots::default(), options).unwrap();
        tree.add_root(job.pid()).unwrap();
        let mut ticker = Ticker::new();
        ticker.tick_until(&mut tree, "all of them", |tree| {
            tree.processes().len() == COUNT + 1
        });
        for _ in 0..20 {
            ticker.tick(&mut tree);
        }
        assert_eq!(tree.processes().len(), COUNT + 1);
        assert!(
            tree.processes()
                .iter()
                .all(|process| process.reading.rss_bytes > 0)
        );
        assert!(
            tree.processes()
                .iter()
                .all(|process| process.detail.peak_rss_bytes.is_some())
        );
        assert_eq!(
            tree.blind_spots().len(),
            usize::from(max_kept_files.is_some())
        );
    }
}

/// Holds 64 MiB that six sleepers share, grows by a MiB whenever it is told to, and in the end frees what was shared as soon as they are gone.
const SHARES_AND_FREES: &str = r#"
import mmap, os, signal, sys
def private(mebibytes):
    pages = mmap.mmap(-1, mebibytes << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages[::4096] = b'x' * (mebibytes << 8)
    return pages
shared, own, sleepers = private(64), [], []
for _ in range(6):
    pid = os.fork()
    if pid == 0:
        signal.pause()
    sleepers.append(pid)
print('ready', flush=True)
while sys.stdin.readline() == 'grow\n':
    own.append(private(1))
    print('grown', flush=True)
for pid in sleepers:
    os.kill(pid, 9)
    os.waitpid(pid, 0)
shared.close()
print('freed', flush=True)
sys.stdin.read()
"#;

#[test]
fn what_a_parent_frees_after_its_workers_ended_is_not_theirs() {
    // Those that stand still are looked at on every third tick: whichever it is, they are looked at when it matters.
    for ticks in [20, 21, 22] {
        let mut job = Job::python(SHARES_AND_FREES);
        let mut tree = tree_of(&job);
        assert_eq!(job.hear(), "ready");
        let mut ticker = Ticker::new();
        ticker.tick_until(&mut tree, "seven processes", |tree| {
            tree.processes().len() == 7
        });
        for _ in 0..ticks {
            job.tell("grow");
            assert_eq!(job.hear(), "grown");
            ticker.tick(&mut tree);
        }
        let pid = job.pid();
        assert!(find(&tree, pid).unwrap().memory_bytes > 64 * MIB);
        job.tell("free");
        assert_eq!(job.hear(), "freed");
        ticker.tick(&mut tree);
        let parent = find(&tree, pid).unwrap();
        assert!(parent.reading.rss_bytes < 64 * MIB);
        assert_eq!(tree.processes().len(), 1);
        assert!(tree.memory_bytes() < 64 * MIB);
    }
}

#[test]
fn what_was_spent_before_joining_is_not_the_trees() {
    let burn = "import sys, time\ndef burn(until):\n while time.process_time() < until: pass\n print('burned', flush=True)\n";
    // The first forks a child that burns, the second burns before it joins, and again after that.
    let mut first = Job::python(&format!(
        "{burn}import os\nprint('ready', flush=True)\nsys.stdin.readline()\nif os.fork() == 0: burn(0.2)\nsys.stdin.read()"
    ));
    let mut second = Job::python(&format!("{burn}burn(0.2)\nsys.stdin.readline()\nburn(0.4)"));
    first.hear();
    let mut tree = tree_of(&first);
    let mut ticker = Ticker::new();
    ticker.tick(&mut tree);
    let all = |tree: &ProcessTree| -> u64 {
        let processes = tree.processes().iter();
        processes.map(|process| process.reading.cpu_nanos).sum()
    };
    // Where `python3` is a script that becomes Python, it has waited for commands of its own.
    let of_script = tree.cpu_nanos_total() - all(&tree);
    first.tell("go");
    first.hear();
    second.hear();
    tree.add_root(second.pid()).unwrap();
    ticker.tick(&mut tree);
    let late = find(&tree, second.pid()).unwrap();
    assert!(late.cpu_before_nanos >= 200_000_000);
    // The child was born in the tree, if after its last tick.
    assert_eq!(tree.processes().len(), 3);
    assert_eq!(
        tree.cpu_nanos_total() + late.cpu_before_nanos,
        all(&tree) + of_script
    );
    assert!(tree.cpu_nanos_total() >= 200_000_000);
    let joined = tree.cpu_nanos_total();
    second.tell("go");
    second.hear();
    let pid = second.pid();
    ticker.tick_until(&mut tree, "the end of the second", |tree| {
        find(tree, pid).is_none()
    });
    let of_second = tree.cpu_nanos_total() - joined;
    assert!(
        (150_000_000..400_000_000).contains(&of_second),
        "{of_second}"
    );
}
