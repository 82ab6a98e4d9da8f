use super::*;
use nilo_sample::fixture;
use nilo_sample::rows::{ProcessDetailRow, ProcessRow};
use nilo_sample::{ABSENT, ProcessId, ProcessInfo, RunMode, TableSpec, TimedEvent};

const MILLI: u64 = 1_000_000;
const ID: ProcessId = ProcessId {
    pid: 7,
    start_ticks: 0,
};

fn started(time_nanos: u64) -> TimedEvent {
    TimedEvent {
        time_nanos,
        event: Event::ProcessStarted {
            id: ID,
            info: ProcessInfo::default(),
        },
    }
}

fn ended(time_nanos: u64, peak_rss_bytes: u64) -> TimedEvent {
    TimedEvent {
        time_nanos,
        event: Event::ProcessEnded {
            id: ID,
            peak_rss_bytes: Some(peak_rss_bytes),
            exit_code: Some(0),
            signal: None,
        },
    }
}

/// A process with these samples and these high-water marks, one a millisecond.
fn with_process(samples: &[f64], marks: &[f64]) -> Recording {
    let mut recording = fixture::recording();
    let mut quick = fixture::table(TableSpec::process(ID));
    let mut tree = Vec::new();
    for (time, bytes) in samples.iter().enumerate() {
        let row = ProcessRow {
            rss_bytes: *bytes,
            ..ProcessRow::ABSENT
        };
        fixture::tick(&mut quick, time as u64 * MILLI, row);
        tree.push((time as u64, *bytes, ABSENT, 0.0));
    }
    let mut detail = fixture::table(TableSpec::process_detail(ID));
    for (time, bytes) in marks.iter().enumerate() {
        let row = ProcessDetailRow {
            peak_rss_bytes: *bytes,
            ..ProcessDetailRow::ABSENT
        };
        fixture::tick(&mut detail, time as u64 * MILLI, row);
    }
    recording.tables = vec![fixture::tree(&tree), quick, detail];
    recording.events = vec![started(0)];
    recording
}

#[test]
fn a_tree_holds_at_least_what_its_largest_process_held() {
    let mut recording = with_process(&[10.0, 50.0], &[10.0, 90.0]);
    // The tree's own rows know nothing of it.
    recording.tables[0] = fixture::tree(&[(0, 10.0, ABSENT, 0.0), (1, 40.0, ABSENT, 0.0)]);
    let peak = tree_peak(&recording).unwrap();
    assert_eq!(
        (peak.bytes, peak.kind, peak.time_nanos),
        (90.0, PeakKind::Vmhwm, MILLI)
    );
    assert_eq!(held_peaks(&recording)[&ID].bytes, 90.0);
}

#[test]
fn a_peak_is_never_dated_after_the_process_ended() {
    let mut recording = with_process(&[10.0, 50.0, 20.0], &[]);
    recording.events.push(ended(900 * MILLI, 80));
    let peak = tree_peak(&recording).unwrap();
    assert_eq!(
        (peak.bytes, peak.kind, peak.time_nanos),
        (80.0, PeakKind::Rusage, MILLI)
    );
    // The same where the command's own account comes as a last row of the tree.
    let mut recording = with_process(&[10.0, 50.0, 20.0], &[]);
    recording.tables[0] = fixture::tree(&[
        (0, 10.0, ABSENT, 0.0),
        (1, 50.0, ABSENT, 0.0),
        (2, 20.0, ABSENT, 0.0),
        (900, ABSENT, 80.0, ABSENT),
    ]);
    let peak = tree_peak(&recording).unwrap();
    assert_eq!(
        (peak.bytes, peak.kind, peak.time_nanos),
        (80.0, PeakKind::Rusage, MILLI)
    );
}

#[test]
fn a_command_that_was_never_sampled_has_the_peak_that_the_kernel_tells() {
    let mut recording = fixture::recording();
    recording.tables = vec![fixture::tree(&[(3, ABSENT, 1500.0, ABSENT)])];
    let peak = tree_peak(&recording).unwrap();
    assert_eq!((peak.bytes, peak.kind), (1500.0, PeakKind::Rusage));
}

#[test]
fn a_mark_from_before_we_attached_counts_once_it_rises() {
    let mut recording = with_process(&[10.0, 20.0], &[500.0, 500.0]);
    recording.description.mode = RunMode::Watch;
    assert_eq!(tree_peak(&recording).unwrap().bytes, 20.0);
    let mut recording = with_process(&[10.0, 20.0], &[500.0, 600.0]);
    recording.description.mode = RunMode::Watch;
    assert_eq!(tree_peak(&recording).unwrap().bytes, 600.0);
}

#[test]
fn a_tree_is_never_shown_with_less_than_its_largest_process() {
    let mut recording = with_process(&[10.0, 100_000.0], &[10.0, 100_050.0]);
    let peak = tree_peak(&recording).unwrap();
    assert_eq!((peak.bytes, peak.kind), (100_050.0, PeakKind::SampledRss));
    assert_eq!(held_peaks(&recording)[&ID].bytes, 100_050.0);
    recording.tables.truncate(2);
    assert_eq!(tree_peak(&recording).unwrap().bytes, 100_000.0);
}
