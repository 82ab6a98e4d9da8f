//! CPU time of children that nobody saw, against what the kernel tells the job itself.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use std::time::Duration;

use nilo_source::{ProcessTree, Roots, TreeOptions};
use support::{Job, Ticker};

const MS: u64 = 1_000_000;

/// Says on demand what the kernel has counted for the job: for itself, and for those it has waited for.
const PRELUDE: &str = "\
import multiprocessing, os, resource, subprocess, sys, time
def tell():
    used = 0
    for who in resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN:
        usage = resource.getrusage(who)
        used += usage.ru_utime + usage.ru_stime
    print(int(used * 1e9), flush=True)
def burn(secs):
    begin = time.process_time()
    while time.process_time() - begin < secs: pass
def forked(secs):
    pid = os.fork()
    if pid == 0:
        burn(secs)
        os._exit(0)
    return pid
SHORT = 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'
";

/// A job that says what it used, does this once it is told to, says what it has used then, and waits.
struct Counted {
    job: Job,
    tree: ProcessTree,
    ticker: Ticker,
    used_before: u64,
}

impl Counted {
    fn new(work: &str) -> Counted {
        let mut job = Job::python(&format!(
            "{PRELUDE}{work}\ntell()\nsys.stdin.readline()\nwork()\ntell()\nsys.stdin.read()"
        ));
        let used_before = job.hear().parse().unwrap();
        let mut tree = ProcessTree::new(&Roots::default(), TreeOptions::default()).unwrap();
        tree.add_root(job.pid()).unwrap();
        Counted {
            job,
            tree,
            ticker: Ticker::new(),
            used_before,
        }
    }

    /// Ticks while it works; what the tree counted, and what the kernel did.
    fn work(&mut self, pause: Duration) -> (u64, u64) {
        self.ticker.tick(&mut self.tree);
        let counted_before = self.tree.cpu_nanos_total();
        let job = &mut self.job;
        job.tell("go");
        let mut last = counted_before;
        let used: u64 = std::thread::scope(|scope| {
            let hears = scope.spawn(|| job.hear());
            while !hears.is_finished() {
                self.ticker.tick(&mut self.tree);
                assert!(self.tree.cpu_nanos_total() >= last, "it fell");
                last = self.tree.cpu_nanos_total();
                std::thread::sleep(pause);
            }
            hears.join().unwrap().parse().unwrap()
        });
        // Who does not run is asked in a second at the latest.
        for _ in 0..15 {
            self.ticker.tick(&mut self.tree);
        }
        let counted = self.tree.cpu_nanos_total() - counted_before;
        (counted, used - self.used_before)
    }
}

#[track_caller]
fn assert_same((counted, used): (u64, u64)) {
    assert!(used > 200 * MS, "{used} is too little to tell");
    // Each process's account is cut to ticks of 10 ms, twice.
    assert!(counted + used / 20 + 60 * MS > used, "{counted} of {used}");
    // After its last word the job goes to sleep.
    assert!(counted < used + 20 * MS, "{counted} for {used}");
}

/// Looks as rare as those of a recorder, and so frequent that many children are seen.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(3)];

#[test]
fn many_short_commands_are_counted() {
    for pause in PAUSES {
        let mut counted = Counted::new(
            "def work():\n for _ in range(60): subprocess.run(['sh', '-c', SHORT], check=True)",
        );
        assert_same(counted.work(pause));
    }
}

#[test]
fn children_that_nobody_waits_for_yet_count_when_they_have_ended() {
    let mut job = Job::python(&format!(
        "{PRELUDE}\
        print('ready', flush=True)\nsys.stdin.readline()\n\
        def ended(pid): os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)\n\
        pids = [forked(0.1) for _ in range(4)]\n\
        for pid in pids: ended(pid)\n\
        print('zombies', flush=True)\nsys.stdin.readline()\n\
        for pid in pids: os.waitpid(pid, 0)\n\
        print('waited', flush=True)\nsys.stdin.read()"
    ));
    assert_eq!(job.hear(), "ready");
    let mut tree = ProcessTree::new(&Roots::default(), TreeOptions::default()).unwrap();
    tree.add_root(job.pid()).unwrap();
    let mut ticker = Ticker::new();
    ticker.tick(&mut tree);
    let before = tree.cpu_nanos_total();
    job.tell("go");
    assert_eq!(job.hear(), "zombies");
    (0..3).for_each(|_| ticker.tick(&mut tree));
    let as_zombies = tree.cpu_nanos_total() - before;
    assert!(as_zombies >= 390 * MS, "{as_zombies}");
    job.tell("go");
    assert_eq!(job.hear(), "waited");
    (0..15).for_each(|_| ticker.tick(&mut tree));
    let after = tree.cpu_nanos_total() - before;
    assert!(after < as_zombies + 60 * MS, "{after} after {as_zombies}");
}

#[test]
fn short_commands_of_shells_in_shells_are_counted() {
    for pause in PAUSES {
        let mut counted = Counted::new(
            "def work():\n inner = f\"for i in 1 2 3 4 5 6; do sh -c '{SHORT}'; done; true\"\n outer = 'for j in 1 2 3 4 5 6 7 8; do sh -c \"$INNER\"; done; true'\n subprocess.run(['sh', '-c', outer], env={**os.environ, 'INNER': inner}, check=True)",
        );
        assert_same(counted.work(pause));
    }
}

#[test]
fn long_workers_count_once() {
    for pause in PAUSES {
        let mut counted = Counted::new(
            "def work():\n for pid in [forked(secs) for secs in (0.1, 0.2, 0.3, 0.4)]: os.waitpid(pid, 0)",
        );
        assert_same(counted.work(pause));
    }
}

#[test]
fn workers_of_one_task_each_are_counted() {
    for pause in PAUSES {
        let mut counted = Counted::new(
            "def task(number): burn(0.01)\ndef work():\n with multiprocessing.get_context('fork').Pool(3, maxtasksperchild=1) as pool:\n  pool.map(task, range(60), chunksize=1)\n  pool.close()\n  pool.join()",
        );
        assert_same(counted.work(pause));
    }
}

#[test]
fn zombies_beside_short_commands_count_once() {
    for pause in PAUSES {
        let mut counted = Counted::new(
            "def work():\n late = [forked(0.15) for _ in range(3)]\n for _ in range(40): subprocess.run(['sh', '-c', SHORT], check=True)\n for pid in late: os.waitpid(pid, 0)",
        );
        assert_same(counted.work(pause));
    }
}

#[test]
fn what_was_waited_for_before_a_process_joined_is_not_the_trees() {
    let code = |work: &str| format!("{PRELUDE}{work}\ntell()\nsys.stdin.read()");
    let mut first = Job::python(&code("pass"));
    first.hear();
    let mut second = Job::python(&code("os.waitpid(forked(0.5), 0)"));
    second.hear();
    let mut tree = ProcessTree::new(&Roots::default(), TreeOptions::default()).unwrap();
    tree.add_root(first.pid()).unwrap();
    let mut ticker = Ticker::new();
    ticker.tick(&mut tree);
    let before = tree.cpu_nanos_total();
    tree.add_root(second.pid()).unwrap();
    ticker.tick(&mut tree);
    tree.be_thorough();
    ticker.tick(&mut tree);
    let added = tree.cpu_nanos_total() - before;
    assert!(added < 250 * MS, "{added}");
}
