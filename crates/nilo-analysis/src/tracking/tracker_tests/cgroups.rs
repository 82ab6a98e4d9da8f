//! Cgroups: whose memory they hold, and against which limit.

use nilo_forecast::RiskLevel;
use nilo_sample::fixture::{recording, table, tick};
use nilo_sample::rows::CgroupRow;
use nilo_sample::{ABSENT, Event, Limit, LimitSource, Recording, RunMode, TableSpec, TimedEvent};

use super::{MIB, SECOND, cgroup, cgroup_limit, highest, over, tree};
use crate::tracking::{Resource, ResourceTracker};

#[test]
fn a_page_cache_that_fills_the_cgroup_is_no_risk_and_memory_that_does_is() {
    let mut run = recording();
    run.description.limit = Some(cgroup_limit(2000.0));
    run.tables = vec![cgroup(|_| 300.0, |t| t * 1.5, 1000), tree(1000)];
    assert!(highest(&over(&run)) < RiskLevel::High);
    run.tables = vec![cgroup(|t| 300.0 + t * 1.5, |_| 0.0, 1000), tree(1000)];
    assert!(highest(&over(&run)) >= RiskLevel::High);
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
