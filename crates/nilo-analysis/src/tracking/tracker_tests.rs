//! Readings come out of the tables right, and a run that is followed gives the same verdicts as one that is read at once.

use nilo_sample::RunMode;
use nilo_sample::{
    ABSENT, Ending, Event, Limit, LimitSource, ProcessId, ProcessInfo, RecordedTable, Recording,
    RunStatus, TableSpec, TimedEvent,
};

use super::{Resource, ResourceTracker, RiskChange};
use nilo_forecast::{Cause, RiskLevel};
use nilo_sample::fixture::{level, recording, table, tick};
use nilo_sample::rows::{CgroupRow, GpuRow, HostRow, ProcessDetailRow, ProcessRow, TorchMemoryRow};

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

#[test]
fn a_page_cache_that_fills_the_cgroup_is_no_risk_and_memory_that_does_is() {
    let mut run = recording();
    run.description.limit = Some(cgroup_limit(2000.0));
    run.tables = vec![cgroup(|_| 300.0, |t| t * 1.5, 1000), tree(1000)];
    assert!(highest(&over(&run)) < RiskLevel::High);
    run.tables = vec![cgroup(|t| 300.0 + t * 1.5, |_| 0.0, 1000), tree(1000)];
    assert!(highest(&over(&run)) >= RiskLevel::High);
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

/// The cgroup is read when the kernel is about to kill, between two samples of the tree or after the last.
#[test]
fn a_level_that_only_the_cgroup_shows_is_looked_at_with_its_own_time() {
    for last_sample in [20, 10] {
        let mut levels = cgroup(|_| 300.0, |_| 0.0, last_sample);
        let full = cgroup(|_| 1990.0, |_| 0.0, 1);
        let time_nanos = 9 * SECOND + SECOND / 2;
        let at = levels.times.partition_point(|time| *time < time_nanos);
        levels.times.insert(at, time_nanos);
        for (column, value) in levels.columns.iter_mut().zip(&full.columns) {
            column.insert(at, value[0]);
        }
        let mut run = recording();
        run.description.limit = Some(cgroup_limit(2000.0));
        run.tables = vec![levels, tree(last_sample)];
        let (mut tracker, _) = ResourceTracker::over(&run, None);
        let mut level = || {
            let risks = tracker.risks();
            let job = risks.iter().find(|risk| risk.resource == Resource::Job);
            let reading = job.unwrap().reading;
            (reading.time_nanos, reading.needed_bytes() / MIB)
        };
        assert_eq!(level(), (time_nanos, 1990.0));
        assert_eq!(level().1, 300.0, "it is over");
    }
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
fn a_limit_that_changes_is_the_limit_from_then_on() {
    let mut run = recording();
    run.description.limit = Some(cgroup_limit(2000.0));
    run.tables = vec![cgroup(|t| 300.0 + t * 1.5, |_| 0.0, 1000), tree(1000)];
    run.events = vec![TimedEvent {
        time_nanos: 100 * SECOND,
        event: Event::LimitChanged {
            limit: Some(cgroup_limit(16000.0)),
        },
    }];
    assert!(highest(&over(&run)) < RiskLevel::High);
}

#[test]
fn a_limit_of_addresses_is_held_against_the_process_that_maps_most() {
    let mut run = recording();
    run.description.limit = Some(Limit {
        bytes: (1000.0 * MIB) as u64,
        source: LimitSource::Rlimit {
            resource: "as".to_owned(),
        },
    });
    run.tables = vec![tree(60)];
    let id = |pid| ProcessId {
        pid,
        start_ticks: 1,
    };
    // The last one is not held by that limit.
    for (pid, mib) in [(1, 300.0), (2, 400.0), (3, 5000.0)] {
        let mut rows = table(TableSpec::process(id(pid)));
        for second in 0..60 {
            let row = ProcessRow {
                rss_bytes: 30.0 * MIB,
                virtual_bytes: (mib + 9.0 * second as f64) * MIB,
                ..ProcessRow::ABSENT
            };
            tick(&mut rows, second * SECOND, row);
        }
        run.tables.push(rows);
    }
    let (tracker, _) = ResourceTracker::over(&run, None);
    let verdicts = tracker.verdicts(None);
    let of = |resource: Resource| verdicts.iter().find(|it| it.resource == resource).unwrap();
    let job = of(Resource::Job);
    assert_eq!(
        job.reading.limit(),
        None,
        "resident memory is no share of it"
    );
    let addresses = of(Resource::AddressSpace);
    assert_eq!(addresses.reading.used_bytes, 931.0 * MIB);
    assert_eq!(addresses.reading.used_share(), Some(0.931));
    assert!(addresses.forecast.level >= RiskLevel::High);
    assert_eq!(addresses.growth, None, "what is mapped is no leak");
    let advice = crate::assessment::advice(addresses, addresses.forecast.cause, None);
    assert!(advice.iter().any(|it| it.contains("ulimit -v")));
    // A process that ended holds nothing.
    run.events.push(TimedEvent {
        time_nanos: 30 * SECOND,
        event: Event::ProcessEnded {
            id: id(2),
            peak_rss_bytes: None,
            exit_code: None,
            signal: None,
        },
    });
    run.tables[2] = piece(&run.tables[2], 0, 30);
    let (tracker, _) = ResourceTracker::over(&run, None);
    let verdicts = tracker.verdicts(None);
    let addresses = verdicts
        .iter()
        .find(|it| it.resource == Resource::AddressSpace);
    assert_eq!(addresses.unwrap().reading.used_bytes, 831.0 * MIB);
}

#[test]
fn a_limit_of_data_is_held_against_what_the_details_of_processes_tell() {
    let mut run = recording();
    let limit = Some(Limit {
        bytes: (1000.0 * MIB) as u64,
        source: LimitSource::Rlimit {
            resource: "data".to_owned(),
        },
    });
    let id = ProcessId {
        pid: 7,
        start_ticks: 1,
    };
    let mut rows = table(TableSpec::process_detail(id));
    for second in 0..60 {
        let row = ProcessDetailRow {
            data_bytes: (400.0 + 9.0 * second as f64) * MIB,
            ..ProcessDetailRow::ABSENT
        };
        tick(&mut rows, second * SECOND, row);
    }
    run.tables = vec![tree(60), rows];
    let data_size = |run: &Recording| {
        let (tracker, _) = ResourceTracker::over(run, None);
        let mut verdicts = tracker.verdicts(None).into_iter();
        verdicts.find(|it| it.resource == Resource::DataSize)
    };
    assert_eq!(data_size(&run), None, "without such a limit");
    run.description.limit = limit.clone();
    let told = data_size(&run).unwrap();
    assert_eq!(told.reading.used_share(), Some(0.931));
    assert!(told.forecast.level >= RiskLevel::High);
    assert_eq!(told.growth, None, "what is mapped is no leak");
    let advice = crate::assessment::advice(&told, told.forecast.cause, None);
    assert!(advice.iter().any(|it| it.contains("ulimit -d")));
    // It comes into force only then, and goes again.
    run.description.limit = None;
    let changed = |secs, limit| TimedEvent {
        time_nanos: secs * SECOND,
        event: Event::LimitChanged { limit },
    };
    run.events.push(changed(10, limit));
    assert!(data_size(&run).is_some());
    run.events.push(changed(50, None));
    assert_eq!(data_size(&run), None);
}

#[test]
fn the_host_alone_is_no_limit_of_the_job() {
    let mut run = recording();
    run.description.limit = Some(Limit {
        bytes: (200.0 * MIB) as u64,
        source: LimitSource::Host,
    });
    run.tables = vec![tree(300)];
    let (tracker, _) = ResourceTracker::over(&run, None);
    let verdicts = tracker.verdicts(None);
    assert_eq!(verdicts.len(), 1);
    assert_eq!(
        (&verdicts[0].resource, verdicts[0].forecast.used_share),
        (&Resource::Job, None)
    );
}

#[test]
fn torch_runs_out_of_what_it_has_and_what_is_free() {
    let mut run = recording();
    let mut rows = table(TableSpec::torch_memory(1));
    rows.writer = "python-7".to_owned();
    for second in 0..1000_u64 {
        let allocated = (1000.0 + second as f64 * 3.0) * MIB;
        let row = TorchMemoryRow {
            allocated_bytes: allocated,
            reserved_bytes: allocated,
            device_free_bytes: 4200.0 * MIB - allocated,
            device_total_bytes: 80000.0 * MIB,
            ..TorchMemoryRow::ABSENT
        };
        tick(&mut rows, second * SECOND, row);
    }
    run.tables = vec![rows];
    let raised: Vec<RiskChange> = over(&run)
        .into_iter()
        .filter(|change| change.forecast.level >= RiskLevel::High)
        .collect();
    let torch = Resource::Torch {
        writer: "python-7".to_owned(),
        device: 1,
    };
    assert_eq!(raised[0].resource, torch);
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

#[test]
fn what_a_driver_keeps_for_itself_is_no_part_of_the_limit() {
    let mut run = recording();
    let mut gpu = table(TableSpec::gpu(0));
    tick(&mut gpu, SECOND, gpu_row(60.0, 100.0));
    run.tables = vec![gpu];
    run.events = vec![TimedEvent {
        time_nanos: SECOND,
        event: Event::GpuFound {
            index: 0,
            name: "H200".to_owned(),
            uuid: "GPU-0".to_owned(),
            total_bytes: Some(100),
            reserved_bytes: Some(20),
        },
    }];
    let (tracker, _) = ResourceTracker::over(&run, None);
    assert_eq!(tracker.verdicts(None)[0].reading.used_share(), Some(0.75));
}

/// Without a job the cgroup that limits us is a resource of its own.
#[test]
fn a_cgroup_speaks_for_itself_where_no_job_is_watched() {
    let mut run = recording();
    run.description.mode = RunMode::Machine;
    run.description.limit = Some(cgroup_limit(2000.0));
    run.tables = vec![cgroup(|t| 300.0 + t * 1.5, |_| 50.0, 1000)];
    let (tracker, changes) = ResourceTracker::over(&run, None);
    let path = "/job".to_owned();
    let verdicts = tracker.verdicts(None);
    assert_eq!(verdicts[0].resource, Resource::Cgroup { path });
    assert_eq!(verdicts[0].reading.limit_bytes, Some(2000.0 * MIB));
    assert!(highest(&changes) >= RiskLevel::High);
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

#[test]
fn a_gpu_that_stands_still_counts_as_read_as_long_as_rows_come() {
    let mut gpu = table(TableSpec::gpu(0));
    tick(&mut gpu, SECOND, gpu_row(6.0 * MIB, 16.0 * MIB));
    let mut run = recording();
    run.tables = vec![tree(20), gpu];
    let still = |run: &Recording| {
        let (tracker, _) = ResourceTracker::over(run, None);
        let verdicts = tracker.verdicts(None);
        let gpu =
            |verdict: &&super::ResourceVerdict| verdict.resource == Resource::Gpu { index: 0 };
        let verdict = verdicts.iter().find(gpu).unwrap().clone();
        (verdict.readings, verdict.watched_secs, verdict.too_young)
    };
    assert_eq!(still(&run), (19, 18.0, false));
    // From a row without values on nobody knows.
    tick(&mut run.tables[1], 9 * SECOND / 2, GpuRow::ABSENT);
    assert_eq!(still(&run), (4, 3.0, true));
}

#[test]
fn of_several_processes_each_cgroup_is_held_against_its_own_limit() {
    let mut run = recording();
    run.description.root_pids = vec![1, 2];
    run.description.limit = Some(Limit {
        bytes: (64.0 * 1024.0 * MIB) as u64,
        source: LimitSource::Host,
    });
    let limited = |path: &str, used: f64, limit: f64| {
        let mut rows = table(TableSpec::cgroup(path));
        for second in 0..5 {
            let row = CgroupRow {
                usage_bytes: used * MIB,
                working_set_bytes: used * MIB,
                limit_bytes: limit * MIB,
                ..CgroupRow::ABSENT
            };
            tick(&mut rows, second * SECOND, row);
        }
        rows
    };
    run.tables = vec![
        tree(5),
        limited("/small", 100.0, 256.0),
        limited("/large", 400.0, 1024.0),
        limited("/free", 400.0, ABSENT),
    ];
    let shares = |run: &Recording| {
        let (tracker, _) = ResourceTracker::over(run, None);
        let verdicts = tracker.verdicts(None);
        let mut found: Vec<(String, Option<f64>)> = verdicts
            .iter()
            .map(|verdict| (verdict.resource.to_string(), verdict.reading.used_share()))
            .collect();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found
    };
    let expected = [
        ("cgroup /large".to_owned(), Some(400.0 / 1024.0)),
        ("cgroup /small".to_owned(), Some(100.0 / 256.0)),
        ("job memory".to_owned(), None),
    ];
    assert_eq!(shares(&run), expected);
    run.description.root_pids = vec![1];
    assert_eq!(shares(&run), expected[2..]);
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
    };
    let until = |status: RunStatus| used(Some(&ended(status)));
    assert_eq!(until(RunStatus::Detached), 300.0, "it goes on without us");
    assert_eq!(until(RunStatus::Lost), 300.0, "nobody saw its end");
    assert_eq!(until(RunStatus::Exited), 900.0);
}

/// The tree counts file pages that are charged to nobody here, and is read a moment before its cgroup.
#[test]
fn a_job_is_never_said_to_hold_more_than_the_cgroup_that_it_shares() {
    let mut run = recording();
    run.description.limit = Some(cgroup_limit(200.0));
    let own = |needed_mib: f64| {
        let mut rows = cgroup(|_| needed_mib, |_| 20.0, 30);
        let owned = rows.spec.column("owned").unwrap();
        rows.columns[owned].fill(0.0);
        let mut run = run.clone();
        run.tables = vec![rows, tree(30)];
        let (mut tracker, _) = ResourceTracker::over(&run, None);
        let mut told = tracker.verdicts(None);
        told.extend(tracker.risks());
        let of_job = told.into_iter().filter(|it| it.resource == Resource::Job);
        let own = of_job.map(|it| (it.reading.needed_bytes(), it.reading.job_bytes));
        own.collect::<Vec<_>>()
    };
    assert_eq!(own(98.0), vec![(98.0 * MIB, Some(98.0 * MIB)); 2]);
    assert_eq!(own(150.0), vec![(150.0 * MIB, Some(100.0 * MIB)); 2]);
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

#[test]
fn a_program_is_held_against_its_own_budget_where_that_is_smaller_than_the_limit() {
    let mut grown = table(TableSpec::tree());
    for second in 0..120 {
        tick(
            &mut grown,
            second * SECOND,
            level((100.0 + 10.0 * second as f64) * MIB),
        );
    }
    let held = |limit: Option<&Limit>, budget_mib: f64| {
        let known = ResourceTracker::of_process(1, limit);
        let mut tracker = known.against_budget((budget_mib * MIB) as u64);
        tracker.take(std::slice::from_ref(&grown), &[]);
        let verdicts = tracker.verdicts(None).into_iter();
        let mut job = verdicts.filter(|verdict| verdict.resource == Resource::Job);
        let job = job.next().unwrap();
        (
            job.reading.limit(),
            job.reading.used_bytes / MIB,
            job.forecast,
        )
    };
    let host = Limit {
        bytes: (64.0 * 1024.0 * MIB) as u64,
        source: LimitSource::Host,
    };
    for limit in [None, Some(&host), Some(&cgroup_limit(4096.0))] {
        let (budget, used_mib, forecast) = held(limit, 2000.0);
        assert_eq!((budget, used_mib), (Some(2000.0 * MIB), 1290.0));
        assert_eq!(forecast.level, RiskLevel::Critical, "{limit:?}");
        // 710 MiB are left, at 10 MiB a second.
        let seconds = forecast.seconds.unwrap();
        assert!((60.0..=82.0).contains(&seconds), "{seconds}");
    }
    let (larger, _, forecast) = held(Some(&cgroup_limit(1500.0)), 2000.0);
    assert_eq!((larger, forecast.level), (None, RiskLevel::Low));
}

/// It is a limit of the job alone: nothing else goes another way because of it.
#[test]
fn a_leak_into_the_machine_is_told_of_the_machine_whatever_limit_was_given_for_the_job() {
    let (mut levels, mut host) = (table(TableSpec::tree()), table(TableSpec::host()));
    for second in 0..300 {
        let leaked = (100.0 + second as f64) * MIB;
        tick(&mut levels, second * SECOND, level(leaked));
        let row = HostRow {
            total_bytes: 24000.0 * MIB,
            available_bytes: 20000.0 * MIB - leaked,
            ..HostRow::ABSENT
        };
        tick(&mut host, second * SECOND, row);
    }
    let mut run = recording();
    run.description.limit = Some(Limit {
        bytes: (24000.0 * MIB) as u64,
        source: LimitSource::Host,
    });
    run.tables = vec![levels, host];
    let of_host = |run: &Recording, given: Option<u64>| {
        let (tracker, _) = ResourceTracker::over_with_limit(run, None, given);
        let verdicts = tracker.verdicts(None);
        let host = verdicts
            .into_iter()
            .find(|verdict| verdict.resource == Resource::Host);
        host.unwrap().forecast
    };
    let recorded = of_host(&run, None);
    assert_eq!(recorded.cause, Some(Cause::Leak));
    assert_eq!(of_host(&run, Some(1 << 30)), recorded);
    // A job that has a limit does not get that far.
    run.description.limit = Some(cgroup_limit(1024.0));
    assert_ne!(of_host(&run, Some(2 << 30)).cause, Some(Cause::Leak));
}
