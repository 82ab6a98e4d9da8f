use super::*;
use crate::ending::{EndingEvidence, judge_ending};
use crate::findings::FindingKind;
use crate::peak::PeakKind;
use nilo_sample::fixture;
use nilo_sample::rows::CgroupRow;
use nilo_sample::{ABSENT, Event, ProcessId, TableSpec, TimedEvent};

fn summary_of(recording: &Recording) -> Summary {
    let ending = judge_ending(
        recording,
        &EndingEvidence {
            exit_code: Some(0),
            ..EndingEvidence::default()
        },
    );
    summarize(recording, &ending)
}

#[test]
fn a_spike_between_two_samples_is_in_the_peak() {
    let mut recording = fixture::recording();
    recording.tables = vec![fixture::tree(&[
        (0, 10.0, ABSENT, 0.0),
        (100, 12.0, 2000.0, 1e8),
        (200, 11.0, ABSENT, 1e8),
    ])];
    let memory = summary_of(&recording).memory;
    assert_eq!(
        (memory.peak_bytes, memory.peak_kind),
        (Some(2000), Some(PeakKind::Vmhwm))
    );
    assert_eq!(
        (memory.sampled_peak_bytes, memory.min_bytes),
        (Some(12), Some(10))
    );
    assert_eq!((memory.growth_bytes, memory.samples), (Some(1990), 3));
}

#[test]
fn the_mark_at_the_end_of_a_process_counts() {
    let mut recording = fixture::recording();
    recording.tables = vec![fixture::tree(&[(0, 10.0, ABSENT, 0.0)])];
    recording.events = vec![TimedEvent {
        time_nanos: 50,
        event: Event::ProcessEnded {
            id: ProcessId {
                pid: 2,
                start_ticks: 0,
            },
            peak_rss_bytes: Some(900),
            exit_code: Some(0),
            signal: None,
        },
    }];
    let memory = summary_of(&recording).memory;
    assert_eq!(
        (memory.peak_bytes, memory.peak_kind),
        (Some(900), Some(PeakKind::Rusage))
    );
}

#[test]
fn a_run_that_no_sample_fell_into_has_the_peak_that_its_process_told() {
    let mut recording = fixture::recording();
    recording.description.mode = nilo_sample::RunMode::Python;
    let told = |time_nanos, rss_bytes| TimedEvent {
        time_nanos,
        event: Event::HighWater {
            id: ProcessId {
                pid: 2,
                start_ticks: 0,
            },
            rss_bytes,
            resident_bytes: None,
        },
    };
    recording.events = vec![told(0, 100), told(50, 900)];
    let memory = summary_of(&recording).memory;
    let peak = (memory.peak_bytes, memory.peak_kind);
    assert_eq!(peak, (Some(900), Some(PeakKind::Vmhwm)));
    assert_eq!((memory.samples, memory.growth_bytes), (0, None));
}

/// (usage peak, page cache) rows of an owned cgroup.
fn with_cgroup(rows: &[(f64, f64)]) -> Recording {
    let mut recording = fixture::recording();
    recording.tables = vec![fixture::tree(&[
        (0, 10.0, ABSENT, 0.0),
        (100, 50.0, ABSENT, 0.0),
    ])];
    let mut table = fixture::table(TableSpec::cgroup("/job"));
    for (i, (peak, cache)) in rows.iter().enumerate() {
        let row = CgroupRow {
            peak_bytes: *peak,
            file_bytes: *cache,
            owned: 1.0,
            ..CgroupRow::ABSENT
        };
        fixture::tick(&mut table, i as u64, row);
    }
    recording.tables.push(table);
    recording
}

#[test]
fn the_peak_of_a_cgroup_counts_more_than_the_job_and_is_told_apart() {
    let memory = summary_of(&with_cgroup(&[(20.0, 0.0), (300.0, 100.0)])).memory;
    assert_eq!(
        (memory.peak_bytes, memory.peak_kind),
        (Some(50), Some(PeakKind::SampledRss))
    );
    assert_eq!(memory.cgroup_peak_bytes, Some(300));
}

#[test]
fn a_cgroup_peak_from_before_the_run_is_not_told_at_all() {
    let memory = summary_of(&with_cgroup(&[(300.0, 0.0), (300.0, 0.0)])).memory;
    assert_eq!(memory.cgroup_peak_bytes, None);
}

#[test]
fn an_empty_recording_has_no_figures_and_no_crash() {
    let summary = summary_of(&fixture::recording());
    assert_eq!(summary.memory.peak_bytes, None);
    assert_eq!(summary.memory.samples, 0);
    assert!(summary.processes.is_empty());
}

#[test]
fn lost_rows_become_a_finding() {
    let mut recording = fixture::recording();
    recording.dropped_rows = 7;
    let summary = summary_of(&recording);
    assert_eq!(summary.recorder.dropped_samples, 7);
    assert_eq!(summary.findings[0].kind, FindingKind::LostSamples);
}

#[test]
fn the_json_has_the_promised_keys() {
    let json = serde_json::to_value(summary_of(&fixture::recording())).unwrap();
    for key in [
        "schema",
        "run",
        "command",
        "status",
        "exit_code",
        "duration_secs",
        "memory",
        "cpu",
        "processes",
        "gpus",
        "torch_memory",
        "metrics",
        "phases",
        "throughput",
        "findings",
        "advice",
        "recorder",
    ] {
        assert!(json.get(key).is_some(), "{key}");
    }
    for key in [
        "peak_bytes",
        "peak_kind",
        "mean_bytes",
        "min_bytes",
        "growth_bytes",
        "samples",
        "limit_bytes",
        "limit_source",
    ] {
        assert!(json["memory"].get(key).is_some(), "{key}");
    }
    assert!(
        json["recorder"].get("cpu_secs").is_some()
            && json["recorder"].get("dropped_samples").is_some()
    );
}

#[test]
fn the_mean_of_the_cpu_never_exceeds_its_maximum() {
    let mut recording = fixture::recording();
    recording.tables = vec![fixture::tree(&[
        (0, 10.0, ABSENT, 0.0),
        (100, 10.0, ABSENT, 1.0),
    ])];
    recording.events = vec![TimedEvent {
        time_nanos: 100,
        event: Event::CommandEnded {
            exit_code: Some(0),
            signal: None,
            cpu_nanos: Some(1_000_000),
            peak_bytes: None,
        },
    }];
    let cpu = summary_of(&recording).cpu;
    assert!(
        cpu.mean_percent > Some(0.0) && cpu.mean_percent <= cpu.max_percent,
        "{cpu:?}"
    );
}

#[test]
fn how_serious_an_ending_is_and_what_it_is_called() {
    let of = |status: RunStatus, exit_code: Option<i32>, signal: Option<i32>| {
        let mut summary = summary_of(&fixture::recording());
        (summary.status, summary.exit_code, summary.signal) = (status, exit_code, signal);
        (summary.ending_severity(), summary.short_ending())
    };
    let named = |severity: Option<Severity>, text: &str| (severity, text.to_owned());
    let (warning, critical) = (Some(Severity::Warning), Some(Severity::Critical));
    assert_eq!(
        of(RunStatus::Exited, Some(0), None),
        named(None, "exited 0")
    );
    assert_eq!(
        of(RunStatus::Exited, Some(3), None),
        named(warning, "exited 3")
    );
    assert_eq!(of(RunStatus::Ended, None, None), named(None, "ended"));
    assert_eq!(
        of(RunStatus::Killed, None, Some(9)),
        named(warning, "killed 9")
    );
    assert_eq!(of(RunStatus::Lost, None, None), named(warning, "lost"));
    assert_eq!(
        of(RunStatus::OomKilled, Some(1), None),
        named(critical, "oom-killed")
    );
    assert_eq!(of(RunStatus::Running, None, None), named(None, "running"));
}
