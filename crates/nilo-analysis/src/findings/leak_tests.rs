//! Leaks: their rate, when they began, and in whom.

use nilo_sample::{
    Ending, Event, OomKill, ProcessId, ProcessInfo, RecordedTable, RunStatus, Severity, TableSpec,
    TimedEvent, UnhandledException,
};

use super::tests::*;
use super::{FindingKind, leak_holders};
use crate::assessment::{is_leak, is_warning};
use crate::tracking::{ResourceTracker, RiskChange};
use nilo_sample::fixture::{recording, table, tick};
use nilo_sample::rows::PhaseRow;

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
        .filter(|finding| finding.kind == FindingKind::Leak)
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
        .find(|finding| finding.kind == FindingKind::OomRisk)
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
        .find(|finding| finding.kind == FindingKind::OomRisk)
        .unwrap();
    assert_eq!(risk.severity, Severity::Critical);
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
            .any(|line| line.contains("3 similar processes are flat"))
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

/// A process that grew for a minute and ended, under a parent that goes on for some seconds.
fn grown_and_ended(seconds_after: u64) -> nilo_sample::Recording {
    let mut run = recording();
    let level = |t: f64| 50.0 + if t < 60.0 { 200.0 + 10.0 * t } else { 0.0 };
    run.tables = vec![tree(level, 60 + seconds_after)];
    let id = ProcessId {
        pid: 7,
        start_ticks: 1,
    };
    let (rows, event) = process(id, "python tokenize.py", |t| 200.0 + 10.0 * t, 60);
    run.tables.push(rows);
    run.events = vec![event];
    run.events.push(TimedEvent {
        time_nanos: 60 * SECOND,
        event: Event::ProcessEnded {
            id,
            peak_rss_bytes: None,
            exit_code: Some(0),
            signal: None,
        },
    });
    run
}

#[test]
fn a_process_whose_memory_was_given_back_before_the_job_ended_leaks_nothing() {
    for seconds_after in [3, 4, 5, 10] {
        let found = kinds(&grown_and_ended(seconds_after), 60 + seconds_after);
        assert!(
            !found.contains(&"leak"),
            "after {seconds_after} s: {found:?}"
        );
    }
    // A launcher needs a moment to see that its program has ended.
    assert!(kinds(&grown_and_ended(1), 61).contains(&"leak"));
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
fn what_grew_is_named_as_it_was_then_and_not_as_after_exec() {
    let mut run = recording();
    let id = ProcessId {
        pid: 7,
        start_ticks: 1,
    };
    let (leaky, began) = process(id, "python", |t| 50.0 + t, 90);
    run.tables = vec![tree(|t| 50.0 + t, 90), leaky];
    let info = ProcessInfo {
        name: "sleep".to_owned(),
        ..ProcessInfo::default()
    };
    let renamed = TimedEvent {
        time_nanos: 90 * SECOND,
        event: Event::ProcessRenamed { id, info },
    };
    run.events = vec![began, renamed];
    let verdict = &ResourceTracker::over(&run, None).0.verdicts(None)[0];
    assert_eq!(leak_holders(&run, verdict)[0].name, "python");
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
    let leak = found
        .iter()
        .find(|finding| finding.kind == FindingKind::Leak)
        .unwrap();
    assert!(
        leak.text
            .contains("until memory ran out, in python (PID 7)"),
        "{}",
        leak.text
    );
    let predicted = found
        .iter()
        .find(|finding| finding.kind == FindingKind::OomRisk)
        .unwrap();
    let ahead = seconds_ahead(&predicted.text);
    assert!((20.0..100.0).contains(&ahead), "{}", predicted.text);
}

/// `... was predicted 27.50 s before ...`
fn seconds_ahead(text: &str) -> f64 {
    let after = text.split("predicted ").nth(1);
    after
        .and_then(|text| text.split(' ').next()?.parse().ok())
        .unwrap()
}

/// A program that a failed allocation has ended waits for its threads and runs its exit handlers, with everything that it holds.
#[test]
fn what_led_to_a_failed_allocation_is_judged_at_the_failure_although_the_program_took_long_to_end()
{
    let mut run = recording();
    let id = ProcessId {
        pid: 7,
        start_ticks: 1,
    };
    let leaking = |t: f64| 50.0 + 15.0 * t.min(120.0);
    let (process, began) = process(id, "python", leaking, 420);
    run.description.root_pids = vec![7];
    run.description.limit = limited(2000.0);
    run.tables = vec![tree(leaking, 420), process];
    let raised = Event::Exception(Box::new(UnhandledException {
        pid: 7,
        type_name: "MemoryError".to_owned(),
        ..UnhandledException::default()
    }));
    run.events = vec![
        began,
        TimedEvent {
            time_nanos: 120 * SECOND,
            event: raised,
        },
    ];
    let ending = Ending {
        exit_code: Some(1),
        ..ending(420)
    };
    let found = find(&run, &ending);
    let of_kind = |kind: FindingKind| found.iter().find(|finding| finding.kind == kind).unwrap();
    let leak = of_kind(FindingKind::Leak);
    assert!(leak.text.contains("until memory ran out"), "{}", leak.text);
    let predicted = of_kind(FindingKind::OomRisk);
    let changes = ResourceTracker::over(&run, Some(&ending)).1;
    let is_raised = |change: &&RiskChange| is_warning(change.forecast.level);
    let (raised, last) = (changes.iter().find(is_raised), changes.last());
    let (raised, last) = (raised.unwrap(), last.unwrap());
    let ahead = nilo_sample::units::format_duration(120 * SECOND - raised.time_nanos);
    let said = format!("predicted {ahead} before the allocation failed");
    assert!(predicted.text.contains(&said), "{said}: {predicted:?}");
    // Nothing that was seen after the failure takes the prediction back.
    assert!(is_warning(last.forecast.level), "{last:?}");
}
