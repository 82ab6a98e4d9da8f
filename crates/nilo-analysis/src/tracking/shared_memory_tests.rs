//! `/dev/shm` is everybody's: who fills it decides whose leak it is, and it is told once.

use nilo_sample::fixture::{level, recording, table, tick};
use nilo_sample::rows::{CgroupRow, HostRow};
use nilo_sample::{
    Ending, Limit, LimitSource, RecordedTable, Recording, RunMode, RunStatus, TableSpec,
};

use super::{Resource, ResourceTracker, ResourceVerdict};
use crate::alerts::{AlertEvaluator, AlertRules};
use crate::assessment::{Thresholds, assess_verdict, is_leak};
use crate::findings::{Finding, FindingKind};
use nilo_forecast::{Cause, RiskLevel};

const MIB: f64 = 1048576.0;
const SECOND: u64 = 1_000_000_000;
const SECS: u64 = 300;

/// `/dev/shm` of 2000 MiB, filled by so much at a second.
fn host(shm_mib: impl Fn(f64) -> f64) -> RecordedTable {
    let mut rows = table(TableSpec::host());
    for second in 0..SECS {
        let row = HostRow {
            total_bytes: 64000.0 * MIB,
            available_bytes: 60000.0 * MIB,
            shm_total_bytes: 2000.0 * MIB,
            shm_used_bytes: shm_mib(second as f64) * MIB,
            ..HostRow::ABSENT
        };
        tick(&mut rows, second * SECOND, row);
    }
    rows
}

fn cgroup(owned: bool, shmem_mib: impl Fn(f64) -> f64) -> RecordedTable {
    let mut rows = table(TableSpec::cgroup("/job"));
    for second in 0..SECS {
        let (anon, shmem) = (100.0 * MIB, shmem_mib(second as f64) * MIB);
        let row = CgroupRow {
            usage_bytes: anon + shmem,
            working_set_bytes: anon + shmem,
            anon_bytes: anon,
            file_bytes: shmem,
            shmem_bytes: shmem,
            owned: f64::from(u8::from(owned)),
            ..CgroupRow::ABSENT
        };
        tick(&mut rows, second * SECOND, row);
    }
    rows
}

fn tree(mib: impl Fn(f64) -> f64) -> RecordedTable {
    let mut rows = table(TableSpec::tree());
    for second in 0..SECS {
        tick(&mut rows, second * SECOND, level(mib(second as f64) * MIB));
    }
    rows
}

fn run(tables: Vec<RecordedTable>) -> Recording {
    let mut run = recording();
    run.tables = tables;
    run
}

fn leaking(run: &Recording) -> Vec<Resource> {
    let (tracker, _) = ResourceTracker::over(run, None);
    let verdicts = tracker.verdicts(None).into_iter();
    let leaks = verdicts.filter(|verdict| is_leak(verdict.growth.as_ref()));
    leaks.map(|verdict| verdict.resource).collect()
}

fn shared_memory(run: &Recording) -> ResourceVerdict {
    let (tracker, _) = ResourceTracker::over(run, None);
    let mut verdicts = tracker.verdicts(None).into_iter();
    verdicts
        .find(|verdict| verdict.resource == Resource::SharedMemory)
        .unwrap()
}

fn told_as_leak(run: &Recording) -> Vec<Finding> {
    let ending = Ending {
        status: RunStatus::Exited,
        exit_code: Some(0),
        signal: None,
        time_nanos: SECS * SECOND,
        oom: None,
        left_running: vec![],
        recorder_death: None,
        lost_rank: None,
        gpu_out_of_memory: None,
    };
    let mut findings = crate::summarize(run, &ending).findings;
    findings.retain(|finding| [FindingKind::Leak, FindingKind::Growth].contains(&finding.kind));
    findings
}

fn filling(second: f64) -> f64 {
    300.0 + 5.0 * second
}

#[test]
fn what_somebody_else_writes_there_is_a_risk_and_no_leak_of_the_job() {
    let others = |_| 10.0;
    for cgroups in [vec![], vec![cgroup(false, filling)]] {
        let mut tables = vec![host(filling), tree(|_| 100.0)];
        tables.extend(cgroups);
        let run = run(tables);
        assert_eq!(leaking(&run), []);
        assert_eq!(told_as_leak(&run), []);
        let verdict = shared_memory(&run);
        assert!(verdict.forecast.level >= RiskLevel::High, "{verdict:?}");
        let assessed = assess_verdict(&verdict, &Thresholds::from_percent(80.0), None);
        assert!(
            assessed.reason.ends_with("; it is not known who fills it"),
            "{}",
            assessed.reason
        );
        assert!(assessed.recommendations[0].contains("/dev/shm"));
        let mut evaluator = AlertEvaluator::new(AlertRules::default());
        let alerts = evaluator.look(&[verdict]);
        assert!(alerts[0].text.ends_with("; it is not known who fills it"));
    }
    // Where the job's own part is known, it is known to be somebody else.
    let run = run(vec![host(filling), tree(|_| 100.0), cgroup(true, others)]);
    assert_eq!(leaking(&run), []);
    assert_eq!(shared_memory(&run).forecast.cause, Some(Cause::Neighbour));
}

#[test]
fn files_that_the_job_writes_there_in_a_cgroup_of_its_own_are_its_leak() {
    let run = run(vec![
        host(|t| filling(t) + 200.0),
        tree(|_| 100.0),
        cgroup(true, filling),
    ]);
    assert_eq!(leaking(&run), [Resource::SharedMemory]);
    let [told] = told_as_leak(&run).try_into().unwrap();
    assert!(told.advice[0].contains("write them to disk"), "{told:?}");
}

#[test]
fn segments_that_the_job_maps_are_its_leak_wherever_it_runs() {
    let mapped = |t| 100.0 + filling(t);
    let shared = run(vec![host(filling), tree(mapped), cgroup(false, filling)]);
    assert_eq!(leaking(&shared), [Resource::Job]);
    // Its own cgroup knows the same bytes: they are not told twice.
    let own = run(vec![host(filling), tree(mapped), cgroup(true, filling)]);
    assert_eq!(leaking(&own), [Resource::Job]);
    let [told] = told_as_leak(&own).try_into().unwrap();
    assert!(told.advice[0].contains("write them to disk"), "{told:?}");
}

#[test]
fn shared_memory_without_a_file_is_the_programs_own() {
    // `mmap` with MAP_SHARED: charged as shared memory, mapped, and not in /dev/shm, where others have files.
    let mapped = |t| 130.0 + filling(t);
    for limit in [None, Some(2000.0)] {
        let mut run = run(vec![host(|_| 700.0), tree(mapped), cgroup(true, filling)]);
        run.description.limit = limit.map(|mib| Limit {
            bytes: (mib * MIB) as u64,
            source: LimitSource::Cgroup {
                path: "/job".to_owned(),
                version: 2,
            },
        });
        assert_eq!(leaking(&run), [Resource::Job]);
        let [told] = told_as_leak(&run).try_into().unwrap();
        assert!(!told.advice[0].contains("/dev/shm"), "{told:?}");
        let evidence = "most of it is shared memory that processes map (no file)";
        assert!(told.evidence.iter().any(|it| it == evidence), "{told:?}");
        assert!(!told.evidence.iter().any(|it| it.contains("tmpfs")));
    }
}

#[test]
fn another_tmpfs_is_not_this_one() {
    let run = run(vec![host(|_| 50.0), tree(|_| 100.0), cgroup(true, filling)]);
    assert_eq!(leaking(&run), []);
}

#[test]
fn files_that_fill_the_limit_are_told_once_with_a_hint_that_fits() {
    let mut run = run(vec![host(filling), tree(|_| 100.0), cgroup(true, filling)]);
    run.description.limit = Some(Limit {
        bytes: (2000.0 * MIB) as u64,
        source: LimitSource::Cgroup {
            path: "/job".to_owned(),
            version: 2,
        },
    });
    assert_eq!(leaking(&run), [Resource::Job]);
    let [told] = told_as_leak(&run).try_into().unwrap();
    assert!(
        told.advice[0].contains("/dev/shm and other tmpfs"),
        "{told:?}"
    );
    let (tracker, _) = ResourceTracker::over(&run, None);
    let verdicts = tracker.verdicts(None);
    let job = verdicts.iter().find(|it| it.resource == Resource::Job);
    let assessed = assess_verdict(job.unwrap(), &Thresholds::from_percent(80.0), None);
    assert!(
        assessed.recommendations[0].contains("count against the limit"),
        "{assessed:?}"
    );
}

#[test]
fn what_somebody_else_in_the_cgroup_writes_is_no_leak_of_the_job() {
    let shared = |tree_mib: fn(f64) -> f64| {
        let mut run = run(vec![host(filling), tree(tree_mib), cgroup(false, filling)]);
        run.description.limit = Some(Limit {
            bytes: (2000.0 * MIB) as u64,
            source: LimitSource::Cgroup {
                path: "/job".to_owned(),
                version: 2,
            },
        });
        run
    };
    let stranger = shared(|_| 100.0);
    assert_eq!(leaking(&stranger), []);
    // It is their limit all the same.
    let (tracker, _) = ResourceTracker::over(&stranger, None);
    let verdicts = tracker.verdicts(None);
    let job = verdicts.iter().find(|it| it.resource == Resource::Job);
    assert!(job.unwrap().forecast.level >= RiskLevel::High);
    assert_eq!(leaking(&shared(|t| 100.0 + filling(t))), [Resource::Job]);
}

/// Whose it is may be known for a moment only, as when a shell leaves the job's cgroup: the level was followed all the same.
#[test]
fn a_level_whose_owner_is_known_late_is_not_too_short_for_a_forecast() {
    let mut cgroup = cgroup(true, |_| 10.0);
    let owned = cgroup.spec.column("owned").unwrap();
    let known_from = cgroup.times.len() - 4;
    cgroup.columns[owned][..known_from].fill(0.0);
    let verdict = shared_memory(&run(vec![cgroup, host(|_| 50.0), tree(|_| 100.0)]));
    assert!(verdict.judged_secs < 10.0, "{verdict:?}");
    assert!(!verdict.too_young_to_forecast);
    assert_eq!(verdict.watched_secs, (SECS - 1) as f64);
}

#[test]
fn where_no_job_is_watched_its_growth_is_the_machines() {
    let mut run = run(vec![host(filling)]);
    run.description.mode = RunMode::Machine;
    assert_eq!(leaking(&run), [Resource::SharedMemory]);
}
