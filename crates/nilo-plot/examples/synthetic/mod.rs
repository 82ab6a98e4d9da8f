//! Recordings made up for the gallery and the tests.

// Each program that includes this file uses another part of it.
#![allow(dead_code, clippy::unwrap_used, unreachable_pub)]

use nilo_sample::fixture::{description, table_of, tick};
use nilo_sample::rows::{CgroupRow, GpuRow, ProcessRow, TreeRow};
use nilo_sample::{
    Certainty, Ending, Event, Limit, LimitSource, OomKill, ProcessId, ProcessInfo, RecordedTable,
    Recording, RunDescription, RunId, RunStatus, Subject, TableSpec, TimedEvent,
};

pub const MIB: f64 = 1048576.0;
pub const GIB: f64 = 1073741824.0;
pub const SECOND: u64 = 1_000_000_000;

/// A run of which nothing was sampled.
pub fn empty(name: &str) -> Recording {
    let command = "python train.py --config configs/gpt2-small.yaml --batch-size 32";
    Recording::empty(RunDescription {
        id: RunId::new(1_794_729_330_417_000_000, name),
        name: Some(name.into()),
        command: command.split(' ').map(String::from).collect(),
        cwd: "/home/ada".into(),
        host: "node-17".into(),
        system: "Linux 6.12".into(),
        nilo_version: "0.1.0".into(),
        started_unix_nanos: 1_794_729_330_417_000_000,
        recorder_start_ticks: 1,
        root_pids: vec![100],
        interval_nanos: SECOND / 10,
        ..description()
    })
}

pub fn id(pid: u32) -> ProcessId {
    let start_ticks = 7;
    ProcessId { pid, start_ticks }
}

/// Adds the tree's memory; the other columns are absent.
pub fn add_tree(recording: &mut Recording, points: &[(u64, f64)]) {
    let row = |memory_bytes| TreeRow {
        memory_bytes,
        ..TreeRow::ABSENT
    };
    let rows: Vec<_> = points
        .iter()
        .map(|(at, bytes)| (*at, row(*bytes)))
        .collect();
    recording.tables.push(table_of(TableSpec::tree(), &rows));
}

pub fn add_event(recording: &mut Recording, time_nanos: u64, event: Event) {
    recording.events.push(TimedEvent { time_nanos, event });
}

pub fn add_mark(recording: &mut Recording, secs: f64, text: &str) {
    let text = text.to_owned();
    let time_nanos = (secs * SECOND as f64) as u64;
    add_event(recording, time_nanos, Event::Mark { text });
}

/// A process that shares nothing.
fn rss(rss_bytes: f64) -> ProcessRow {
    ProcessRow {
        rss_bytes,
        cpu_nanos: 0.0,
        memory_bytes: rss_bytes,
        virtual_bytes: rss_bytes,
        distinct_bytes: rss_bytes,
    }
}

/// Adds a process with its RSS over time.
pub fn add_process(recording: &mut Recording, pid: u32, name: &str, points: &[(u64, f64)]) {
    let rows: Vec<_> = points
        .iter()
        .map(|(at, bytes)| (*at, rss(*bytes)))
        .collect();
    let table = table_of(TableSpec::process(id(pid)), &rows);
    recording.tables.push(table);
    let info = ProcessInfo {
        name: name.into(),
        ..ProcessInfo::default()
    };
    let time_nanos = points.first().map_or(0, |(time, _)| *time);
    add_event(
        recording,
        time_nanos,
        Event::ProcessStarted { id: id(pid), info },
    );
}

/// Sets the tree's memory to a share of the sum of the processes at each tick.
pub fn sum_processes(recording: &mut Recording, ticks: &[u64], share: f64) {
    let rss_at = |table: &RecordedTable, time: u64| {
        let row = table.times.partition_point(|t| *t <= time);
        let rss = |row| table.row::<ProcessRow>(row).rss_bytes;
        row.checked_sub(1).map_or(0.0, rss)
    };
    let processes = recording
        .tables
        .iter()
        .filter(|table| matches!(table.spec.subject, Subject::Process(_)));
    let processes: Vec<_> = processes.collect();
    let total = |time: u64| processes.iter().map(|t| rss_at(t, time)).sum::<f64>() * share;
    let points: Vec<_> = ticks.iter().map(|time| (*time, total(*time))).collect();
    add_tree(recording, &points);
}

pub fn ticks(secs: f64, per_second: f64) -> Vec<u64> {
    let count = (secs * per_second) as u64;
    (0..=count)
        .map(|tick| (tick as f64 / per_second * 1e9) as u64)
        .collect()
}

pub fn curve(secs: f64, per_second: f64, bytes: impl Fn(f64) -> f64) -> Vec<(u64, f64)> {
    let point = |time: u64| (time, bytes(time as f64 / 1e9));
    ticks(secs, per_second).into_iter().map(point).collect()
}

/// A training job: loading, then a sawtooth of steps, with four data loader workers.
pub fn training(share: f64) -> Recording {
    let mut recording = empty("gpt2-small, batch 32");
    let trainer = |t: f64| {
        let loaded = (t / 12.0).min(1.0) * 900.0 * MIB;
        let steps = if t > 14.0 {
            (t % 5.0) / 5.0 * 650.0 * MIB
        } else {
            0.0
        };
        120.0 * MIB + loaded + steps
    };
    add_process(
        &mut recording,
        100,
        "python train.py",
        &curve(90.0, 10.0, trainer),
    );
    for worker in 0..4 {
        let offset = f64::from(worker);
        let start = ((13.0 + offset) * 1e9) as u64;
        let loader = |t: f64| (180.0 + 40.0 * offset + 60.0 * ((t + offset) * 0.9).sin()) * MIB;
        let points: Vec<_> = curve(90.0, 10.0, loader)
            .into_iter()
            .filter(|(time, _)| *time >= start)
            .collect();
        let name = "python train.py [DataLoader worker]";
        add_process(&mut recording, 101 + worker, name, &points);
    }
    sum_processes(&mut recording, &ticks(90.0, 10.0), share);
    recording.description.ending = Some(ending(RunStatus::Exited, 90.3));
    recording
}

pub fn ending(status: RunStatus, secs: f64) -> Ending {
    Ending {
        status,
        exit_code: (status == RunStatus::Exited).then_some(0),
        signal: (status != RunStatus::Exited).then_some(9),
        time_nanos: (secs * 1e9) as u64,
        oom: None,
        left_running: vec![],
        recorder_death: None,
        lost_rank: None,
        gpu_out_of_memory: None,
    }
}

pub fn limit(bytes: f64) -> Limit {
    let source = LimitSource::Cgroup {
        path: "/slurm/uid_1000/job_88".into(),
        version: 1,
    };
    Limit {
        bytes: bytes as u64,
        source,
    }
}

/// A leak that reaches its limit.
pub fn oom() -> Recording {
    let mut recording = empty("leaky evaluation loop");
    let leak = |t: f64| 600.0 * MIB + t * 0.93 * MIB + 90.0 * MIB * (t / 40.0).sin().abs();
    let points = curve(3600.0, 1.0, leak);
    add_process(&mut recording, 100, "python evaluate.py", &points);
    sum_processes(&mut recording, &ticks(3600.0, 1.0), 1.0);
    let mut end = ending(RunStatus::OomKilled, 3602.0);
    end.oom = Some(OomKill {
        certainty: Certainty::Certain,
        limit: Some(limit(4.0 * GIB)),
        time_nanos: Some(3601 * SECOND),
        victim_pid: Some(100),
        victim_name: None,
        kills: 1,
        evidence: vec![],
    });
    recording.description.ending = Some(end);
    recording
}

/// A build with hundreds of short processes.
pub fn many_processes(count: u32) -> Recording {
    let mut recording = empty("make -j: many short processes");
    for n in 0..count {
        let start = f64::from(n) / f64::from(count) * 110.0;
        let size = (20.0 + f64::from(n * 7919 % 97) * 4.0) * MIB;
        let begin = (start * 1e9) as u64;
        let points = [(begin, size * 0.4), (begin + SECOND * 2, size)];
        add_process(
            &mut recording,
            200 + n,
            &format!("cc1plus unit-{n}.cpp"),
            &points,
        );
        let ended = Event::ProcessEnded {
            id: id(200 + n),
            peak_rss_bytes: None,
            exit_code: None,
            signal: None,
        };
        add_event(&mut recording, begin + 6 * SECOND, ended);
        // The made-up tree below sums what the tables say: a last row of zero.
        let table = recording.tables.last_mut().unwrap();
        tick(table, begin + 6 * SECOND, rss(0.0));
    }
    sum_processes(&mut recording, &ticks(120.0, 10.0), 1.0);
    recording
}

/// Adds a metric from (time, step, value).
pub fn add_metric(recording: &mut Recording, writer: &str, name: &str, rows: &[(u64, i64, f64)]) {
    recording.tables.push(RecordedTable {
        spec: TableSpec::metrics("metrics", [name]),
        writer: writer.into(),
        times: rows.iter().map(|row| row.0).collect(),
        steps: rows.iter().map(|row| row.1).collect(),
        columns: vec![rows.iter().map(|row| row.2).collect()],
    });
}

/// Adds a GPU: rows of (time, bytes used, bytes of the job).
pub fn add_gpu(recording: &mut Recording, index: u32, rows: &[(u64, f64, f64)]) {
    let row = |used_bytes, job_bytes| GpuRow {
        used_bytes,
        job_bytes,
        ..GpuRow::ABSENT
    };
    let rows = rows.iter();
    let rows: Vec<_> = rows
        .map(|(at, used, job)| (*at, row(*used, *job)))
        .collect();
    let mut table = table_of(TableSpec::gpu(index), &rows);
    table.writer = "recorder".into();
    recording.tables.push(table);
}

/// A job in a cgroup of its own whose files in tmpfs count against the limit.
pub fn charged() -> Recording {
    let mut recording = training(0.88);
    let path = "/slurm/uid_1000/job_88".to_owned();
    let rows: Vec<(u64, CgroupRow)> = (0..=90)
        .map(|second| {
            let level = (2.0 + 0.01 * second as f64) * GIB;
            let row = CgroupRow {
                usage_bytes: level,
                anon_bytes: level - 0.9 * GIB,
                file_bytes: 0.9 * GIB,
                shmem_bytes: 0.9 * GIB,
                owned: 1.0,
                ..CgroupRow::ABSENT
            };
            (second * SECOND, row)
        })
        .collect();
    recording
        .tables
        .push(table_of(TableSpec::cgroup(&path), &rows));
    let source = LimitSource::Cgroup { path, version: 1 };
    recording.description.limit = Some(Limit {
        bytes: (3.0 * GIB) as u64,
        source,
    });
    recording
}

/// Runs whose limits are nearly the same.
pub fn close_limits() -> Vec<(&'static str, Recording)> {
    let named = [
        ("baseline with a long name", 4.0),
        ("larger batches", 4.05),
        ("even larger batches", 4.1),
        ("the last one", 4.15),
    ];
    let run = |(name, gib): (&'static str, f64)| {
        let mut run = empty(name);
        add_tree(&mut run, &curve(3600.0, 1.0, |_| (gib - 1.0) * GIB));
        let source = LimitSource::Cgroup {
            path: format!("/slurm/uid_1000/job_88/{name}"),
            version: 1,
        };
        run.description.limit = Some(Limit {
            bytes: (gib * GIB) as u64,
            source,
        });
        (name, run)
    };
    named.map(run).into()
}
