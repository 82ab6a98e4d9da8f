//! Limits that are no cgroup's: of addresses, of the machine, and the program's own budget.

use nilo_forecast::{Cause, RiskLevel};
use nilo_sample::fixture::{level, recording, table, tick};
use nilo_sample::rows::{HostRow, ProcessDetailRow, ProcessRow};
use nilo_sample::{Event, Limit, LimitSource, ProcessId, Recording, TableSpec, TimedEvent};

use super::{MIB, SECOND, cgroup_limit, piece, tree};
use crate::tracking::{Resource, ResourceTracker};

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
