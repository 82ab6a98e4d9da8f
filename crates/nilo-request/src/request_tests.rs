//! Whole requests from made-up runs.

use super::fixture::run;
use super::*;
use nilo_sample::units::GIB;

fn asked(runs: Vec<RunFacts>) -> Request {
    request(runs, &PlannedRun::default()).unwrap()
}

#[test]
fn one_run_is_a_quarter_more() {
    let found = asked(vec![run("a", 16)]);
    assert_eq!(found.memory.bytes, 20 * GIB);
    assert_eq!(found.memory.confidence, Confidence::Low);
    assert_eq!((found.memory.covered_runs, found.memory.whole_runs), (1, 1));
}

#[test]
fn a_run_killed_for_lack_of_memory_makes_it_a_guess() {
    let killed = RunFacts {
        completeness: Completeness::OomKilled,
        limit_bytes: Some(16 * GIB),
        ..run("a", 15)
    };
    let found = asked(vec![killed.clone()]);
    assert_eq!(found.memory.bytes, 24 * GIB);
    assert_eq!(found.memory.confidence, Confidence::Guess);
    assert_eq!(found.memory.whole_runs, 0);
    assert!(found.notes[0].contains("was killed for lack of memory at 16.00 GiB"));
    // A whole run that took more than that limit has shown what was missing.
    let found = asked(vec![killed.clone(), run("a", 20)]);
    assert_eq!(found.memory.bytes, 25 * GIB);
    assert_eq!(found.memory.confidence, Confidence::Low);
    // One that took less has not.
    let found = asked(vec![killed, run("a", 10)]);
    assert_eq!(found.memory.bytes, 24 * GIB);
    assert_eq!(found.memory.confidence, Confidence::Guess);
}

#[test]
fn an_unfinished_run_is_a_lower_bound() {
    let lost = RunFacts {
        completeness: Completeness::Lost,
        ..run("a", 40)
    };
    let mut runs = vec![run("a", 10); 9];
    assert_eq!(asked(runs.clone()).memory.confidence, Confidence::High);
    runs.push(lost.clone());
    let found = asked(runs);
    assert_eq!(found.memory.bytes, 50 * GIB);
    assert_eq!(found.memory.confidence, Confidence::Low);
    assert_eq!(asked(vec![lost]).memory.confidence, Confidence::Guess);
    let short = RunFacts {
        completeness: Completeness::Failed,
        ..run("a", 1)
    };
    let found = asked(vec![run("a", 10), run("a", 10), run("a", 10), short]);
    assert_eq!(found.memory.bytes, 11 * GIB);
    assert_eq!(found.memory.confidence, Confidence::Medium);
    assert!(found.notes.is_empty(), "{:?}", found.notes);
}

#[test]
fn growth_is_carried_on_to_the_planned_time() {
    let growing = RunFacts {
        growth: Some(UnfinishedGrowth {
            bytes_per_sec: GIB as f64 / 3600.0,
        }),
        duration_secs: 3600.0,
        ..run("growing", 10)
    };
    let planned = |hours: Option<f64>| {
        let plan = PlannedRun {
            planned_secs: hours.map(|hours| hours * 3600.0),
            ..PlannedRun::default()
        };
        request(vec![growing.clone()], &plan).unwrap()
    };
    assert_eq!(planned(Some(11.0)).memory.bytes, 25 * GIB);
    let leak = planned(Some(100.0));
    assert_eq!(leak.memory.bytes, 13 * GIB);
    assert_eq!(leak.memory.confidence, Confidence::Guess);
    assert!(leak.notes[0].contains("fix the leak first"));
    assert_eq!(planned(Some(0.5)).memory.bytes, 13 * GIB);
    let unknown = planned(None);
    assert_eq!(unknown.memory.bytes, 13 * GIB);
    assert!(unknown.notes[0].contains("cannot be known without --time"));
}

#[test]
fn different_jobs_are_not_mixed_unless_asked_to() {
    let runs = vec![run("a", 10), run("b", 20), run("a", 11)];
    let Err(RequestError::DifferentJobs { jobs }) = request(runs.clone(), &PlannedRun::default())
    else {
        panic!("two jobs");
    };
    assert_eq!((jobs.len(), jobs[0].runs.len()), (2, 2));
    let mixed = PlannedRun {
        mix: true,
        ..PlannedRun::default()
    };
    let found = request(runs, &mixed).unwrap();
    assert!(found.memory.bytes > 20 * GIB && found.notes[0].contains("2 different jobs"));
}

#[test]
fn nothing_measured_is_an_error() {
    let empty = RunFacts {
        peak_bytes: None,
        ..run("a", 1)
    };
    let error = request(vec![empty.clone()], &PlannedRun::default()).unwrap_err();
    assert_eq!(error.to_string(), "no memory was recorded in this run");
    let found = asked(vec![empty, run("a", 16)]);
    assert_eq!(found.memory.bytes, 20 * GIB);
    assert!(found.notes[0].contains("1 runs have no memory"));
}

#[test]
fn files_that_would_not_fit_any_more_are_mentioned() {
    let with_cache = |gib: u64| RunFacts {
        page_cache_peak_bytes: Some(gib * GIB),
        ..run("a", 16)
    };
    assert!(asked(vec![with_cache(3)]).notes.is_empty());
    let found = asked(vec![with_cache(5)]);
    assert!(found.notes[0].starts_with("up to 5.00 GiB of files"));
}

#[test]
fn a_limit_that_no_request_raises_is_named() {
    let refused = |name: &str| RunFacts {
        completeness: Completeness::Failed,
        refused_by: Some(RefusingLimit {
            name: name.to_owned(),
            bytes: 2 * GIB,
        }),
        ..run("a", 1)
    };
    let noted = |runs: Vec<RunFacts>, note: &str| {
        let notes = asked(runs).notes;
        notes.iter().any(|said| said == note)
    };
    let note = "a was refused memory at RLIMIT_AS of 2.00 GiB: --mem does not raise that limit, `ulimit -v` does";
    assert!(noted(vec![run("a", 1), refused("RLIMIT_AS")], note));
    assert!(!noted(vec![run("a", 1)], note));
    let note = note.replace("_AS", "_DATA").replace("-v", "-d");
    assert!(noted(vec![refused("RLIMIT_DATA")], &note));
}
