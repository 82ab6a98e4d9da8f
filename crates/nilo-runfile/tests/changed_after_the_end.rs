//! Marks and the end of a command, changed after a run had ended: told, while what may still be added is not.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod support;

use std::fs;
use std::path::Path;

use nilo_runfile::{FileKind, HEADER_LEN, RunWriter, append_event};
use nilo_sample::{Ending, Event, RunMode, RunStatus};
use support::{Scratch, small_segments};

const MARKS: &str = "marks.nilo";

fn mark(scratch: &Scratch, text: &str) {
    let text = text.to_owned();
    append_event(scratch.run.path(), &Event::Mark { text }).unwrap();
}

/// Writes an ending with this status, as the recorder does.
fn end(scratch: &Scratch, exit_code: Option<i32>, signal: Option<i32>) {
    let mut description = scratch.run.describe().unwrap();
    description.ending = Some(Ending {
        status: RunStatus::Exited,
        exit_code,
        signal,
        time_nanos: 1_000,
        oom: None,
        left_running: Vec::new(),
        recorder_death: None,
        lost_rank: None,
        gpu_out_of_memory: None,
    });
    scratch.run.write_description(&description).unwrap();
}

/// A run with a recorder that saw its command end so.
fn recorded(exit_code: Option<i32>, signal: Option<i32>) -> Scratch {
    let scratch = Scratch::new();
    let path = scratch.run.path();
    let mut writer = RunWriter::create(path, "recorder", small_segments(false)).unwrap();
    let ended = Event::CommandEnded {
        cpu_nanos: None,
        exit_code,
        signal,
        peak_bytes: None,
    };
    assert!(writer.event(scratch.start + 1, &ended));
    writer.close();
    scratch
}

/// The files that `verify` complains of, and the sentences of loading.
fn complaints(scratch: &Scratch) -> (Vec<(String, FileKind)>, Vec<String>) {
    let verified = scratch.run.verify().unwrap();
    let damaged = verified.files.iter().filter(|file| !file.damage.is_empty());
    let damaged: Vec<_> = damaged.map(|file| (file.name.clone(), file.kind)).collect();
    assert_eq!(verified.ok, damaged.is_empty());
    (damaged, scratch.run.load().unwrap().damage)
}

fn cut(path: &Path, bytes: u64) {
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(bytes).unwrap();
}

#[test]
fn marks_that_were_deleted_or_cut_after_the_end_are_told() {
    let whole = {
        let scratch = Scratch::new();
        mark(&scratch, "one");
        fs::metadata(scratch.run.path().join(MARKS)).unwrap().len()
    };
    // Nothing, within the header, the header alone, between two records, within a record.
    for len in [0, 60, HEADER_LEN as u64, whole, whole + 3] {
        let scratch = Scratch::new();
        mark(&scratch, "one");
        mark(&scratch, "two");
        end(&scratch, Some(0), None);
        assert_eq!(complaints(&scratch), (vec![], vec![]));
        cut(&scratch.run.path().join(MARKS), len);
        let (files, sentences) = complaints(&scratch);
        assert_eq!(files, [(MARKS.to_owned(), FileKind::Marks)], "cut to {len}");
        assert_eq!(sentences.len(), 1, "cut to {len}: {sentences:?}");
    }
    let scratch = Scratch::new();
    mark(&scratch, "one");
    end(&scratch, Some(0), None);
    fs::remove_file(scratch.run.path().join(MARKS)).unwrap();
    // Described again by who does not know.
    end(&scratch, Some(0), None);
    let (files, sentences) = complaints(&scratch);
    assert_eq!(files, [(MARKS.to_owned(), FileKind::Marks)]);
    assert!(sentences[0].contains("missing"), "{sentences:?}");
}

#[test]
fn marks_that_come_after_the_end_are_no_damage() {
    let scratch = Scratch::new();
    end(&scratch, Some(0), None);
    mark(&scratch, "the first, after the end");
    assert_eq!(complaints(&scratch), (vec![], vec![]));
    end(&scratch, Some(0), None);
    mark(&scratch, "one more");
    assert_eq!(complaints(&scratch), (vec![], vec![]));
}

#[test]
fn marks_of_a_run_that_goes_on_have_no_length_yet() {
    let scratch = Scratch::new();
    mark(&scratch, "one");
    let description = scratch.run.describe().unwrap();
    scratch.run.write_description(&description).unwrap();
    assert_eq!(scratch.run.describe().unwrap().marks_bytes, None);
}

#[test]
fn an_exit_code_that_the_recorder_did_not_write_is_told() {
    for (recorded_as, told_as) in [
        ((Some(0), None), (Some(7), None)),
        ((None, Some(9)), (Some(0), None)),
        ((None, Some(9)), (None, Some(15))),
    ] {
        let scratch = recorded(recorded_as.0, recorded_as.1);
        end(&scratch, recorded_as.0, recorded_as.1);
        assert_eq!(complaints(&scratch), (vec![], vec![]));
        end(&scratch, told_as.0, told_as.1);
        let (files, sentences) = complaints(&scratch);
        assert_eq!(files, [("run.json".to_owned(), FileKind::Description)]);
        assert_eq!(sentences.len(), 1, "{sentences:?}");
    }
}

#[test]
fn an_end_that_one_side_does_not_know_is_no_contradiction() {
    for (recorded_as, told_as) in [(None, Some(7)), (Some(7), None)] {
        let scratch = recorded(recorded_as, None);
        end(&scratch, told_as, None);
        assert_eq!(complaints(&scratch), (vec![], vec![]));
    }
}

/// A signal handler writes the end that it expects, and the program may live on.
#[test]
fn a_program_that_records_itself_may_end_otherwise_than_it_expected() {
    let scratch = recorded(None, Some(15));
    let mut description = scratch.run.describe().unwrap();
    description.mode = RunMode::Python;
    scratch.run.write_description(&description).unwrap();
    end(&scratch, Some(0), None);
    assert_eq!(complaints(&scratch), (vec![], vec![]));
}
