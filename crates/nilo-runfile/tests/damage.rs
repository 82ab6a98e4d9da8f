//! Files cut, garbled and forged: everything whole is read, nothing panics, nothing is allocated beyond measure.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod support;

use nilo_runfile::{HEADER_LEN, RunWriter, append_event};
use nilo_sample::{Ending, Event, Recording, RunDescription, RunMode, RunStatus};
use proptest::prelude::*;
use support::{Scratch, metrics, small_segments};

/// A writer of rows with a step, one a nanosecond: that number and its negative.
fn writer_of_rows(scratch: &Scratch, start: u64, rows: u64, compacts: bool) -> RunWriter {
    let options = small_segments(compacts);
    let mut writer = RunWriter::create(scratch.run.path(), "w", options).unwrap();
    let table = writer.define(&metrics("m", 2));
    for index in 0..rows {
        let value = index as f64;
        assert!(writer.append(table, start + index, Some(index as i64), &[value, -value]));
    }
    writer
}

/// A run of one raw segment as a killed writer leaves it: a table, `rows` rows with a step, one event.
fn raw_run(rows: u64) -> (Scratch, String, Vec<u8>) {
    let (scratch, name, mut bytes) = closed_run(rows);
    bytes[80..88].fill(0);
    std::fs::write(scratch.run.path().join(&name), &bytes).unwrap();
    (scratch, name, bytes)
}

/// The same, closed by its writer.
fn closed_run(rows: u64) -> (Scratch, String, Vec<u8>) {
    let scratch = Scratch::new();
    let mut writer = writer_of_rows(&scratch, scratch.start, rows, false);
    let text = "done".to_owned();
    assert!(writer.event(scratch.start + rows, &Event::Mark { text }));
    writer.close();
    let (name, bytes) = scratch.bytes_of(".nilo");
    (scratch, name, bytes)
}

/// A run whose stream is compacted for the greater part.
fn compacted_run() -> Scratch {
    let scratch = Scratch::new();
    let writer = writer_of_rows(&scratch, scratch.start, 8000, true);
    support::wait_for_blocks(scratch.run.path());
    writer.close();
    scratch
}

fn row_count(recording: &Recording) -> usize {
    recording.tables.iter().map(|table| table.times.len()).sum()
}

fn is_subset(recording: &Recording) -> bool {
    recording.tables.iter().all(|table| {
        let rows = table
            .steps
            .iter()
            .zip(&table.columns[0])
            .zip(&table.columns[1]);
        rows.into_iter()
            .all(|((step, a), b)| *a == *step as f64 && *b == -*a)
    })
}

#[test]
fn a_segment_cut_at_any_byte_keeps_everything_before_the_cut() {
    let (scratch, name, bytes) = raw_run(20);
    let path = scratch.run.path().join(name);
    let row_len = 8 + 12 + 8 + 16;
    let event_len = bytes.len() - first_row(&bytes) - 20 * row_len;
    for cut in 0..=bytes.len() {
        std::fs::write(&path, &bytes[..cut]).unwrap();
        let recording = scratch.run.load().unwrap();
        let whole = cut.saturating_sub(first_row(&bytes)) / row_len;
        assert_eq!(row_count(&recording), whole.min(20), "cut at {cut}");
        assert_eq!(recording.damage, Vec::<String>::new(), "cut at {cut}");
        let has_event = cut == bytes.len() && event_len > 0;
        assert_eq!(!recording.events.is_empty(), has_event, "cut at {cut}");
        assert!(scratch.run.verify().unwrap().ok);
        assert!(scratch.run.follow().poll().is_ok());
    }
}

#[test]
fn a_closed_segment_that_was_cut_is_told_wherever_the_cut_is() {
    let (scratch, name, bytes) = closed_run(20);
    let path = scratch.run.path().join(name);
    assert!(scratch.run.verify().unwrap().ok);
    for cut in HEADER_LEN..bytes.len() {
        std::fs::write(&path, &bytes[..cut]).unwrap();
        let recording = scratch.run.load().unwrap();
        let whole = cut.saturating_sub(first_row(&bytes)) / 44;
        assert_eq!(row_count(&recording), whole.min(20), "cut at {cut}");
        assert_eq!(recording.damage.len(), 1, "cut at {cut}");
        assert!(recording.damage[0].contains("at the end are missing"));
        assert!(!scratch.run.verify().unwrap().ok, "cut at {cut}");
    }
}

#[test]
fn a_compacted_file_that_lost_its_last_block_is_told() {
    let scratch = compacted_run();
    let (name, bytes) = scratch.bytes_of(".nilc");
    let is_block = |at: &usize| bytes[*at..].starts_with(b"NBLK");
    let last = (HEADER_LEN..bytes.len()).rev().find(is_block).unwrap();
    assert!(scratch.run.verify().unwrap().ok);
    // Between two blocks, with no segment behind it that would show the gap.
    std::fs::write(scratch.run.path().join(name), &bytes[..last]).unwrap();
    for later in scratch
        .file_names()
        .iter()
        .filter(|it| it.ends_with(".nilo"))
    {
        std::fs::remove_file(scratch.run.path().join(later)).unwrap();
    }
    assert!(!scratch.run.load().unwrap().damage.is_empty());
    assert!(!scratch.run.verify().unwrap().ok);
}

/// Where the first row begins: after the header and the declaration.
fn first_row(bytes: &[u8]) -> usize {
    let word = u32::from_le_bytes(bytes[HEADER_LEN..HEADER_LEN + 4].try_into().unwrap());
    HEADER_LEN + 8 + ((word & 0xf_ffff) as usize).next_multiple_of(4)
}

#[test]
fn garbage_after_the_end_is_a_torn_tail() {
    let (scratch, name, mut bytes) = raw_run(20);
    bytes.extend((0..997u32).map(|index| (index * 131 % 251) as u8));
    std::fs::write(scratch.run.path().join(&name), &bytes).unwrap();
    let recording = scratch.run.load().unwrap();
    assert_eq!(row_count(&recording), 20);
    assert_eq!(recording.damage, Vec::<String>::new());
    let report = scratch.run.verify().unwrap();
    assert!(report.ok);
    let file = report.files.iter().find(|file| file.name == name).unwrap();
    assert!(file.torn_tail_bytes > 900);
}

#[test]
fn a_flipped_byte_in_the_middle_costs_one_row_and_is_told() {
    let (scratch, name, mut bytes) = raw_run(20);
    let at = first_row(&bytes) + 5 * 44 + 30;
    bytes[at] ^= 0x55;
    std::fs::write(scratch.run.path().join(&name), &bytes).unwrap();
    let recording = scratch.run.load().unwrap();
    assert_eq!(row_count(&recording), 19);
    assert!(is_subset(&recording));
    assert_eq!(recording.events.len(), 1);
    assert_eq!(recording.damage.len(), 1);
    assert!(recording.damage[0].contains("unreadable"));
    assert!(!scratch.run.verify().unwrap().ok);
}

#[test]
fn a_compacted_file_cut_at_any_byte_keeps_the_whole_blocks() {
    let scratch = compacted_run();
    let whole = scratch.run.load().unwrap();
    let (name, bytes) = scratch.bytes_of(".nilc");
    let path = scratch.run.path().join(name);
    let mut counts = Vec::new();
    for cut in (0..bytes.len()).step_by(97).chain([bytes.len()]) {
        std::fs::write(&path, &bytes[..cut]).unwrap();
        let recording = scratch.run.load().unwrap();
        assert!(is_subset(&recording), "cut at {cut}");
        counts.push(row_count(&recording));
        let is_whole = recording.damage.is_empty();
        assert_eq!(scratch.run.verify().unwrap().ok, is_whole, "cut at {cut}");
    }
    assert!(counts.is_sorted());
    assert_eq!(counts.last(), Some(&row_count(&whole)));
}

#[test]
fn verification_finds_the_segments_that_are_missing() {
    let scratch = compacted_run();
    assert!(scratch.run.verify().unwrap().ok);
    let (name, _) = scratch.bytes_of(".nilc");
    std::fs::remove_file(scratch.run.path().join(&name)).unwrap();
    let recording = scratch.run.load().unwrap();
    assert_eq!(recording.damage.len(), 1);
    assert!(recording.damage[0].contains("missing"));
    let verification = scratch.run.verify().unwrap();
    assert!(!verification.ok);
    let mut reports = verification.files.iter();
    let writer = name.strip_suffix(".nilc").unwrap();
    let missing = reports.find(|file| file.name == format!("{writer}.0000.nilo"));
    assert_eq!(missing.unwrap().damage, recording.damage);
}

#[test]
fn what_a_program_closed_itself_has_no_torn_tail() {
    let (scratch, name, bytes) = raw_run(20);
    std::fs::write(scratch.run.path().join(name), &bytes[..bytes.len() - 50]).unwrap();
    let is_whole = |change: &dyn Fn(&mut RunDescription)| {
        let mut description = scratch.run.describe().unwrap();
        description.mode = RunMode::Python;
        // The test's own process wrote the segment.
        description.recorder_pid = std::process::id();
        description.recorder_start_ticks = scratch.run.writing_processes()[0].start_ticks;
        description.ending = Some(Ending {
            status: RunStatus::Exited,
            exit_code: Some(0),
            signal: None,
            time_nanos: 1,
            oom: None,
            left_running: vec![],
            recorder_death: None,
            lost_rank: None,
            gpu_out_of_memory: None,
        });
        change(&mut description);
        scratch.run.write_description(&description).unwrap();
        let is_whole = scratch.run.load().unwrap().damage.is_empty();
        assert_eq!(scratch.run.verify().unwrap().ok, is_whole);
        is_whole
    };
    assert!(!is_whole(&|_| ()));
    // Killed before its end, or another process of the run, which may have been.
    assert!(is_whole(&|told| told.ending = None));
    assert!(is_whole(&|told| told.recorder_pid += 1));
}

#[test]
fn a_crash_between_block_and_deletion_gives_no_duplicates() {
    let scratch = Scratch::new();
    let mut segments = Vec::new();
    let writer = writer_of_rows(&scratch, scratch.start, 8000, false);
    writer.close();
    for name in scratch.file_names() {
        if name.ends_with(".nilo") {
            let path = scratch.run.path().join(&name);
            segments.push((path.clone(), std::fs::read(path).unwrap()));
        }
    }
    assert!(segments.len() > 3);
    // The same rows, compacted in another run, then both put together as the crash would leave them.
    let other = Scratch::new();
    let writer = writer_of_rows(&other, scratch.start, 8000, true);
    writer.close();
    let (name, compacted) = other.bytes_of(".nilc");
    std::fs::write(scratch.run.path().join(name), compacted).unwrap();
    let recording = scratch.run.load().unwrap();
    assert_eq!(row_count(&recording), 8000);
    assert!(is_subset(&recording));
    let update = scratch.run.follow().poll().unwrap();
    assert_eq!(update.tables, recording.tables);
    // A damaged segment is taken from its block.
    let (path, bytes) = &segments[0];
    std::fs::write(path, &bytes[8..]).unwrap();
    assert_eq!(row_count(&scratch.run.load().unwrap()), 8000);
}

#[test]
fn a_file_from_the_future_is_refused_and_the_others_load() {
    let (scratch, name, mut bytes) = raw_run(20);
    bytes[8] = 9;
    std::fs::write(scratch.run.path().join("future-1.0000.nilo"), &bytes).unwrap();
    let recording = scratch.run.load().unwrap();
    assert_eq!(row_count(&recording), 20);
    assert_eq!(recording.damage.len(), 1);
    assert!(recording.damage[0].contains("written by a later version of nilo"));
    std::fs::remove_file(scratch.run.path().join(name)).unwrap();
    std::fs::write(scratch.run.path().join("marks.nilo"), &bytes).unwrap();
    let text = "x".to_owned();
    let error = append_event(scratch.run.path(), &Event::Mark { text }).unwrap_err();
    assert!(error.hint().unwrap().contains("update nilo"));
}

#[test]
fn records_of_an_unknown_kind_are_skipped() {
    let (scratch, name, mut bytes) = raw_run(2);
    let word = 77u32 << 20 | 12;
    let body = [1; 12];
    bytes.extend(word.to_le_bytes());
    bytes.extend(crc32c::crc32c_append(word, &body).to_le_bytes());
    bytes.extend(body);
    let event = first_event(&bytes);
    bytes.extend(event);
    std::fs::write(scratch.run.path().join(name), &bytes).unwrap();
    let recording = scratch.run.load().unwrap();
    assert_eq!(recording.damage, Vec::<String>::new());
    assert_eq!(recording.events.len(), 2);
}

#[test]
fn events_of_an_unknown_kind_are_skipped() {
    let (scratch, name, mut bytes) = raw_run(2);
    let mut body = 7u64.to_le_bytes().to_vec();
    body.extend(br#"{"event":"from-the-future","name":["x"]}"#);
    let word = 3u32 << 20 | body.len() as u32;
    bytes.extend(word.to_le_bytes());
    bytes.extend(crc32c::crc32c_append(word, &body).to_le_bytes());
    bytes.extend(&body);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let event = first_event(&bytes);
    bytes.extend(event);
    std::fs::write(scratch.run.path().join(name), &bytes).unwrap();
    let recording = scratch.run.load().unwrap();
    assert_eq!(recording.damage, Vec::<String>::new());
    let known = recording
        .events
        .iter()
        .filter(|it| it.event != Event::Unknown);
    assert_eq!(known.count(), 2);
    assert!(scratch.run.verify().unwrap().ok);
}

/// The bytes of the event after the two rows.
fn first_event(bytes: &[u8]) -> Vec<u8> {
    let start = first_row(bytes) + 2 * 44;
    let word = u32::from_le_bytes(bytes[start..start + 4].try_into().unwrap());
    bytes[start..start + 8 + ((word & 0xf_ffff) as usize).next_multiple_of(4)].to_vec()
}

fn ended(scratch: &Scratch) {
    let mut description = scratch.run.describe().unwrap();
    description.ending = Some(Ending {
        status: RunStatus::Exited,
        exit_code: Some(0),
        signal: None,
        time_nanos: 1_000,
        oom: None,
        left_running: Vec::new(),
        recorder_death: None,
        lost_rank: None,
        gpu_out_of_memory: None,
    });
    scratch.run.write_description(&description).unwrap();
}

/// Neither leaves a trace in the other files: the description of a run that has ended knows its streams.
#[test]
fn a_stream_that_was_emptied_or_deleted_after_the_end_is_told() {
    type Hurt = fn(&std::path::Path);
    let hurts: [Hurt; 3] = [
        |path| std::fs::remove_file(path).unwrap(),
        |path| std::fs::write(path, "").unwrap(),
        |path| std::fs::write(path, [0; 4096]).unwrap(),
    ];
    for hurt in hurts {
        let (scratch, name, _) = closed_run(10);
        ended(&scratch);
        assert!(scratch.run.verify().unwrap().ok);
        hurt(&scratch.run.path().join(&name));
        let recording = scratch.run.load().unwrap();
        assert_eq!(recording.damage.len(), 1, "{:?}", recording.damage);
        let verified = scratch.run.verify().unwrap();
        assert!(!verified.ok);
        let report = verified.files.iter().find(|file| file.name == name);
        assert_eq!(report.unwrap().damage.len(), 1);
        // The run may be described again, by who does not know.
        ended(&scratch);
        assert!(!scratch.run.verify().unwrap().ok);
    }
}

#[test]
fn the_last_segments_of_a_stream_are_told_when_they_are_missing() {
    let scratch = compacted_run();
    ended(&scratch);
    assert!(scratch.run.verify().unwrap().ok);
    let (compacted, _) = scratch.bytes_of(".nilc");
    let known: Vec<u32> = scratch
        .run
        .describe()
        .unwrap()
        .streams
        .into_values()
        .collect();
    assert!(known[0] > 1, "{known:?}");
    std::fs::write(scratch.run.path().join(compacted), "").unwrap();
    let recording = scratch.run.load().unwrap();
    assert!(
        recording.damage[0].contains("missing"),
        "{:?}",
        recording.damage
    );
}

/// What is written to a run after its end, by a rank that stays longer, is no damage; nor is a file that never had a header.
#[test]
fn streams_that_come_after_the_end_are_no_damage() {
    let (scratch, _, bytes) = closed_run(3);
    std::fs::write(scratch.run.path().join("x-1.0000.nilo"), "").unwrap();
    ended(&scratch);
    std::fs::write(scratch.run.path().join("y-2.0000.nilo"), &bytes).unwrap();
    assert!(scratch.run.verify().unwrap().ok);
    assert!(scratch.run.load().unwrap().damage.is_empty());
    let mut forged = scratch.run.describe().unwrap();
    forged.streams.insert("../../etc/x".to_owned(), 7);
    scratch.run.write_description(&forged).unwrap();
    assert!(scratch.run.load().unwrap().damage.is_empty());
}

#[test]
fn a_missing_segment_is_told() {
    let scratch = Scratch::new();
    let mut writer = RunWriter::create(scratch.run.path(), "w", small_segments(false)).unwrap();
    let table = writer.define(&metrics("m", 2));
    for index in 0..8000u64 {
        assert!(writer.append(table, scratch.start + index, None, &[0.0; 2]));
    }
    writer.close();
    let name = scratch
        .file_names()
        .into_iter()
        .find(|name| name.contains(".0001."));
    std::fs::remove_file(scratch.run.path().join(name.unwrap())).unwrap();
    let recording = scratch.run.load().unwrap();
    assert!(recording.damage[0].contains("segment 1 is missing"));
    assert!(row_count(&recording) > 4000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn flipped_bits_in_a_segment_never_forge_a_row(flips in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..20)) {
        let (scratch, name, mut bytes) = raw_run(50);
        // The header is covered by its own test; here the records are garbled.
        for (index, bit) in flips {
            let at = HEADER_LEN + index.index(bytes.len() - HEADER_LEN);
            bytes[at] ^= 1 << bit;
        }
        std::fs::write(scratch.run.path().join(name), &bytes).unwrap();
        let recording = scratch.run.load().unwrap();
        prop_assert!(is_subset(&recording));
        prop_assert!(scratch.run.verify().is_ok());
        prop_assert!(scratch.run.follow().poll().is_ok());
    }

    #[test]
    fn flipped_bits_in_a_compacted_file_never_forge_a_row(flips in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..20)) {
        let scratch = compacted_run();
        let (name, mut bytes) = scratch.bytes_of(".nilc");
        for (index, bit) in flips {
            let at = index.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        std::fs::write(scratch.run.path().join(name), &bytes).unwrap();
        let recording = scratch.run.load().unwrap();
        prop_assert!(is_subset(&recording));
        prop_assert!(scratch.run.verify().is_ok());
    }

    #[test]
    fn any_bytes_under_our_names_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let (scratch, name, good) = raw_run(3);
        std::fs::write(scratch.run.path().join("a-1.nilc"), &bytes).unwrap();
        std::fs::write(scratch.run.path().join("marks.nilo"), &bytes).unwrap();
        let mut glued = good[..HEADER_LEN].to_vec();
        glued.extend(&bytes);
        std::fs::write(scratch.run.path().join(name), &glued).unwrap();
        prop_assert!(scratch.run.load().is_ok());
        prop_assert!(scratch.run.verify().is_ok());
    }
}
