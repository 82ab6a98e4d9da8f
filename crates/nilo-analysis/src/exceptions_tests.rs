use nilo_sample::{Event, RunStatus, TimedEvent};

use super::*;
use nilo_sample::fixture::recording;

fn raise(recording: &mut Recording, secs: u64, pid: u32, thread: Option<&str>, type_name: &str) {
    let exception = UnhandledException {
        pid,
        thread: thread.map(str::to_owned),
        type_name: type_name.to_owned(),
        ..UnhandledException::default()
    };
    recording.events.push(TimedEvent {
        time_nanos: secs * 1_000_000_000,
        event: Event::Exception(Box::new(exception)),
    });
}

fn ending(exit_code: i32) -> Ending {
    Ending {
        status: RunStatus::Exited,
        exit_code: Some(exit_code),
        signal: None,
        time_nanos: 10_000_000_000,
        oom: None,
        left_running: vec![],
        recorder_death: None,
        lost_rank: None,
        gpu_out_of_memory: None,
    }
}

fn ended_by(recording: &Recording, exit_code: i32) -> Option<&str> {
    let (_, exception) = ending_exception(recording, &ending(exit_code))?;
    Some(&exception.type_name)
}

#[test]
fn the_commands_own_exception_comes_before_those_of_its_workers() {
    let mut recording = recording();
    recording.description.root_pids = vec![1];
    raise(&mut recording, 1, 2, None, "WorkerError");
    raise(&mut recording, 2, 1, None, "RuntimeError");
    assert_eq!(ended_by(&recording, 1), Some("RuntimeError"));
}

#[test]
fn a_launcher_fails_with_the_first_process_that_fails() {
    let mut recording = recording();
    recording.description.root_pids = vec![1];
    raise(&mut recording, 1, 3, None, "torch.OutOfMemoryError");
    raise(&mut recording, 2, 2, None, "DistBackendError");
    assert_eq!(ended_by(&recording, 1), Some("torch.OutOfMemoryError"));
}

#[test]
fn of_ranks_the_first_to_fail_is_why_and_not_the_one_that_lost_its_connection() {
    let mut recording = recording();
    recording.description.root_pids = vec![1];
    raise(&mut recording, 1, 2, None, "RuntimeError");
    raise(&mut recording, 2, 1, None, "DistBackendError");
    assert_eq!(ended_by(&recording, 1), Some("DistBackendError"));
    recording.events.push(TimedEvent {
        time_nanos: 1_000_000_000,
        event: Event::RankEnded {
            rank: 1,
            exit_code: Some(1),
            signal: None,
        },
    });
    assert_eq!(ended_by(&recording, 1), Some("RuntimeError"));
}

#[test]
fn a_program_that_goes_on_was_not_ended_by_an_exception() {
    let mut recording = recording();
    recording.description.root_pids = vec![1];
    raise(&mut recording, 1, 2, None, "WorkerError");
    raise(&mut recording, 2, 1, Some("Thread-1"), "KeyError");
    assert_eq!(ended_by(&recording, 0), None);
    assert_eq!(exceptions(&recording).count(), 2);
}

#[test]
fn an_exception_of_another_thread_does_not_end_the_program() {
    let mut recording = recording();
    recording.description.root_pids = vec![1];
    raise(&mut recording, 2, 1, Some("Thread-1"), "KeyError");
    assert_eq!(ended_by(&recording, 1), None);
}

#[test]
fn an_exception_of_a_cell_does_not_end_the_kernel() {
    let mut recording = recording();
    recording.description.root_pids = vec![1];
    raise(&mut recording, 2, 1, None, "ValueError");
    let Event::Exception(exception) = &mut recording.events[0].event else {
        unreachable!();
    };
    exception.cell = Some(3);
    assert_eq!(ended_by(&recording, 137), None);
    assert_eq!(exceptions(&recording).count(), 1);
}

#[test]
fn an_exception_of_the_last_cell_ends_the_notebook_and_counts_once() {
    let mut recording = recording();
    recording.description.root_pids = vec![1];
    for (secs, cell, type_name) in [
        (1, Some(2), "KeyError"),
        (2, Some(3), "ValueError"),
        (3, None, "ValueError"),
    ] {
        raise(&mut recording, secs, 1, None, type_name);
        let Some(Event::Exception(exception)) =
            recording.events.last_mut().map(|timed| &mut timed.event)
        else {
            unreachable!();
        };
        exception.cell = cell;
    }
    assert_eq!(ended_by(&recording, 1), Some("ValueError"));
    let told: Vec<_> = exceptions(&recording)
        .map(|(_, exception)| (exception.type_name.as_str(), exception.cell))
        .collect();
    assert_eq!(told, [("KeyError", Some(2)), ("ValueError", None)]);
}

#[test]
fn a_launcher_that_says_its_child_failed_is_not_why() {
    let mut recording = recording();
    recording.description.root_pids = vec![1];
    raise(&mut recording, 2, 7, None, "torch.OutOfMemoryError");
    let launcher = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError";
    raise(&mut recording, 3, 1, None, launcher);
    assert_eq!(ended_by(&recording, 1), Some("torch.OutOfMemoryError"));
    recording.events.remove(0);
    assert_eq!(ended_by(&recording, 1), Some(launcher));
}

#[test]
fn what_runs_a_notebook_tells_of_a_cell_where_the_notebook_did_not() {
    let failed = |recording: &mut Recording, pid, type_name: &str, message: &str| {
        raise(recording, 3, pid, None, type_name);
        if let Some(Event::Exception(exception)) =
            recording.events.last_mut().map(|timed| &mut timed.event)
        {
            exception.message = message.to_owned();
        }
    };
    let mut alone = recording();
    alone.description.root_pids = vec![1];
    let told = "An error occurred while executing the following cell:\n[][0]\nIndexError: list index out of range";
    failed(
        &mut alone,
        1,
        "nbclient.exceptions.CellExecutionError",
        told,
    );
    assert_eq!(
        ended_by(&alone, 1),
        Some("nbclient.exceptions.CellExecutionError")
    );
    let mut both = alone.clone();
    failed(&mut both, 2, "IndexError", "list index out of range");
    assert_eq!(ended_by(&both, 1), Some("IndexError"));
    assert_eq!(exceptions(&both).count(), 1);
    failed(&mut alone, 2, "OSError", "of a worker");
    assert_eq!(exceptions(&alone).count(), 2);
}
