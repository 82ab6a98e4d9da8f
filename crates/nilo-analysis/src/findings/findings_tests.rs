//! Each finding is found where it is, and not where it is not.

use nilo_sample::{
    Certainty, Ending, Event, Limit, LimitSource, OomKill, ProcessId, ProcessInfo, RecordedTable,
    Recording, RunStatus, Severity, Subject, TableSpec, TimedEvent,
};

use super::{Finding, leak_holders};
use crate::assessment::{is_leak, ran_out};
use crate::tracking::ResourceTracker;
use nilo_sample::fixture::{level, recording, table, table_of, tick};
use nilo_sample::rows::{
    CgroupRow, HostRow, PhaseRow, ProcessDetailRow, ProcessRow, TorchMemoryRow,
};

const MIB: f64 = 1048576.0;
const SECOND: u64 = 1_000_000_000;

/// What `nilo show` notices in a recording that ended like this.
fn find(recording: &Recording, ending: &Ending) -> Vec<Finding> {
    crate::summarize(recording, ending).findings
}

fn ending(secs: u64) -> Ending {
    Ending {
        status: RunStatus::Exited,
        exit_code: Some(0),
        signal: None,
        time_nanos: secs * SECOND,
        oom: None,
        left_running: vec![],
    }
}

fn killed() -> OomKill {
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

fn kinds(recording: &Recording, secs: u64) -> Vec<&'static str> {
    find(recording, &ending(secs))
        .iter()
        .map(|finding| finding.kind)
        .collect()
}

fn one(recording: &Recording, secs: u64, kind: &str) -> Finding {
    let found = find(recording, &ending(secs));
    let texts: Vec<&str> = found.iter().map(|finding| finding.kind).collect();
    found
        .iter()
        .find(|finding| finding.kind == kind)
        .cloned()
        .unwrap_or_else(|| panic!("{kind} not in {texts:?}"))
}

/// A tree sampled each second, in MiB.
fn tree(mib: impl Fn(f64) -> f64, secs: u64) -> RecordedTable {
    let mut tree = table(TableSpec::tree());
    for second in 0..secs {
        let bytes = mib(second as f64) * MIB;
        tick(&mut tree, second * SECOND, level(bytes));
    }
    tree
}

/// A host sampled each second.
fn host(row: impl Fn(f64) -> HostRow, secs: u64) -> RecordedTable {
    let mut host = table(TableSpec::host());
    for second in 0..secs {
        tick(&mut host, second * SECOND, row(second as f64));
    }
    host
}

const CALM_HOST: HostRow = HostRow {
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

fn limited(mib: f64) -> Option<Limit> {
    Some(Limit {
        bytes: (mib * MIB) as u64,
        source: LimitSource::Cgroup {
            path: "/job".to_owned(),
            version: 2,
        },
    })
}

fn process(
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
fn a_leak_is_found_with_its_rate_and_its_processes() {
    let mut run = recording();
    let worker = |pid| ProcessId {
        pid,
        start_ticks: 1,
    };
    let (main, started) = process(worker(7), "python", |_| 500.0, 900);
    let (first, began) = process(worker(8), "worker", |t| 100.0 + t * 0.25, 900);
    let (second, begun) = process(worker(9), "worker", |t| 100.0 + t * 0.25, 900);
    run.description.root_pids = vec![7];
    run.events = vec![started, began, begun];
    run.tables = vec![
        tree(|t| 700.0 + t * 0.5 + (t % 10.0) * 15.0, 900),
        main,
        first,
        second,
    ];
    let leak = one(&run, 900, "leak");
    assert!(
        leak.text.starts_with("job memory leaks 30"),
        "{}",
        leak.text
    );
    assert!(leak.text.contains("in 2 processes worker"), "{}", leak.text);
}

#[test]
fn growth_before_the_first_step_is_not_told_by_the_step() {
    let said = |first_step_secs: u64| {
        let mut logged = table(TableSpec::metrics("log", ["loss"]));
        for (step, secs) in (first_step_secs..900).enumerate() {
            nilo_sample::fixture::tick_values(&mut logged, secs * SECOND, &[1.0]);
            logged.steps.push(step as i64);
        }
        let mut run = recording();
        run.tables = vec![tree(|t| 700.0 + t * 0.5, 900), logged];
        let leak = one(&run, 900, "leak");
        format!("{} {}", leak.text, leak.evidence.join(" "))
    };
    assert!(said(10).contains(" a step over "), "{}", said(10));
    assert!(!said(600).contains("step"), "{}", said(600));
}

#[test]
fn a_leak_from_the_first_sample_on_began_at_the_start() {
    // How far back the growth is followed depends on the length.
    let texts: Vec<String> = (100..200)
        .step_by(5)
        .flat_map(|secs| {
            let mut run = recording();
            run.tables = vec![tree(|t| 500.0 + t * 1.5, secs)];
            find(&run, &ending(secs))
        })
        .filter(|finding| finding.kind == "leak")
        .map(|finding| finding.text)
        .collect();
    let from_the_start = texts
        .iter()
        .filter(|text| text.contains("/min since the start"));
    assert!(from_the_start.count() > 0, "{texts:?}");
    let tiny = texts
        .iter()
        .any(|text| text.contains("µs") || text.contains(" ms"));
    assert!(!tiny, "{texts:?}");
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

#[test]
fn growth_that_levels_off_is_no_leak() {
    let mut run = recording();
    run.tables = vec![tree(
        |t| 500.0 + 800.0 * (1.0 - (-t / 150.0_f64).exp()),
        900,
    )];
    assert!(!kinds(&run, 900).contains(&"leak"));
}

#[test]
fn a_leak_towards_the_limit_was_predicted() {
    let mut run = recording();
    run.description.limit = limited(2000.0);
    run.tables = vec![tree(|t| 500.0 + t * 1.5, 995)];
    let found = find(
        &run,
        &Ending {
            status: RunStatus::OomKilled,
            oom: Some(killed()),
            ..ending(1000)
        },
    );
    let risk = found
        .iter()
        .find(|finding| finding.kind == "oom-risk")
        .unwrap();
    assert!(risk.text.contains("was predicted"), "{}", risk.text);
    assert_eq!(risk.severity, Severity::Info);
    let running = find(
        &run,
        &Ending {
            status: RunStatus::Running,
            ..ending(995)
        },
    );
    let risk = running
        .iter()
        .find(|finding| finding.kind == "oom-risk")
        .unwrap();
    assert_eq!(risk.severity, Severity::Critical);
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
    assert_eq!(ran_out.used_share(), Some(0.99));
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

#[test]
fn stalls_for_lack_of_memory_are_added_up() {
    let mut run = recording();
    run.tables = vec![host(
        |t| HostRow {
            pressure_full_nanos: (t - 50.0).clamp(0.0, 10.0) * 0.6e9,
            ..CALM_HOST
        },
        100,
    )];
    assert!(one(&run, 100, "memory-pressure").text.contains("6.00 s"));
}

fn torch(
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

/// A phase that ran for `long` seconds in every `every`, ending at the end of each.
fn phase(name: &str, every: u64, long: f64, secs: u64) -> RecordedTable {
    let mut rows = table(TableSpec::phase(name));
    for turn in 1..=secs / every {
        let duration_nanos = long * 1e9;
        tick(
            &mut rows,
            turn * every * SECOND,
            PhaseRow { duration_nanos },
        );
    }
    rows
}

#[test]
fn a_leak_is_put_down_to_the_phase_in_which_memory_is_taken_and_kept() {
    let mut run = recording();
    // 60 MiB in each evaluation, which is the last quarter of every 40 seconds.
    let level = |t: f64| 800.0 + 60.0 * ((t / 40.0).floor() + ((t % 40.0 - 30.0) / 10.0).max(0.0));
    run.tables = vec![
        tree(level, 1200),
        phase("evaluate", 40, 10.0, 1200),
        phase("train", 40, 40.0, 1200),
    ];
    let leak = one(&run, 1200, "leak");
    let said = leak.evidence.join("\n");
    assert!(
        said.contains("while `evaluate` ran, which took 2"),
        "{said}"
    );
    // Without the evaluation, no phase has more of it than of the time.
    run.tables.remove(1);
    let said = one(&run, 1200, "leak").evidence.join("\n");
    assert!(!said.contains("ran, which took"), "{said}");
}

#[test]
fn one_leaking_rank_among_healthy_ones_is_a_leak_although_the_sum_does_not_show_it() {
    let mut run = recording();
    // The others breathe by far more than the one leaks.
    let breath = |t: f64| 2000.0 + 300.0 * ((t % 60.0) - 30.0).abs() / 30.0;
    let leaking = move |t: f64| breath(t) + 0.5 * t;
    let sum = move |t: f64| 3.0 * breath(t) + leaking(t);
    run.tables = vec![tree(sum, 600)];
    for pid in 1..=4 {
        let id = ProcessId {
            pid,
            start_ticks: 1,
        };
        let (rows, event) = match pid {
            2 => process(id, "python train.py", leaking, 600),
            _ => process(id, "python train.py", breath, 600),
        };
        run.tables.push(rows);
        run.events.push(event);
    }
    let leak = one(&run, 600, "leak");
    assert!(
        leak.text.contains("in python train.py (PID 2)"),
        "{}",
        leak.text
    );
    assert!(
        leak.evidence
            .iter()
            .any(|line| line.contains("3 others like it stand still"))
    );
    run.events.clear();
    assert!(!kinds(&run, 600).contains(&"leak"));
}

/// `nilo leak` and its exit status rest on the same verdict.
#[test]
fn growth_in_the_first_minute_has_one_verdict_and_is_said_to_be_loading_perhaps() {
    let mut run = recording();
    let loading = "may be loading";
    run.tables = vec![tree(|t| 100.0 + 30.0 * t, 40)];
    let verdict = &ResourceTracker::over(&run, None).0.verdicts(None)[0];
    assert!(is_leak(verdict.growth.as_ref()) && verdict.growth_may_be_loading());
    let found = one(&run, 40, "leak");
    assert_eq!(found.severity, Severity::Warning);
    assert!(found.text.contains(loading), "{}", found.text);
    run.tables = vec![tree(|t| 100.0 + 30.0 * t, 400)];
    assert!(!one(&run, 400, "leak").text.contains(loading));
}

#[test]
fn a_job_whose_ranks_end_one_after_another_leaked_all_the_same() {
    let mut run = recording();
    let secs = 120;
    // Four ranks; the leaking one ends last, and the sum falls step by step.
    let alive = |pid: u32, t: f64| t < f64::from(116 + pid);
    let level = |pid: u32, t: f64| 200.0 + if pid == 4 { 3.0 * t } else { 0.0 };
    let sum = move |t: f64| {
        (1..=4)
            .filter(|pid| alive(*pid, t))
            .map(|pid| level(pid, t))
            .sum()
    };
    run.tables = vec![tree(sum, secs)];
    for pid in 1..=4 {
        let id = ProcessId {
            pid,
            start_ticks: 1,
        };
        let name = format!("rank {pid}");
        let (rows, event) = process(id, &name, move |t| level(pid, t), u64::from(116 + pid));
        run.tables.push(rows);
        run.events.push(event);
        run.events.push(TimedEvent {
            time_nanos: u64::from(116 + pid) * SECOND,
            event: Event::ProcessEnded {
                id,
                peak_rss_bytes: None,
                exit_code: None,
                signal: None,
            },
        });
    }
    run.events.sort_by_key(|timed| timed.time_nanos);
    let leak = one(&run, secs, "leak");
    assert!(leak.text.contains("in rank 4 (PID 4)"), "{}", leak.text);
}

#[test]
fn one_process_that_leaks_has_one_amount() {
    let mut run = recording();
    let id = ProcessId {
        pid: 7,
        start_ticks: 1,
    };
    let (rows, event) = process(id, "python train.py", |t| 100.0 + 2.0 * t, 400);
    run.tables = vec![tree(|t| 100.0 + 2.0 * t, 400), rows];
    run.events = vec![event];
    let leak = one(&run, 400, "leak");
    // Its amount stands in the evidence, once.
    assert!(
        leak.text.ends_with("in python train.py (PID 7)"),
        "{}",
        leak.text
    );
    let amounts = leak
        .evidence
        .iter()
        .filter(|text| text.contains("MiB since"));
    assert_eq!(amounts.count(), 1, "{:?}", leak.evidence);
    assert!(!leak.evidence.iter().any(|text| text.contains("PID")));
}

#[test]
fn what_a_program_loads_at_its_start_is_not_what_it_leaks() {
    let mut run = recording();
    let id = |pid| ProcessId {
        pid,
        start_ticks: 1,
    };
    // A hundred within two seconds, then one a second; a cache beside it fills up early.
    let leaking = |t: f64| (50.0 * t).min(100.0) + t;
    let bounded = |t: f64| 20.0 + t.min(12.0);
    let (leaky, began) = process(id(7), "python", leaking, 90);
    let (calm, begun) = process(id(8), "python", bounded, 90);
    run.tables = vec![tree(|t| leaking(t) + bounded(t), 90), leaky, calm];
    run.events = vec![began, begun];
    let verdict = &ResourceTracker::over(&run, None).0.verdicts(None)[0];
    let holders = leak_holders(&run, verdict);
    assert_eq!(holders.len(), 1, "{holders:?}");
    assert_eq!(holders[0].pids, [7]);
    let held = holders[0].grown_bytes / MIB;
    assert!((75.0..105.0).contains(&held), "{held}");
}

#[test]
fn what_led_to_a_kill_is_judged_at_the_kill_although_the_job_lived_on() {
    let mut run = recording();
    let id = |pid| ProcessId {
        pid,
        start_ticks: 1,
    };
    // Killed after 120 s; the job goes on for 300 more, where another process grows a little.
    let leaking = |t: f64| if t <= 120.0 { 15.0 * t } else { 0.0 };
    let innocent = |t: f64| 50.0 + 0.5 * (t - 120.0).max(0.0);
    let (leaky, began) = process(id(7), "python", leaking, 420);
    let (later, begun) = process(id(8), "python", innocent, 420);
    run.description.limit = limited(2000.0);
    run.tables = vec![tree(|t| leaking(t) + innocent(t), 420), leaky, later];
    run.events = vec![began, begun];
    let mut ending = ending(420);
    ending.status = RunStatus::OomKilled;
    ending.oom = Some(OomKill {
        time_nanos: Some(120 * SECOND),
        ..killed()
    });
    let found = find(&run, &ending);
    let leak = found.iter().find(|finding| finding.kind == "leak").unwrap();
    assert!(
        leak.text
            .contains("until memory ran out, in python (PID 7)"),
        "{}",
        leak.text
    );
    let foretold = found
        .iter()
        .find(|finding| finding.kind == "oom-risk")
        .unwrap();
    let ahead: f64 = foretold
        .text
        .split("predicted ")
        .nth(1)
        .and_then(|text| text.split(' ').next()?.parse().ok())
        .unwrap();
    assert!((20.0..100.0).contains(&ahead), "{}", foretold.text);
}
