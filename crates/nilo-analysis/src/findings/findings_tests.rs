//! Each finding is found where it is, and not where it is not.

use nilo_sample::{
    ABSENT, Certainty, Ending, Event, Limit, LimitSource, OomKill, ProcessId, ProcessInfo,
    RecordedTable, Recording, RunStatus, Severity, Subject, TableSpec, TimedEvent,
    UnhandledException,
};

use super::{Finding, FindingKind};
use crate::assessment::ran_out;
use crate::tracking::{Resource, ResourceTracker};
use nilo_sample::fixture::{level, recording, table, table_of, tick};
use nilo_sample::rows::{CgroupRow, HostRow, ProcessDetailRow, ProcessRow, TorchMemoryRow};

pub(super) const MIB: f64 = 1048576.0;
pub(super) const SECOND: u64 = 1_000_000_000;

/// What `nilo show` notices in a recording that ended like this.
pub(super) fn find(recording: &Recording, ending: &Ending) -> Vec<Finding> {
    crate::summarize(recording, ending).findings
}

pub(super) fn ending(secs: u64) -> Ending {
    Ending {
        status: RunStatus::Exited,
        exit_code: Some(0),
        signal: None,
        time_nanos: secs * SECOND,
        oom: None,
        left_running: vec![],
        recorder_death: None,
        lost_rank: None,
        gpu_out_of_memory: None,
    }
}

pub(super) fn killed() -> OomKill {
    OomKill {
        certainty: Certainty::Certain,
        limit: limited(2000.0),
        time_nanos: None,
        victim_pid: Some(7),
        victim_name: None,
        kills: 1,
        evidence: vec!["the kernel counted an OOM kill".to_owned()],
    }
}

pub(super) fn kinds(recording: &Recording, secs: u64) -> Vec<&'static str> {
    find(recording, &ending(secs))
        .iter()
        .map(|finding| finding.kind.as_str())
        .collect()
}

pub(super) fn one(recording: &Recording, secs: u64, kind: &str) -> Finding {
    let found = find(recording, &ending(secs));
    let texts: Vec<&str> = found.iter().map(|finding| finding.kind.as_str()).collect();
    found
        .iter()
        .find(|finding| finding.kind.as_str() == kind)
        .cloned()
        .unwrap_or_else(|| panic!("{kind} not in {texts:?}"))
}

/// A tree sampled each second, in MiB.
pub(super) fn tree(mib: impl Fn(f64) -> f64, secs: u64) -> RecordedTable {
    let mut tree = table(TableSpec::tree());
    for second in 0..secs {
        let bytes = mib(second as f64) * MIB;
        tick(&mut tree, second * SECOND, level(bytes));
    }
    tree
}

/// A host sampled each second.
pub(super) fn host(row: impl Fn(f64) -> HostRow, secs: u64) -> RecordedTable {
    let mut host = table(TableSpec::host());
    for second in 0..secs {
        tick(&mut host, second * SECOND, row(second as f64));
    }
    host
}

pub(super) const CALM_HOST: HostRow = HostRow {
    total_bytes: 32000.0 * MIB,
    available_bytes: 20000.0 * MIB,
    swap_total_bytes: 0.0,
    swap_used_bytes: 0.0,
    shm_total_bytes: 16000.0 * MIB,
    shm_used_bytes: 10.0 * MIB,
    pressure_some_nanos: 0.0,
    pressure_full_nanos: 0.0,
    oom_kills: 0.0,
};

pub(super) fn limited(mib: f64) -> Option<Limit> {
    Some(Limit {
        bytes: (mib * MIB) as u64,
        source: LimitSource::Cgroup {
            path: "/job".to_owned(),
            version: 2,
        },
    })
}

pub(super) fn process(
    id: ProcessId,
    name: &str,
    mib: impl Fn(f64) -> f64,
    secs: u64,
) -> (RecordedTable, TimedEvent) {
    let mut rows = table(TableSpec::process(id));
    for second in 0..secs {
        let row = ProcessRow {
            rss_bytes: mib(second as f64) * MIB,
            cpu_nanos: 0.0,
            ..ProcessRow::ABSENT
        };
        tick(&mut rows, second * SECOND, row);
    }
    let info = ProcessInfo {
        parent: 1,
        name: name.to_owned(),
        command: name.to_owned(),
        ..ProcessInfo::default()
    };
    let event = Event::ProcessStarted { id, info };
    (
        rows,
        TimedEvent {
            time_nanos: 0,
            event,
        },
    )
}

#[test]
fn a_flat_run_has_no_findings() {
    let mut run = recording();
    run.tables = vec![
        tree(|t| 800.0 + (t % 7.0) * 20.0, 900),
        host(|_| CALM_HOST, 900),
    ];
    assert_eq!(kinds(&run, 900), Vec::<&str>::new());
}

#[test]
fn lost_samples_leave_gaps_and_the_peak_that_the_recorder_told() {
    let mut run = recording();
    run.tables = vec![tree(|_| 500.0, 10)];
    run.dropped_rows = 1;
    let text = |run: &Recording| find(run, &ending(10))[0].text.clone();
    assert_eq!(
        text(&run),
        "1 sample could not be stored: the memory curve has gaps; the real peak may be higher"
    );
    run.events.push(TimedEvent {
        time_nanos: 10,
        event: Event::CommandEnded {
            cpu_nanos: None,
            exit_code: Some(0),
            signal: None,
            peak_bytes: Some(900 << 20),
        },
    });
    assert!(text(&run).ends_with("the peak is not affected"));
    assert_eq!(crate::summary::peak_memory_bytes(&run), Some(900 << 20));
}

#[test]
fn lost_metrics_leave_no_gaps_in_the_memory_curve() {
    let mut run = recording();
    run.tables = vec![tree(|_| 500.0, 10)];
    (run.dropped_rows, run.dropped_program_rows) = (5404, 5404);
    let texts = |run: &Recording| -> Vec<String> {
        let found = find(run, &ending(10)).into_iter();
        found.map(|finding| finding.text).collect()
    };
    let metrics = "5404 logged rows could not be stored: metrics have gaps, memory is not affected";
    assert_eq!(texts(&run), [metrics]);
    run.dropped_rows = 5406;
    let samples =
        "2 samples could not be stored: the memory curve has gaps; the real peak may be higher";
    assert_eq!(texts(&run), [samples, metrics]);
}

/// The tree counts pages of libraries that another cgroup is charged for: 2020 MiB where the kernel let 2000 be charged.
#[test]
fn no_share_of_a_cgroups_limit_exceeds_what_the_kernel_counted_in_it() {
    let mut run = recording();
    run.description.limit = limited(2000.0);
    let row = CgroupRow {
        usage_bytes: 1000.0 * MIB,
        peak_bytes: 1980.0 * MIB,
        ..CgroupRow::ABSENT
    };
    let cgroup = table_of(TableSpec::cgroup("/job"), &[(10 * SECOND, row)]);
    run.tables = vec![
        tree(|t| if t < 100.0 { 500.0 } else { 2020.0 }, 200),
        cgroup,
    ];
    let near_miss = one(&run, 200, "near-miss");
    let share = "the peak of 1.93 GiB is 99 % of the limit";
    assert!(near_miss.evidence[0].contains(share), "{near_miss:?}");
    let mut ending = ending(200);
    let summary = crate::summarize(&run, &ending);
    assert_eq!(summary.memory.limit_used_bytes, Some(1980 << 20));
    (ending.status, ending.oom) = (RunStatus::OomKilled, Some(killed()));
    let mut tracker = ResourceTracker::over(&run, None).0;
    let ran_out = ran_out(&run, &ending, &mut tracker).unwrap();
    // Where it ran out all of it was charged, whatever was read.
    assert_eq!(ran_out.used_share(), Some(1.0));
}

#[test]
fn a_peak_at_the_limit_is_a_near_miss() {
    let mut run = recording();
    run.description.limit = limited(1000.0);
    run.tables = vec![tree(|t| if t == 300.0 { 970.0 } else { 400.0 }, 600)];
    assert!(one(&run, 600, "near-miss").evidence[0].contains("97 %"));
    run.description.limit = limited(1100.0);
    assert!(!kinds(&run, 600).contains(&"near-miss"));
}

/// A process that maps far more than it touches, against `ulimit -v`; a row of its table has this address space.
fn mapped(virtual_mib: f64) -> Recording {
    let mut run = recording();
    run.description.limit = Some(Limit {
        bytes: 1000 << 20,
        source: LimitSource::Rlimit {
            resource: "as".to_owned(),
        },
    });
    let id = ProcessId {
        pid: 7,
        start_ticks: 1,
    };
    let row = ProcessRow {
        rss_bytes: 20.0 * MIB,
        virtual_bytes: virtual_mib * MIB,
        ..ProcessRow::ABSENT
    };
    run.tables = vec![
        tree(|_| 20.0, 600),
        table_of(TableSpec::process(id), &[(10 * SECOND, row)]),
    ];
    run
}

#[test]
fn a_limit_of_addresses_is_used_by_what_one_process_maps() {
    let run = mapped(970.0);
    let near_miss = one(&run, 600, "near-miss");
    let evidence = "970.00 MiB of address space in one process is 97 % of the limit";
    assert!(near_miss.evidence[0].contains(evidence), "{near_miss:?}");
    assert!(near_miss.advice[0].contains("ulimit -v"));
    let memory = crate::summarize(&run, &ending(600)).memory;
    assert_eq!(memory.limit_used_bytes, Some(970 << 20));
    assert_eq!(memory.memory_limit_bytes(), None);
    assert!(!kinds(&mapped(500.0), 600).contains(&"near-miss"));
}

#[test]
fn resident_memory_is_no_share_of_a_limit_of_addresses() {
    let mut older = mapped(ABSENT);
    assert!(!kinds(&older, 600).contains(&"near-miss"));
    let memory = crate::summarize(&older, &ending(600)).memory;
    assert_eq!(
        (memory.limit_bytes, memory.limit_used_bytes),
        (Some(1000 << 20), None)
    );
    // What fails near such a limit was refused; no kill is made of it.
    older.tables[0] = tree(|_| 990.0, 600);
    let mut failed = ending(600);
    (failed.exit_code, failed.time_nanos) = (Some(1), 10 * SECOND);
    assert_eq!(
        crate::assessment::ran_out_without_growth(&older, &failed),
        None
    );
    let refused = crate::assessment::ran_out_without_growth(&mapped(980.0), &failed).unwrap();
    assert_eq!(refused.used_share(), Some(0.98));
    assert_eq!(refused.resource, Resource::AddressSpace);
    assert_eq!(
        refused.refused_by,
        older.description.limit.map(|it| it.source)
    );
}

#[test]
fn what_ran_out_at_a_limit_of_data_is_the_data_size() {
    let mut run = mapped(0.0);
    run.description.limit = Some(Limit {
        bytes: 1000 << 20,
        source: LimitSource::Rlimit {
            resource: "data".to_owned(),
        },
    });
    let id = ProcessId {
        pid: 7,
        start_ticks: 1,
    };
    let row = ProcessDetailRow {
        data_bytes: 970.0 * MIB,
        ..ProcessDetailRow::ABSENT
    };
    run.tables[1] = table_of(TableSpec::process_detail(id), &[(10 * SECOND, row)]);
    let mut failed = ending(600);
    (failed.exit_code, failed.time_nanos) = (Some(1), 10 * SECOND);
    let refused = crate::assessment::ran_out_without_growth(&run, &failed).unwrap();
    assert_eq!(refused.resource, Resource::DataSize);
    let sentence = refused.to_string();
    assert!(
        sentence.ends_with("peak 970 MiB of data size in one process"),
        "{sentence}"
    );
}

#[test]
fn an_allocation_as_large_as_those_before_it_was_refused_further_from_the_limit() {
    let refused = |end_secs: u64, levels: &[f64]| {
        let mut run = mapped(0.0);
        let id = ProcessId {
            pid: 7,
            start_ticks: 1,
        };
        let row = |virtual_mib: &f64| ProcessRow {
            virtual_bytes: virtual_mib * MIB,
            ..ProcessRow::ABSENT
        };
        let rows = (1..)
            .zip(levels)
            .map(|(tick, level)| (tick * SECOND / 10, row(level)));
        run.tables[1] = table_of(TableSpec::process(id), &rows.collect::<Vec<_>>());
        let mut failed = ending(600);
        (failed.exit_code, failed.time_nanos) = (Some(1), end_secs * SECOND);
        crate::assessment::ran_out_without_growth(&run, &failed)
    };
    let steps = [50.0, 250.0, 450.0, 650.0, 850.0];
    let evidence = "a process was at 85.0 % of RLIMIT_AS 500 ms before the command failed, and had risen by 20.0 % of it at once";
    assert_eq!(refused(1, &steps).unwrap().evidence, [evidence]);
    assert_eq!(refused(5, &steps), None, "it rose long before the end");
    assert_eq!(refused(1, &[650.0, 750.0, 850.0]), None, "100 MiB fit");
    assert_eq!(refused(1, &[50.0, 650.0]), None, "far from the limit");
}

#[test]
fn an_exception_at_a_limit_of_addresses_names_that_limit() {
    let mut run = mapped(980.0);
    let exception = UnhandledException {
        pid: 7,
        type_name: "MemoryError".to_owned(),
        ..UnhandledException::default()
    };
    run.events.push(TimedEvent {
        time_nanos: 10 * SECOND,
        event: Event::Exception(Box::new(exception)),
    });
    let mut failed = ending(600);
    (failed.exit_code, failed.time_nanos) = (Some(1), 10 * SECOND);
    let refused = crate::assessment::ran_out_without_growth(&run, &failed).unwrap();
    assert_eq!(
        (&refused.resource, refused.certainty, refused.used_share()),
        (&Resource::AddressSpace, Certainty::Certain, Some(0.98))
    );
    let summary = crate::summarize(&run, &failed);
    let told: Vec<_> = summary.recommendations.iter().map(|it| it.rule).collect();
    assert_eq!(told, ["raise-ulimit"]);
    // The finding says what to do, so nothing else has to.
    let mut findings = summary.findings.iter();
    let finding = findings
        .find(|it| it.kind == FindingKind::OutOfMemory)
        .unwrap();
    assert!(
        finding.advice[0].contains("raise `ulimit -v`"),
        "{finding:?}"
    );
    assert_eq!(summary.further_recommendations().count(), 0);
}

#[test]
fn a_full_shared_memory_is_critical_and_a_free_one_is_not_named() {
    let mut run = recording();
    run.tables = vec![host(
        |t| HostRow {
            shm_total_bytes: 64.0 * MIB,
            shm_used_bytes: t.min(63.9) * MIB,
            ..CALM_HOST
        },
        120,
    )];
    assert_eq!(one(&run, 120, "shared-memory").severity, Severity::Critical);
}

#[test]
fn swap_that_fills_is_named() {
    let mut run = recording();
    run.tables = vec![host(
        |t| HostRow {
            available_bytes: 2000.0 * MIB,
            swap_total_bytes: 1000.0 * MIB,
            swap_used_bytes: t * 9.0 * MIB,
            ..CALM_HOST
        },
        100,
    )];
    assert_eq!(one(&run, 100, "swap").severity, Severity::Warning);
}

#[test]
fn a_neighbour_that_takes_the_machine_is_named_and_this_job_is_not() {
    let mut run = recording();
    run.tables = vec![
        tree(|_| 1000.0, 600),
        host(
            |t| HostRow {
                available_bytes: (20000.0 - t * 31.0) * MIB,
                ..CALM_HOST
            },
            600,
        ),
    ];
    assert!(kinds(&run, 600).contains(&"neighbour"));
    run.tables[0] = tree(|t| 1000.0 + t * 31.0, 600);
    assert!(!kinds(&run, 600).contains(&"neighbour"));
}

/// Programs wait for memory for 6 s, on a machine with so much available.
fn stalled_machine(available_mib: f64) -> Recording {
    let mut run = recording();
    run.tables = vec![host(
        |t| HostRow {
            pressure_full_nanos: (t - 50.0).clamp(0.0, 10.0) * 0.6e9,
            available_bytes: available_mib * MIB,
            ..CALM_HOST
        },
        100,
    )];
    run
}

#[test]
fn stalls_for_lack_of_memory_are_added_up() {
    let short = one(&stalled_machine(500.0), 100, "memory-pressure");
    assert!(short.text.contains("6.00 s"), "{short:?}");
    assert_eq!(short.severity, Severity::Warning);
}

/// One stranger in a small cgroup is all that wants to run: the machine's account does not tell it from everybody.
#[test]
fn stalls_on_a_machine_with_memory_are_not_said_to_be_this_jobs() {
    let stranger = one(&stalled_machine(20000.0), 100, "memory-pressure");
    assert!(stranger.text.contains("not necessarily this job"));
    assert_eq!(stranger.severity, Severity::Info);
    let available = "available memory on the machine was never below 19.53 GiB, 62 % of the total";
    assert_eq!(stranger.evidence[1], available);
}

#[test]
fn stalls_on_the_machine_are_no_part_of_a_kill_at_the_limit_of_a_cgroup() {
    let mut run = stalled_machine(500.0);
    run.description.limit = limited(2000.0);
    let mut ending = ending(100);
    (ending.status, ending.oom) = (RunStatus::OomKilled, Some(killed()));
    let kinds: Vec<&str> = find(&run, &ending)
        .iter()
        .map(|it| it.kind.as_str())
        .collect();
    assert!(kinds.contains(&"oom-kill"), "{kinds:?}");
    assert!(!kinds.contains(&"memory-pressure"), "{kinds:?}");
}

pub(super) fn torch(
    reserved: impl Fn(f64) -> f64,
    allocated: impl Fn(f64) -> f64,
    secs: u64,
) -> RecordedTable {
    let mut rows = table(TableSpec::torch_memory(0));
    for second in 0..secs {
        let t = second as f64;
        let (reserved, allocated) = (reserved(t) * MIB, allocated(t) * MIB);
        let row = TorchMemoryRow {
            allocated_bytes: allocated,
            reserved_bytes: reserved,
            device_free_bytes: 80000.0 * MIB - reserved,
            device_total_bytes: 80000.0 * MIB,
            ..TorchMemoryRow::ABSENT
        };
        tick(&mut rows, second * SECOND, row);
    }
    rows
}

#[test]
fn a_reserve_that_creeps_over_what_is_allocated_is_fragmentation() {
    let mut run = recording();
    run.tables = vec![torch(
        |t| 4000.0 + (t / 60.0).floor() * 300.0,
        |_| 3500.0,
        900,
    )];
    assert!(one(&run, 900, "fragmentation").advice[0].contains("expandable_segments"));
    run.tables = vec![torch(
        |t| 4000.0 + (t / 60.0).floor() * 300.0,
        |t| 3500.0 + (t / 60.0).floor() * 300.0,
        900,
    )];
    assert!(!kinds(&run, 900).contains(&"fragmentation"));
}

#[test]
fn workers_that_copy_what_they_shared_are_named() {
    let mut run = recording();
    for pid in 10..13 {
        let id = ProcessId {
            pid,
            start_ticks: 1,
        };
        let (rows, started) = process(id, "worker", |_| 900.0, 100);
        let mut detail = table(TableSpec::process_detail(id));
        for second in 0..100_u64 {
            let row = ProcessDetailRow {
                uss_bytes: (20.0 + second as f64) * MIB,
                ..ProcessDetailRow::ABSENT
            };
            tick(&mut detail, second * SECOND, row);
        }
        run.tables.extend([rows, detail]);
        run.events.push(started);
    }
    // Only those of which enough was measured are counted, and only what was measured of them.
    assert_eq!(
        one(&run, 100, "copy-on-write").text,
        "at least 3 forked processes copied at least 297.00 MiB of what they shared with their parent"
    );
    // Memory that became private because somebody else let go of it took no faults.
    for table in &mut run.tables {
        if matches!(table.spec.subject, Subject::ProcessDetail(_)) {
            let faults = table.spec.column("minor_faults").unwrap();
            table.columns[faults].fill(7.0);
        }
    }
    assert!(!kinds(&run, 100).contains(&"copy-on-write"));
    run.tables
        .retain(|table| !matches!(table.spec.subject, Subject::ProcessDetail(_)));
    assert!(!kinds(&run, 100).contains(&"copy-on-write"));
}
