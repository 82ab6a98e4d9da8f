//! `run_command` around real small processes: what it hands on of their ends, and what it writes down.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nilo_recorder::{
    CommandOutcome, CommandSettings, LiveReading, Observer, RecorderError, describe_run,
    run_command,
};
use nilo_runfile::RunFolder;
use nilo_sample::{Event, Recording, RunMode, RunStatus, Subject};

struct Quiet;

impl Observer for Quiet {
    fn on_tick(&mut self, _: &LiveReading) {}

    fn on_notice(&mut self, _: &str) {}
}

/// Runs a command, and gives what was recorded of it.
fn run(command: &[&str]) -> Result<(CommandOutcome, Recording), RecorderError> {
    run_at(1_000_000, command)
}

fn run_at(
    interval_nanos: u64,
    command: &[&str],
) -> Result<(CommandOutcome, Recording), RecorderError> {
    let scratch = tempfile::tempdir().unwrap();
    let words = command.iter().map(ToString::to_string).collect();
    let description = describe_run(RunMode::Run, words, "test", Default::default());
    let folder = RunFolder::create(scratch.path(), &description).unwrap();
    let settings = CommandSettings {
        command: command.iter().map(OsString::from).collect(),
        folder: &folder,
        description,
        interval_nanos,
        wait_for_all: false,
        alerts: None,
        hooks: false,
    };
    let outcome = run_command(settings, &mut Quiet)?;
    Ok((outcome, folder.load().unwrap()))
}

/// What was written of the end of the command.
fn written_end(recording: &Recording) -> (Option<i32>, Option<i32>) {
    let ends = recording.events.iter().rev();
    let mut ends = ends.filter_map(|timed| match timed.event {
        Event::CommandEnded {
            exit_code, signal, ..
        } => Some((exit_code, signal)),
        _ => None,
    });
    ends.next().unwrap()
}

#[test]
fn an_exit_code_is_handed_on_and_written_down() {
    for code in [0, 3] {
        let (outcome, recording) = run(&["sh", "-c", &format!("exit {code}")]).unwrap();
        assert_eq!((outcome.exit_code, outcome.signal), (code, None));
        assert_eq!(outcome.ending.status, RunStatus::Exited);
        assert_eq!(outcome.ending.exit_code, Some(code));
        assert_eq!(written_end(&recording), (Some(code), None));
        let written = recording.description.ending.unwrap();
        assert_eq!(written, outcome.ending);
    }
}

#[test]
fn a_signal_is_told_apart_from_an_exit_code() {
    let (outcome, recording) = run(&["sh", "-c", "kill -TERM $$"]).unwrap();
    assert_eq!((outcome.exit_code, outcome.signal), (143, Some(15)));
    assert_eq!(outcome.ending.status, RunStatus::Killed);
    assert_eq!(written_end(&recording), (None, Some(15)));
    // A shell that only speaks of a signal has exited.
    let (outcome, _) = run(&["sh", "-c", "exit 143"]).unwrap();
    assert_eq!((outcome.exit_code, outcome.signal), (143, None));
    assert_eq!(outcome.ending.status, RunStatus::Exited);
}

#[test]
fn the_only_process_of_a_command_has_the_peak_that_the_kernel_tells() {
    let (_, recording) = run(&["sh", "-c", "exit 0"]).unwrap();
    let processes = nilo_analysis::process_peaks::process_peaks(&recording);
    let largest = processes.values().filter_map(|peaks| peaks.resident);
    let largest = largest.map(|peak| peak.bytes).reduce(f64::max);
    let tree = nilo_analysis::peak::tree_peak(&recording).unwrap();
    // One that ended before it was sampled is no process of the recording.
    assert!(largest.is_none_or(|bytes| bytes >= tree.bytes * 0.999));
}

#[test]
fn children_between_two_samples_are_in_the_curve_of_cpu_time() {
    let short = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let many = format!("n=0; while [ $n -lt 80 ]; do n=$((n+1)); sh -c '{short}'; done; true");
    let (_, recording) = run_at(100_000_000, &["sh", "-c", &many]).unwrap();
    let told = recording.events.iter().find_map(|timed| match timed.event {
        Event::CommandEnded { cpu_nanos, .. } => cpu_nanos,
        _ => None,
    });
    let told = told.unwrap() as f64;
    let tree = recording.table(&Subject::Tree).unwrap();
    let curve = tree.series("cpu_nanos").unwrap().last().unwrap();
    // The last moments were not sampled; the kernel tells its last word to the microsecond.
    assert!(curve > 0.6 * told, "{curve} of {told}");
    assert!(curve < told + 1e6, "{curve} for {told}");
}

fn refusal(command: &str) -> (i32, String) {
    match run(&[command]).unwrap_err() {
        RecorderError::Launch(error) => (error.exit_code(), error.to_string()),
        other => panic!("{other}"),
    }
}

#[test]
fn what_does_not_start_is_refused_as_shells_do() {
    let missing = refusal("no-such-program-of-nilometer");
    let sentence = "command not found: no-such-program-of-nilometer";
    assert_eq!(missing, (127, sentence.to_owned()));
    let scratch = tempfile::tempdir().unwrap();
    let script = |name: &str, text: &str, mode: u32| {
        let path = scratch.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (code, sentence) = refusal(&script("plain.sh", "#!/bin/sh\n", 0o644));
    assert_eq!(code, 126);
    assert!(sentence.contains("Permission denied"), "{sentence}");
    // The file is there; what is missing is the program that it names.
    let unknown = script("unknown.sh", "#!/no/such/interpreter\n", 0o755);
    assert_eq!(refusal(&unknown).0, 126);
    assert!(Path::new(&unknown).exists());
}
