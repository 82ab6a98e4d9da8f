//! Facts of made-up recordings.

use std::collections::BTreeMap;

use nilo_sample::rows::{HostRow, PhaseRow, TorchMemoryRow};
use nilo_sample::{Event, NO_STEP, Optimization, Recording, TableSpec, TimedEvent, fixture};
use serde_json::{Value, json};

use crate::ending::{EndingEvidence, judge_ending};
use crate::findings::FindingKind;
use crate::summary::{Summary, summarize};

const SECOND: u64 = 1_000_000_000;
const GIB: f64 = (1u64 << 30) as f64;

fn summary_of(recording: &Recording) -> Summary {
    let evidence = EndingEvidence {
        exit_code: Some(0),
        time_nanos: Some(100 * SECOND),
        ..EndingEvidence::default()
    };
    summarize(recording, &judge_ending(recording, &evidence))
}

fn tell(recording: &mut Recording, rank: Option<u32>, values: Value) {
    let values: BTreeMap<String, Value> = serde_json::from_value(values).unwrap();
    recording.events.push(TimedEvent {
        time_nanos: recording.events.len() as u64,
        event: Event::Facts { values, rank },
    });
}

fn log(recording: &mut Recording, name: &str, points: &[(u64, f64)]) {
    let mut table = fixture::table(TableSpec::metrics("metrics", [name]));
    for (secs, value) in points {
        fixture::tick_values(&mut table, secs * SECOND, &[*value]);
        table.steps.push(NO_STEP);
    }
    recording.tables.push(table);
}

fn rules(summary: &Summary) -> Vec<&'static str> {
    let said = summary.recommendations.iter();
    said.map(|said| said.rule).collect()
}

#[test]
fn a_recording_of_which_nothing_is_known_recommends_nothing() {
    let summary = summary_of(&fixture::recording());
    assert!(summary.recommendations.is_empty() && summary.optimizations.is_empty());
    let json = serde_json::to_value(&summary).unwrap();
    for key in ["recommendations", "optimizations", "facts"] {
        assert!(json.get(key).is_none(), "{key}");
    }
}

#[test]
fn facts_are_merged_by_subject_and_the_first_rank_decides() {
    let mut recording = fixture::recording();
    tell(
        &mut recording,
        Some(0),
        json!({"gc": {"steps": 100, "wall_seconds": 50.0}}),
    );
    tell(
        &mut recording,
        Some(1),
        json!({"gc": {"steps": 7, "total_seconds": 10.0}}),
    );
    tell(
        &mut recording,
        Some(0),
        json!({"gc": {"steps": 200}, "buffers": [{"name": "a", "image_bytes": 1.0}]}),
    );
    tell(
        &mut recording,
        Some(0),
        json!({"buffers": [{"name": "a", "float64_bytes": 1e9}, {"name": "b", "image_bytes": 2.0}]}),
    );
    let facts = summary_of(&recording).facts;
    assert_eq!(
        (
            facts.gc.steps,
            facts.gc.wall_seconds,
            facts.gc.total_seconds
        ),
        (Some(200), Some(50.0), Some(10.0))
    );
    let buffers: Vec<_> = facts
        .buffers
        .iter()
        .map(|one| (one.name.as_str(), one.image_bytes, one.float64_bytes))
        .collect();
    assert_eq!(
        buffers,
        [("a", Some(1.0), Some(1e9)), ("b", Some(2.0), None)]
    );
    assert_eq!(
        rules(&summary_of(&recording)),
        ["raise-collection-thresholds", "store-float32"]
    );
}

#[test]
fn malformed_facts_are_ignored_and_nothing_grows_without_bound() {
    let mut recording = fixture::recording();
    tell(
        &mut recording,
        None,
        json!({"gc": "fast", "loader": {"wait_ratio": 0.5, "workers": {"a": 1}}, "buffers": {"x": 1}}),
    );
    tell(
        &mut recording,
        None,
        json!({"buffers": [1, "x", null], "model": {"peak_bytes": -5}}),
    );
    for number in 0..1000 {
        let name = format!("unknown{number}");
        tell(
            &mut recording,
            None,
            json!({&name: {"x": 1}, "gc": {&name: 1}}),
        );
        tell(
            &mut recording,
            None,
            json!({"buffers": [{"name": name, "image_bytes": 1}]}),
        );
        let tried = Optimization {
            name,
            ..Optimization::default()
        };
        let event = Event::Optimization(Box::new(tried));
        recording.events.push(TimedEvent {
            time_nanos: 1,
            event,
        });
    }
    let summary = summary_of(&recording);
    assert_eq!(summary.facts.loader.wait_ratio, Some(0.5));
    assert_eq!(summary.facts.model.peak_bytes, None);
    assert!(summary.facts.buffers.len() <= 64);
    assert_eq!(summary.optimizations.len(), 200);
}

#[test]
fn what_was_undone_stands_as_not_applied_where_it_was_applied() {
    let mut recording = fixture::recording();
    let plan = |before, applied, note: &str| Optimization {
        name: "checkpoint plan".to_owned(),
        applied,
        before_bytes: Some(before),
        note: note.to_owned(),
        ..Optimization::default()
    };
    for tried in [
        plan(4.0, true, "8 blocks"),
        plan(2.0, true, "8 blocks"),
        plan(4.0, false, "undone"),
        plan(1.0, false, "failed"),
        plan(1.0, false, "failed again"),
    ] {
        let event = Event::Optimization(Box::new(tried));
        recording.events.push(TimedEvent {
            time_nanos: 1,
            event,
        });
    }
    assert_eq!(
        summary_of(&recording).optimizations,
        [
            plan(4.0, false, "undone"),
            plan(2.0, true, "8 blocks"),
            plan(1.0, false, "failed"),
            plan(1.0, false, "failed again"),
        ]
    );
}

#[test]
fn what_was_tried_is_told_once_in_the_order_of_time() {
    let mut recording = fixture::recording();
    for (name, before) in [
        ("checkpoint plan", 4.0),
        ("sdpa", 3.0),
        ("checkpoint plan", 4.0),
        ("checkpoint plan", 5.0),
    ] {
        let tried = Optimization {
            name: name.to_owned(),
            before_bytes: Some(before),
            ..Optimization::default()
        };
        let event = Event::Optimization(Box::new(tried));
        recording.events.push(TimedEvent {
            time_nanos: 1,
            event,
        });
    }
    let tried = summary_of(&recording).optimizations;
    let told: Vec<_> = tried
        .iter()
        .map(|one| (one.name.as_str(), one.before_bytes))
        .collect();
    assert_eq!(
        told,
        [
            ("checkpoint plan", Some(4.0)),
            ("sdpa", Some(3.0)),
            ("checkpoint plan", Some(5.0))
        ]
    );
}

#[test]
fn memory_that_the_recorder_measured_wins_over_what_the_program_says() {
    let mut recording = fixture::recording();
    tell(
        &mut recording,
        None,
        json!({"host": {"peak_bytes": 5.0, "rss_bytes": 6.0, "leak_bytes_per_second": 1e9}}),
    );
    assert_eq!(summary_of(&recording).facts.host.peak_bytes, Some(5.0));
    recording.tables.push(fixture::tree(&[
        (0, 7e6, 7e6, 0.0),
        (SECOND, 9e6, 9e6, 1.0),
    ]));
    let host = summary_of(&recording).facts.host;
    assert_eq!(
        (host.peak_bytes, host.rss_bytes, host.leak_bytes_per_second),
        (Some(9e6), Some(6.0), None)
    );
}

#[test]
fn logged_figures_of_the_collector_and_of_batches_are_facts() {
    let mut recording = fixture::recording();
    log(
        &mut recording,
        "gc/pause_max_ms",
        &[(1, 20.0), (50, 300.0), (90, 10.0)],
    );
    log(&mut recording, "gc/total_ms", &[(10, 1000.0), (90, 9000.0)]);
    log(&mut recording, "batch/size", &[(1, 64.0), (50, 16.0)]);
    let summary = summary_of(&recording);
    let gc = &summary.facts.gc;
    assert_eq!(
        (gc.longest_pause_seconds, gc.total_seconds, gc.wall_seconds),
        (Some(0.3), Some(8.0), Some(80.0))
    );
    assert_eq!(summary.facts.batch.micro_batch, Some(16));
    assert_eq!(rules(&summary), ["raise-collection-thresholds"]);
    // A program that counts its collections itself has no other collector for that.
    log(&mut recording, "gc/collections", &[(10, 1.0)]);
    assert_eq!(
        rules(&summary_of(&recording)),
        ["raise-collection-thresholds"]
    );
    // The package's own collector says that it is at work.
    tell(&mut recording, None, json!({"gc": {"managed": true}}));
    assert!(rules(&summary_of(&recording)).is_empty());
}

fn device(recording: &mut Recording, rank: Option<u32>, rows: &[(u64, f64, f64)]) {
    let mut spec = TableSpec::torch_memory(0);
    spec.rank = rank;
    let rows: Vec<_> = rows
        .iter()
        .map(|(secs, held, peak)| {
            let row = TorchMemoryRow {
                allocated_bytes: held * GIB,
                reserved_bytes: 12.0 * GIB,
                peak_allocated_bytes: peak * GIB,
                device_total_bytes: 80.0 * GIB,
                ..TorchMemoryRow::ABSENT
            };
            (secs * SECOND, row)
        })
        .collect();
    let mut table = fixture::table_of(spec, &rows);
    table.writer = format!("python-{}", rank.unwrap_or(1));
    recording.tables.push(table);
}

#[test]
fn peaks_of_ranks_and_what_the_allocator_holds_are_facts() {
    let mut recording = fixture::recording();
    device(&mut recording, Some(1), &[(1, 6.0, 6.0), (2, 6.0, 9.0)]);
    assert!(
        summary_of(&recording)
            .facts
            .torch
            .rank_peak_bytes
            .is_empty()
    );
    device(&mut recording, Some(0), &[(1, 6.0, 6.0)]);
    let summary = summary_of(&recording);
    let torch = &summary.facts.torch;
    assert_eq!(torch.rank_peak_bytes, [6.0 * GIB, 9.0 * GIB]);
    assert_eq!(
        (torch.device_bytes, torch.peak_reserved_bytes),
        (Some(80.0 * GIB), Some(12.0 * GIB))
    );
    assert_eq!(rules(&summary), ["balance-ranks", "expandable-segments"]);
}

#[test]
fn evaluation_is_told_apart_from_training_by_its_phase() {
    let mut recording = fixture::recording();
    let rows = [
        (1, 5.0, 5.0),
        (10, 6.0, 8.0),
        (20, 7.0, 8.0),
        (25, 7.0, 11.0),
        (31, 5.0, 12.0),
        (40, 6.0, 12.0),
    ];
    device(&mut recording, Some(1), &rows);
    assert_eq!(
        summary_of(&recording).facts.torch.evaluation_peak_bytes,
        None
    );
    let mut phase = fixture::table_of(
        TableSpec::phase("loop/validation"),
        &[(
            30 * SECOND,
            PhaseRow {
                duration_nanos: 12e9,
            },
        )],
    );
    phase.writer = "python-1".to_owned();
    recording.tables.push(phase);
    let torch = summary_of(&recording).facts.torch;
    // Between 25 s and 31 s the peak rose to 12 GiB, but the evaluation ended at 30 s: nobody knows whose that is.
    assert_eq!(
        (torch.train_peak_bytes, torch.evaluation_peak_bytes),
        (Some(8.0 * GIB), Some(11.0 * GIB))
    );
    assert!(rules(&summary_of(&recording)).contains(&"evaluate-in-smaller-batches"));
}

#[test]
fn what_a_finding_has_told_is_not_told_again() {
    let mut recording = fixture::recording();
    let row = HostRow {
        shm_total_bytes: 64e6,
        shm_used_bytes: 60e6,
        ..HostRow::ABSENT
    };
    recording
        .tables
        .push(fixture::table_of(TableSpec::host(), &[(SECOND, row)]));
    tell(&mut recording, None, json!({"loader": {"wait_ratio": 0.5}}));
    let summary = summary_of(&recording);
    assert_eq!(
        rules(&summary),
        ["enlarge-shared-memory", "load-data-faster"]
    );
    let further: Vec<&str> = summary
        .further_recommendations()
        .map(|said| said.rule)
        .collect();
    assert_eq!(further, ["load-data-faster"]);
    let finding = summary
        .findings
        .iter()
        .find(|finding| finding.kind == FindingKind::SharedMemory)
        .unwrap();
    let hint = "use fewer workers or a smaller prefetch_factor, or give the container a larger /dev/shm (--shm-size)";
    assert_eq!(finding.advice, [hint]);
    assert_eq!(summary.recommendations[0].text, hint.replacen('u', "U", 1));
}

/// The phases of one rank, as so many seconds of each of 20 steps.
fn time_phases(recording: &mut Recording, rank: Option<u32>, phases: &[(&str, f64)]) {
    for (name, secs) in phases {
        let mut table = fixture::table(TableSpec::phase(name));
        table.spec.rank = rank;
        table.writer = format!("python-{rank:?}");
        for step in 1..=20 {
            let row = PhaseRow {
                duration_nanos: secs * 1e9,
            };
            fixture::tick(&mut table, step * SECOND, row);
        }
        recording.tables.push(table);
    }
}

#[test]
fn the_rank_that_waits_longest_for_data_holds_up_all() {
    let quick = [("data", 0.05), ("forward", 0.2), ("backward", 0.75)];
    let slow = [("data", 0.6), ("forward", 0.2), ("backward", 0.2)];
    let waits = |ranks: &[&[(&str, f64)]]| {
        let mut recording = fixture::recording();
        for (rank, phases) in (0..).zip(ranks) {
            time_phases(&mut recording, (ranks.len() > 1).then_some(rank), phases);
        }
        let summary = summary_of(&recording);
        (summary.facts.loader.wait_ratio, rules(&summary))
    };
    // The others are in the backward pass until the last one takes part in it.
    let (share, rules) = waits(&[&quick, &slow]);
    assert!(
        share.is_some_and(|share| (share - 0.6).abs() < 1e-9),
        "{share:?}"
    );
    assert_eq!(rules, ["load-data-faster"]);
    assert_eq!(waits(&[&slow, &quick]).1, ["load-data-faster"]);
    assert_eq!(waits(&[&slow]).1, ["load-data-faster"]);
    assert_eq!(waits(&[&quick, &quick]), (None, Vec::new()));
}
