//! Readings come out of the tables right, and a run that is followed gives the same verdicts as one that is read at once.

mod cgroups;
mod gpus;
mod limits;

use nilo_forecast::{Cause, RiskLevel};
use nilo_sample::fixture::{level, recording, table, tick};
use nilo_sample::rows::{CgroupRow, GpuRow, ProcessRow};
use nilo_sample::{
    ABSENT, Ending, Event, Limit, LimitSource, ProcessId, ProcessInfo, RecordedTable, Recording,
    RunStatus, TableSpec, TimedEvent,
};

use super::{Resource, ResourceTracker, RiskChange};

const MIB: f64 = 1048576.0;
const SECOND: u64 = 1_000_000_000;

fn cgroup_limit(mib: f64) -> Limit {
    Limit {
        bytes: (mib * MIB) as u64,
        source: LimitSource::Cgroup {
            path: "/job".to_owned(),
            version: 2,
        },
    }
}

fn tree(secs: u64) -> RecordedTable {
    let mut tree = table(TableSpec::tree());
    for second in 0..secs {
        tick(&mut tree, second * SECOND, level(100.0 * MIB));
    }
    tree
}

fn gpu_row(used_bytes: f64, total_bytes: f64) -> GpuRow {
    GpuRow {
        used_bytes,
        total_bytes,
        ..GpuRow::ABSENT
    }
}

/// A cgroup whose anonymous memory and file pages are functions of the second, in MiB.
fn cgroup(anon: impl Fn(f64) -> f64, files: impl Fn(f64) -> f64, secs: u64) -> RecordedTable {
    let mut rows = table(TableSpec::cgroup("/job"));
    for second in 0..secs {
        let (anon, files) = (anon(second as f64) * MIB, files(second as f64) * MIB);
        let usage = anon + files;
        // Nine of ten file pages are active: they count in the working set, and can be dropped all the same.
        let row = CgroupRow {
            usage_bytes: usage,
            working_set_bytes: usage - files / 10.0,
            peak_bytes: ABSENT,
            limit_bytes: ABSENT,
            anon_bytes: anon,
            file_bytes: files,
            shmem_bytes: 0.0,
            swap_bytes: 0.0,
            oom_kills: 0.0,
            limit_hits: 0.0,
            owned: 1.0,
            holds_job: 1.0,
        };
        tick(&mut rows, second * SECOND, row);
    }
    rows
}

fn highest(changes: &[RiskChange]) -> RiskLevel {
    changes
        .iter()
        .map(|change| change.forecast.level)
        .max()
        .unwrap_or_default()
}

fn over(run: &Recording) -> Vec<RiskChange> {
    ResourceTracker::over(run, None).1
}

/// Alerts and live monitors ask for risks, `nilo oom` for verdicts: both call a leak a leak.
#[test]
fn whoever_is_warned_of_a_leak_hears_that_word() {
    let mut run = recording();
    run.description.limit = Some(cgroup_limit(2000.0));
    run.tables = vec![cgroup(|t| 300.0 + t * 1.5, |_| 0.0, 1000), tree(1000)];
    let (mut tracker, _) = ResourceTracker::over(&run, None);
    let risky = |verdicts: Vec<super::ResourceVerdict>| -> Vec<_> {
        let risky = verdicts.into_iter();
        let risky = risky.filter(|verdict| verdict.forecast.level >= RiskLevel::High);
        risky
            .map(|verdict| (verdict.resource.to_string(), verdict.forecast.cause))
            .collect()
    };
    let told = risky(tracker.risks());
    assert_eq!(told, risky(tracker.verdicts(None)));
    assert_eq!(told[0].1, Some(Cause::Leak));
}

/// The first sample has no interval yet, so that ten seconds of samples are a little less.
#[test]
fn what_was_watched_too_short_is_not_said_to_be_long_enough() {
    let mut slow = table(TableSpec::tree());
    for second in (0..=10).step_by(2) {
        tick(&mut slow, second * SECOND, level(100.0 * MIB));
    }
    let mut run = recording();
    run.tables = vec![slow];
    let verdict = &ResourceTracker::over(&run, None).0.verdicts(None)[0];
    assert!(verdict.too_young && verdict.watched_secs == 10.0);
    assert_eq!(verdict.told_secs(), 8.0);
    run.tables = vec![tree(6)];
    assert_eq!(
        ResourceTracker::over(&run, None).0.verdicts(None)[0].told_secs(),
        5.0
    );
}

#[test]
fn a_run_in_pieces_gives_the_same_changes_as_a_run_at_once() {
    let mut run = recording();
    run.description.limit = Some(cgroup_limit(2000.0));
    run.tables = vec![cgroup(|t| 300.0 + t * 1.5, |_| 0.0, 1000), tree(1000)];
    let mut tracker = ResourceTracker::new(&run.description);
    let mut changes = Vec::new();
    for from in (0..1000).step_by(50) {
        let pieces: Vec<RecordedTable> = run
            .tables
            .iter()
            .map(|table| piece(table, from, from + 50))
            .collect();
        changes.extend(tracker.take(&pieces, &[]));
    }
    assert_eq!(changes, over(&run));
}

/// Only changes are written: a GPU that stands still after a peak is silent, and calm all the same.
#[test]
fn a_level_that_stands_still_gets_older_with_the_run() {
    let mut run = recording();
    let mut gpu = table(TableSpec::gpu(0));
    tick(&mut gpu, 0, gpu_row(90.0, 100.0));
    tick(&mut gpu, SECOND, gpu_row(10.0, 100.0));
    run.tables = vec![gpu, tree(100)];
    let mut tracker = ResourceTracker::new(&run.description);
    tracker.take(&run.tables, &run.events);
    tracker.risks();
    let risks = tracker.risks();
    let gpu = risks.iter().find(|risk| risk.resource.is_gpu()).unwrap();
    assert_eq!(gpu.reading.time_nanos, 99 * SECOND);
    assert_eq!(gpu.reading.used_bytes, 10.0);
}

fn piece(table: &RecordedTable, from: usize, to: usize) -> RecordedTable {
    RecordedTable {
        times: table.times[from..to].to_vec(),
        columns: table
            .columns
            .iter()
            .map(|column| column[from..to].to_vec())
            .collect(),
        ..table.clone()
    }
}

/// A sample that fell into the moment of the end tells nothing of what the job needed.
#[test]
fn a_job_that_ended_is_judged_as_it_was_before_it_gave_its_memory_back() {
    let mut tree = table(TableSpec::tree());
    let levels = [
        400.0, 500.0, 600.0, 900.0, 900.0, 900.0, 700.0, 300.0, 300.0,
    ];
    for (tenth, mib) in levels.into_iter().enumerate() {
        tick(&mut tree, tenth as u64 * SECOND / 10, level(mib * MIB));
    }
    let mut run = recording();
    run.description.limit = Some(cgroup_limit(1000.0));
    run.tables = vec![tree];
    let used = |ending: Option<&Ending>| {
        let verdicts = ResourceTracker::over(&run, ending).0.verdicts(None);
        let job = verdicts.iter().find(|it| it.resource == Resource::Job);
        job.unwrap().reading.used_bytes / MIB
    };
    assert_eq!(used(None), 300.0, "it still runs");
    let ended = |status| Ending {
        status,
        exit_code: Some(1),
        signal: None,
        time_nanos: SECOND,
        oom: None,
        left_running: Vec::new(),
        recorder_death: None,
        lost_rank: None,
        gpu_out_of_memory: None,
    };
    let until = |status: RunStatus| used(Some(&ended(status)));
    assert_eq!(until(RunStatus::Detached), 300.0, "it goes on without us");
    assert_eq!(until(RunStatus::Lost), 300.0, "nobody saw its end");
    assert_eq!(until(RunStatus::Exited), 900.0);
}

/// What drives a job to its limit whose only child grows, and what to do about it. The command lines are those of root and child.
fn growing_child(root: &str, child: &str) -> (Option<Cause>, Vec<&'static str>) {
    let mut run = recording();
    run.description.limit = Some(cgroup_limit(2000.0));
    run.description.root_pids = vec![10];
    let grown = |second: u64| (100.0 + 3.0 * second as f64) * MIB;
    let mut all = table(TableSpec::tree());
    for (pid, parent, command) in [(10, 1, root), (11, 10, child)] {
        let id = ProcessId {
            pid,
            start_ticks: 5,
        };
        let info = ProcessInfo {
            parent,
            command: command.to_owned(),
            ..ProcessInfo::default()
        };
        run.events.push(TimedEvent {
            time_nanos: 0,
            event: Event::ProcessStarted { id, info },
        });
        let mut own = table(TableSpec::process(id));
        for second in 0..600 {
            let row = ProcessRow {
                rss_bytes: if pid == 10 { 5.0 * MIB } else { grown(second) },
                ..ProcessRow::ABSENT
            };
            tick(&mut own, second * SECOND, row);
        }
        run.tables.push(own);
    }
    for second in 0..600 {
        tick(&mut all, second * SECOND, level(5.0 * MIB + grown(second)));
    }
    run.tables.push(all);
    let (tracker, _) = ResourceTracker::over(&run, None);
    let verdicts = tracker.verdicts(None);
    let job = verdicts.iter().find(|it| it.resource == Resource::Job);
    let job = job.unwrap();
    assert!(job.forecast.level >= RiskLevel::High);
    let advice = crate::assessment::advice(job, job.forecast.cause, None);
    (job.forecast.cause, advice)
}

#[test]
fn a_subprocess_that_grows_alone_is_no_worker() {
    let is_of_workers = |advice: Vec<&str>| advice.iter().any(|it| it.contains("workers"));
    for child in ["python leak.py", "python -c 'x = []'"] {
        let (cause, advice) = growing_child("bash job.sh", child);
        assert_ne!(cause, Some(Cause::Workers));
        assert!(!is_of_workers(advice));
    }
    for child in [
        "python train.py",
        "python -c from multiprocessing.spawn import spawn_main; spawn_main()",
    ] {
        let (cause, advice) = growing_child("python train.py", child);
        assert_eq!(cause, Some(Cause::Workers), "{child}");
        assert!(is_of_workers(advice));
    }
}
