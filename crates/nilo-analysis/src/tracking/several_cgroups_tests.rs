//! Limits that hold for a part of the job, and cgroups that others are in too.

use super::{Resource, ResourceTracker, ResourceVerdict};
use crate::assessment::{Thresholds, assess_verdict};
use nilo_forecast::RiskLevel;
use nilo_sample::fixture::{level, recording, table, tick};
use nilo_sample::rows::CgroupRow;
use nilo_sample::{Event, Limit, LimitSource, RecordedTable, Recording, TableSpec, TimedEvent};

const MIB: f64 = 1048576.0;
const SECOND: u64 = 1_000_000_000;

fn limit_of(path: &str, mib: f64) -> Limit {
    Limit {
        bytes: (mib * MIB) as u64,
        source: LimitSource::Cgroup {
            path: path.to_owned(),
            version: 1,
        },
    }
}

fn row(mib: f64, limit_mib: f64) -> CgroupRow {
    CgroupRow {
        usage_bytes: mib * MIB,
        working_set_bytes: mib * MIB,
        limit_bytes: limit_mib * MIB,
        anon_bytes: mib * MIB,
        file_bytes: 0.0,
        shmem_bytes: 0.0,
        owned: 1.0,
        holds_job: 1.0,
        ..CgroupRow::ABSENT
    }
}

/// A table with a row a second.
fn each_second(secs: u64, path: &str, row: impl Fn(f64) -> CgroupRow) -> RecordedTable {
    let mut rows = table(TableSpec::cgroup(path));
    for second in 0..secs {
        tick(&mut rows, second * SECOND, row(second as f64));
    }
    rows
}

fn tree(secs: u64, mib: impl Fn(f64) -> f64) -> RecordedTable {
    let mut tree = table(TableSpec::tree());
    for second in 0..secs {
        tick(&mut tree, second * SECOND, level(mib(second as f64) * MIB));
    }
    tree
}

fn of_host(tables: Vec<RecordedTable>) -> Recording {
    let mut run = recording();
    run.description.limit = Some(Limit {
        bytes: 24 << 30,
        source: LimitSource::Host,
    });
    run.description.root_pids = vec![10];
    run.tables = tables;
    run
}

fn verdicts(run: &Recording) -> Vec<ResourceVerdict> {
    ResourceTracker::over(run, None).0.verdicts(None)
}

fn of<'a>(verdicts: &'a [ResourceVerdict], resource: &Resource) -> Option<&'a ResourceVerdict> {
    verdicts.iter().find(|it| it.resource == *resource)
}

fn cgroup(path: &str) -> Resource {
    Resource::Cgroup {
        path: path.to_owned(),
    }
}

#[test]
fn a_child_in_a_cgroup_of_its_own_is_held_against_its_limit() {
    let inner = each_second(30, "/inner", |_| row(190.0, 200.0));
    let run = of_host(vec![tree(30, |_| 1000.0), inner]);
    let told = verdicts(&run);
    let inner = of(&told, &cgroup("/inner")).unwrap();
    let assessed = assess_verdict(inner, &Thresholds::from_percent(85.0), None);
    assert!(assessed.level >= RiskLevel::High);
    assert_eq!(inner.reading.limit(), Some(200.0 * MIB));
}

#[test]
fn a_limit_that_a_smaller_one_on_the_same_way_covers_is_not_told() {
    let outer = each_second(30, "/a", |_| row(190.0, 500.0));
    let inner = each_second(30, "/a/b", |_| row(190.0, 900.0));
    let mut run = of_host(vec![tree(30, |_| 190.0), outer, inner]);
    run.description.limit = Some(limit_of("/a", 500.0));
    assert!(of(&verdicts(&run), &cgroup("/a/b")).is_none());
    // Beside it, it is one of its own.
    run.description.limit = Some(limit_of("/other", 500.0));
    assert!(of(&verdicts(&run), &cgroup("/a/b")).is_some());
}

#[test]
fn a_cgroup_that_the_job_has_left_is_judged_by_what_it_left_there() {
    let leaves = |second: f64| match second {
        ..10.0 => row(190.0, 200.0),
        10.0 => CgroupRow {
            holds_job: 0.0,
            ..row(2.0, 200.0)
        },
        _ => CgroupRow {
            holds_job: 0.0,
            ..row(198.0, 200.0)
        },
    };
    let run = of_host(vec![tree(30, |_| 300.0), each_second(30, "/inner", leaves)]);
    let told = verdicts(&run);
    let left = of(&told, &cgroup("/inner")).unwrap();
    assert_eq!(left.reading.needed_bytes(), 2.0 * MIB);
}

#[test]
fn once_a_cgroups_limit_is_the_jobs_it_is_told_as_that() {
    let inner = each_second(30, "/inner", |second| match second {
        ..5.0 => row(100.0, 200.0),
        _ => row(150.0, 200.0),
    });
    let mut run = of_host(vec![tree(30, |_| 160.0), inner]);
    run.events = vec![TimedEvent {
        time_nanos: 20 * SECOND + 1,
        event: Event::LimitChanged {
            limit: Some(limit_of("/inner", 200.0)),
        },
    }];
    let told = verdicts(&run);
    let job = of(&told, &Resource::Job).unwrap();
    assert_eq!(job.reading.limit(), Some(200.0 * MIB));
    assert_eq!(job.reading.needed_bytes(), 150.0 * MIB);
    assert!(of(&told, &cgroup("/inner")).is_none());
}

/// A job whose memory is a function of the second in a cgroup of 4000 MiB, in which all grows by 15 MiB a second.
fn in_shared(own: impl Fn(f64) -> f64) -> ResourceVerdict {
    let rows = each_second(200, "/job", |second| CgroupRow {
        owned: 0.0,
        ..row(100.0 + 15.0 * second, 4000.0)
    });
    let mut run = of_host(vec![tree(200, own), rows]);
    run.description.limit = Some(limit_of("/job", 4000.0));
    of(&verdicts(&run), &Resource::Job).unwrap().clone()
}

#[test]
fn growth_in_a_shared_cgroup_is_that_of_the_jobs_own_memory() {
    let grows = in_shared(|second| 20.0 + 12.0 * second);
    let growth = grows.growth.unwrap();
    let rate = growth.bytes_per_sec / MIB;
    assert!((11.5..12.5).contains(&rate), "{rate}");
    assert!(growth.grown_bytes < 2400.0 * MIB);
    // The forecast is that of the cgroup, and says so.
    let forecast = grows.forecast.bytes_per_sec.unwrap() / MIB;
    assert!((14.5..15.5).contains(&forecast), "{forecast}");
    let told = grows.reason_in_words();
    assert!(
        told.starts_with("the cgroup grows by 900 MiB/min"),
        "{told}"
    );
    assert!(told.ends_with("this job by 720 MiB/min"), "{told}");
}

#[test]
fn a_flat_job_in_a_growing_cgroup_does_not_grow() {
    let flat = in_shared(|_| 48.0);
    assert_eq!(flat.growth, None);
    let told = flat.reason_in_words();
    assert!(
        told.starts_with("the cgroup grows by 900 MiB/min"),
        "{told}"
    );
    assert!(told.ends_with("this job does not"), "{told}");
    let assessed = assess_verdict(&flat, &Thresholds::from_percent(70.0), None);
    assert!(
        !assessed.reason.contains("job memory grows"),
        "{}",
        assessed.reason
    );
    assert!(
        !assessed
            .recommendations
            .iter()
            .any(|it| it.contains("nilo leak"))
    );
}

#[test]
fn what_the_job_held_before_is_not_told_of_a_later_moment() {
    let mut rows = each_second(30, "/job", |_| CgroupRow {
        owned: 0.0,
        ..row(100.0, 200.0)
    });
    // The kernel gives notice between two ticks.
    let full = CgroupRow {
        owned: 0.0,
        ..row(200.0, 200.0)
    };
    tick(&mut rows, 29 * SECOND + SECOND / 2, full);
    let mut run = of_host(vec![tree(30, |_| 60.0), rows]);
    run.description.limit = Some(limit_of("/job", 200.0));
    let risks = ResourceTracker::over(&run, None).0.risks();
    let reading = of(&risks, &Resource::Job).unwrap().reading;
    assert_eq!(reading.needed_bytes(), 200.0 * MIB);
    assert_eq!((reading.is_shared, reading.job_bytes), (true, None));
}
