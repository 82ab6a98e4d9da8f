//! What a tick costs, against opening, reading and closing the same files, interleaved in one run.
//!
//! `cargo bench -p nilo-source --bench tick` prints microseconds, median and 99th percentile, for trees of 1 to 5000 processes.
//! PSS is off: its price is the target's, not ours. Detail is on, as in a recording at 10 Hz; idle trees sleep, busy ones spin and allocate.
#![allow(clippy::print_stdout, reason = "a program that prints")]

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nilo_source::{Host, MemoryCgroup, ProcessTree, Roots, TreeOptions};
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

fn main() {
    println!(
        "processes  kind      tick µs        CPU µs   naive µs       ratio   share of a core at 10 Hz"
    );
    for (count, kind, ticks) in [
        (1, "idle", 2000),
        (20, "idle", 2000),
        (20, "busy", 500),
        (1000, "idle", 200),
        (5000, "idle", 40),
    ] {
        let job = start(count, kind);
        measure(&job, count, kind, ticks);
        stop(job);
    }
    at_ten_hertz();
    sysinfo_for_comparison();
    others();
}

/// What it really costs ten times a second: a processor that has slept for 100 ms is cold, and waking up is work in itself.
///
/// The first line is the floor of every sampler on this machine; the second is that of one that reads one file for each of twenty processes.
fn at_ten_hertz() {
    println!("CPU µs of a wake-up at 10 Hz, and the share of a core:");
    let print = |what: &str, micros: f64| {
        println!("  {what:<44} {micros:>7.1}   {:.3} %", micros / 1e3);
    };
    print("an empty loop", cpu_of_a_wake_up(|| {}));
    let statm = std::fs::File::open("/proc/self/statm").expect("there is a /proc");
    let read = || {
        for _ in 0..20 {
            let mut buffer = [0u8; 192];
            let count = rustix::io::pread(&statm, &mut buffer[..], 0);
            std::hint::black_box(count.expect("readable"));
        }
    };
    print(
        "twenty reads of one kept-open statm",
        cpu_of_a_wake_up(read),
    );
    for kind in ["idle", "busy"] {
        let job = start(20, kind);
        let mut tree = ProcessTree::new(&Roots::default(), TreeOptions::default());
        let tree = tree.as_mut().expect("there is a /proc");
        tree.add_root(job.id()).expect("the job runs");
        let began = Instant::now();
        let now = || 1 + began.elapsed().as_nanos() as u64;
        // Past the first measurements of PSS.
        while began.elapsed() < Duration::from_secs(4) {
            tree.tick(now());
            std::thread::sleep(Duration::from_millis(100));
        }
        let micros = cpu_of_a_wake_up(|| tree.tick(now()));
        print(
            &format!("our tick, 20 {kind} processes, PSS included"),
            micros,
        );
        stop(job);
    }
}

/// Mean CPU time of one pass of a loop that sleeps 100 ms and then works.
fn cpu_of_a_wake_up(mut work: impl FnMut()) -> f64 {
    const PASSES: u32 = 100;
    let before = thread_nanos();
    for _ in 0..PASSES {
        std::thread::sleep(Duration::from_millis(100));
        work();
    }
    (thread_nanos() - before) as f64 / 1e3 / f64::from(PASSES)
}

fn start(count: usize, kind: &str) -> Child {
    let work = match kind {
        "busy" => "python3 -c 'import time\nwhile 1:\n  b = bytearray(1 << 20); time.sleep(0.005)'",
        _ => "sleep 1000",
    };
    // The shell itself is one of them.
    let script = match count {
        1 => format!("echo ready; exec {work}"),
        _ => {
            format!("i=1; while [ $i -lt {count} ]; do {work} & i=$((i+1)); done; echo ready; wait")
        }
    };
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .process_group(0)
        .stdout(Stdio::piped())
        .spawn()
        .expect("sh starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped"))
        .read_line(&mut line)
        .expect("the job says that it is ready");
    std::thread::sleep(Duration::from_millis(300));
    child
}

fn stop(mut job: Child) {
    let group = rustix::process::Pid::from_child(&job);
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    let _ = job.wait();
}

fn measure(job: &Child, count: usize, kind: &str, ticks: usize) {
    let options = TreeOptions {
        measuring_budget: 0.0,
        ..TreeOptions::default()
    };
    let mut tree = ProcessTree::new(&Roots::default(), options).expect("there is a /proc");
    tree.add_root(job.id()).expect("the job runs");
    let mut now_nanos = 0;
    // Past the youth of the processes, in which detail is read more often.
    for _ in 0..100 {
        now_nanos += 100_000_000;
        tree.tick(now_nanos);
    }
    let pids: Vec<u32> = tree
        .processes()
        .iter()
        .map(|process| process.id.pid)
        .collect();
    let (mut ours, mut naive) = (Vec::new(), Vec::new());
    let mut cpu_nanos = 0;
    for _ in 0..ticks {
        now_nanos += 100_000_000;
        let cpu_before = thread_nanos();
        ours.push(timed(|| tree.tick(now_nanos)));
        cpu_nanos += thread_nanos() - cpu_before;
        naive.push(timed(|| open_read_close(&pids)));
        // Caches go cold between the ticks of a real recording, too.
        std::thread::sleep(Duration::from_millis(2));
    }
    let (ours, naive) = (Quantiles::of(ours), Quantiles::of(naive));
    let cpu_micros = cpu_nanos as f64 / 1e3 / ticks as f64;
    println!(
        "{count:>9}  {kind}  {:>7.1} {:>7.1}  {cpu_micros:>7.1}  {:>7.1} {:>7.1}  {:>6.2}   {:.3} %",
        ours.median,
        ours.p99,
        naive.median,
        naive.p99,
        naive.median / ours.median,
        cpu_micros * 10.0 / 1e6 * 100.0,
    );
    assert_eq!(tree.processes().len(), count);
}

/// What a simple monitor does: `statm` for memory and `stat` for CPU time, opened anew.
fn open_read_close(pids: &[u32]) {
    for pid in pids {
        for name in ["statm", "stat"] {
            let text = std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
            std::hint::black_box(text);
        }
    }
}

/// The usual crate, asked for memory and CPU time of processes whose PIDs are known already.
fn sysinfo_for_comparison() {
    let job = start(20, "idle");
    let mut tree = ProcessTree::new(&Roots::default(), TreeOptions::default());
    let tree = tree.as_mut().expect("there is a /proc");
    tree.add_root(job.id()).expect("the job runs");
    let processes = tree.processes().iter();
    let pids: Vec<Pid> = processes.map(|it| Pid::from_u32(it.id.pid)).collect();
    assert_eq!(pids.len(), 20);
    let mut system = System::new().expect("sysinfo works");
    let what = ProcessRefreshKind::nothing()
        .without_tasks()
        .with_memory()
        .with_cpu();
    let mut times = Vec::new();
    for _ in 0..200 {
        times.push(timed(|| {
            system.refresh_processes_specifics(ProcessesToUpdate::Some(&pids), true, what);
        }));
    }
    stop(job);
    let times = Quantiles::of(times);
    println!(
        "sysinfo, 20 idle processes: {:.1} µs, p99 {:.1}",
        times.median, times.p99
    );
}

fn others() {
    let roots = Roots::default();
    let mut host = Host::new(&roots).expect("there is a /proc");
    let times = Quantiles::of(
        (0..2000)
            .map(|_| {
                timed(|| {
                    std::hint::black_box(host.read());
                })
            })
            .collect(),
    );
    println!("Host::read: {:.1} µs, p99 {:.1}", times.median, times.p99);
    let Ok(Some(mut cgroup)) = MemoryCgroup::of_process(&roots, std::process::id()) else {
        return;
    };
    for with_stat in [false, true] {
        let times = Quantiles::of(
            (0..2000)
                .map(|_| {
                    timed(|| {
                        std::hint::black_box(cgroup.read(with_stat));
                    })
                })
                .collect(),
        );
        println!(
            "MemoryCgroup::read({with_stat}), v{}: {:.1} µs, p99 {:.1}",
            cgroup.version(),
            times.median,
            times.p99
        );
    }
}

fn timed(work: impl FnOnce()) -> f64 {
    let before = Instant::now();
    work();
    before.elapsed().as_nanos() as f64 / 1e3
}

fn thread_nanos() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

struct Quantiles {
    median: f64,
    p99: f64,
}

impl Quantiles {
    fn of(mut micros: Vec<f64>) -> Quantiles {
        micros.sort_by(f64::total_cmp);
        Quantiles {
            median: micros[micros.len() / 2],
            p99: micros[micros.len() * 99 / 100],
        }
    }
}
