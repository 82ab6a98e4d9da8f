use super::*;
use nilo_sample::rows::{ProcessDetailRow, ProcessRow};
use nilo_sample::{ABSENT, TableSpec, TimedEvent, fixture};

const PARENT: ProcessId = ProcessId {
    pid: 7,
    start_ticks: 1,
};
const CHILD: ProcessId = ProcessId {
    pid: 8,
    start_ticks: 2,
};

fn started(id: ProcessId, parent: u32, command: &str) -> TimedEvent {
    TimedEvent {
        time_nanos: 0,
        event: Event::ProcessStarted {
            id,
            info: ProcessInfo {
                parent,
                command: command.to_owned(),
                ..ProcessInfo::default()
            },
        },
    }
}

/// A parent with 100 and a child that holds 60, of which 20 are its own; `wait4` tells of `waited`.
fn parent_and_child(child_command: &str, waited: f64) -> Recording {
    let mut recording = fixture::recording();
    recording.description.root_pids = vec![PARENT.pid];
    let quick = |id, rss_bytes, memory_bytes| {
        let row = ProcessRow {
            rss_bytes,
            memory_bytes,
            ..ProcessRow::ABSENT
        };
        fixture::table_of(TableSpec::process(id), &[(0, row)])
    };
    let mark = ProcessDetailRow {
        peak_rss_bytes: 90.0,
        ..ProcessDetailRow::ABSENT
    };
    recording.tables = vec![
        fixture::tree(&[(0, 120.0, ABSENT, 0.0), (900, ABSENT, waited, ABSENT)]),
        quick(PARENT, 100.0, 100.0),
        quick(CHILD, 60.0, 20.0),
        fixture::table_of(TableSpec::process_detail(CHILD), &[(0, mark)]),
    ];
    recording.events = vec![
        started(PARENT, 1, "python train.py"),
        started(CHILD, PARENT.pid, child_command),
    ];
    recording
}

fn resident(recording: &Recording, id: ProcessId) -> f64 {
    process_peaks(recording)[&id].resident.unwrap().bytes
}

#[test]
fn the_kernels_account_of_the_command_is_its_largest_process() {
    let recording = parent_and_child("python train.py", 150.0);
    let peak = process_peaks(&recording)[&PARENT].resident.unwrap();
    assert_eq!((peak.bytes, peak.kind), (150.0, PeakKind::Rusage));
    assert_eq!(process_peaks(&recording)[&PARENT].added_bytes, Some(150.0));
    assert_eq!(resident(&recording, CHILD), 90.0);
}

#[test]
fn what_a_child_that_nobody_saw_may_have_held_is_not_the_commands() {
    // A shell that waited for something large.
    assert_eq!(resident(&parent_and_child("", 500.0), PARENT), 100.0);
    // Another process is larger: the mark may be its own.
    let mut recording = parent_and_child("", 150.0);
    let Subject::Process(_) = recording.tables[2].spec.subject else {
        panic!("the child's table");
    };
    recording.tables[2].columns[0].fill(120.0);
    assert_eq!(resident(&recording, PARENT), 100.0);
}

#[test]
fn a_spike_between_samples_is_added_to_the_tree_unless_the_mark_is_the_parents() {
    let added = |command: &str| {
        let recording = parent_and_child(command, ABSENT);
        process_peaks(&recording)[&CHILD].added_bytes
    };
    assert_eq!(added("ls"), Some(50.0));
    assert_eq!(added("python train.py"), Some(20.0));
}

#[test]
fn a_spike_of_a_forked_process_is_its_own_once_its_mark_rose() {
    let mut recording = parent_and_child("python train.py", ABSENT);
    let mark = |peak_rss_bytes| ProcessDetailRow {
        peak_rss_bytes,
        ..ProcessDetailRow::ABSENT
    };
    let marks = |rows: &[(u64, ProcessDetailRow)]| {
        fixture::table_of(TableSpec::process_detail(CHILD), rows)
    };
    // It inherited 60, and held 90 between two samples of 60, of which 20 are its own.
    recording.tables[3] = marks(&[(0, mark(60.0)), (9, mark(90.0))]);
    assert_eq!(process_peaks(&recording)[&CHILD].added_bytes, Some(50.0));
    recording.tables[3] = marks(&[(0, mark(90.0)), (9, mark(90.0))]);
    assert_eq!(process_peaks(&recording)[&CHILD].added_bytes, Some(20.0));
}

#[test]
fn the_oldest_process_of_a_run_inside_a_job_has_all_of_its_pages() {
    let mut recording = parent_and_child("python train.py", ABSENT);
    recording.tables.remove(1);
    recording.description.parent = Some("job-1".parse().unwrap());
    assert_eq!(process_peaks(&recording)[&CHILD].added_bytes, Some(90.0));
}

#[test]
fn a_rise_between_the_marks_that_a_program_tells_is_of_its_run() {
    let mut recording = parent_and_child("python train.py", ABSENT);
    recording.description.mode = RunMode::Python;
    let told = |time_nanos, rss_bytes| TimedEvent {
        time_nanos,
        event: Event::HighWater {
            id: PARENT,
            rss_bytes,
            resident_bytes: None,
        },
    };
    // A mark that stood there before says nothing of the run.
    recording.events.extend([told(0, 400), told(500, 400)]);
    assert_eq!(resident(&recording, PARENT), 100.0);
    recording.events.push(told(800, 450));
    let peak = process_peaks(&recording)[&PARENT].resident.unwrap();
    assert_eq!((peak.bytes, peak.kind), (450.0, PeakKind::Vmhwm));
    assert_eq!(peak.time_nanos, 800);
}

/// One process, by time, resident and distinct memory, with marks of the kernel by time.
fn mapping_twice(rows: &[(u64, f64, f64)], marks: &[(u64, f64)]) -> Recording {
    let mut recording = fixture::recording();
    let row = |(time, rss_bytes, distinct_bytes): &(u64, f64, f64)| {
        let row = ProcessRow {
            rss_bytes: *rss_bytes,
            memory_bytes: *distinct_bytes,
            distinct_bytes: *distinct_bytes,
            ..ProcessRow::ABSENT
        };
        (*time, row)
    };
    let mark = |(time, peak_rss_bytes): &(u64, f64)| {
        let row = ProcessDetailRow {
            peak_rss_bytes: *peak_rss_bytes,
            ..ProcessDetailRow::ABSENT
        };
        (*time, row)
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    let marks: Vec<_> = marks.iter().map(mark).collect();
    recording.tables = vec![
        fixture::table_of(TableSpec::process(PARENT), &rows),
        fixture::table_of(TableSpec::process_detail(PARENT), &marks),
    ];
    recording.events = vec![started(PARENT, 1, "python train.py")];
    recording
}

#[test]
fn pages_that_a_process_maps_twice_are_in_its_peak_once() {
    let rows = [(0, 30.0, 30.0), (10, 830.0, 430.0), (20, 830.0, 430.0)];
    let marks = [(0, 30.0), (10, 830.0), (20, 830.0)];
    let mut recording = mapping_twice(&rows, &marks);
    let end = |bytes| TimedEvent {
        time_nanos: 30,
        event: Event::ProcessEnded {
            id: PARENT,
            peak_rss_bytes: Some(bytes),
            exit_code: Some(0),
            signal: None,
        },
    };
    recording.events.push(end(830));
    let peaks = process_peaks(&recording)[&PARENT];
    assert_eq!(peaks.resident.unwrap().bytes, 430.0);
    assert_eq!(peaks.added_bytes, Some(430.0));
    assert_eq!(resident_peaks(&recording)[&PARENT].bytes, 830.0);
    // A spike that only the kernel saw, between the last sample and the end.
    recording.events.pop();
    recording.events.push(end(1130));
    assert_eq!(resident(&recording, PARENT), 730.0);
}

#[test]
fn a_spike_beside_what_is_mapped_twice_is_found() {
    let rows = [(0, 30.0, 30.0), (10, 830.0, 430.0), (30, 30.0, 30.0)];
    // Before, meanwhile, and after it was unmapped.
    let before = [(5, 530.0), (10, 830.0), (30, 830.0)];
    assert_eq!(resident(&mapping_twice(&rows, &before), PARENT), 530.0);
    let meanwhile = [(5, 30.0), (10, 830.0), (20, 1130.0), (30, 1130.0)];
    assert_eq!(resident(&mapping_twice(&rows, &meanwhile), PARENT), 730.0);
    let after = [(5, 30.0), (10, 830.0), (30, 830.0), (40, 1500.0)];
    assert_eq!(resident(&mapping_twice(&rows, &after), PARENT), 1500.0);
}

#[test]
fn a_mapping_that_is_being_given_back_was_not_mapped_twice() {
    // As recorded of 2 GiB of shared memory: the second sample was taken while it was mapped, the third while it was given back.
    let rows = [(0, 158.0, 158.0), (10, 1350.0, 1350.0), (20, 1459.0, 18.0)];
    let marks = [(0, 158.0), (10, 1350.0), (20, 2162.0)];
    assert_eq!(resident(&mapping_twice(&rows, &marks), PARENT), 2162.0);
}

#[test]
fn a_process_that_no_sample_saw_has_the_rise_that_it_told_itself() {
    let mut recording = fixture::recording();
    recording.description.mode = RunMode::Python;
    let told = |time_nanos, rss_bytes| TimedEvent {
        time_nanos,
        event: Event::HighWater {
            id: CHILD,
            rss_bytes,
            resident_bytes: None,
        },
    };
    recording.events = vec![told(0, 400), told(80, 400)];
    assert!(process_peaks(&recording).is_empty());
    recording.events.push(told(90, 600));
    assert_eq!(resident(&recording, CHILD), 600.0);
}
