//! The end of a command stands twice in its run: in `run.json` and as the recorder's last event. Where the two differ, one of them was changed.

use nilo_sample::{Event, RunDescription, RunMode, TimedEvent};

/// An exit code, or a signal.
type Status = (Option<i32>, Option<i32>);

/// What is to be said of a `run.json` that contradicts the recorder. Programs that record themselves do not know their end for certain and may tell it twice.
pub(crate) fn contradicted_end(told: &RunDescription, events: &[TimedEvent]) -> Option<String> {
    if told.mode != RunMode::Run {
        return None;
    }
    let ending = told.ending.as_ref()?;
    let told = known((ending.exit_code, ending.signal))?;
    let recorded = events.iter().rev().find_map(|timed| match timed.event {
        Event::CommandEnded {
            exit_code, signal, ..
        } => known((exit_code, signal)),
        _ => None,
    })?;
    (told != recorded).then(|| {
        format!(
            "it says {}, and the recorder wrote {}",
            in_words(told),
            in_words(recorded)
        )
    })
}

fn known(status: Status) -> Option<Status> {
    (status.0.or(status.1).is_some()).then_some(status)
}

fn in_words(status: Status) -> String {
    match status {
        (Some(code), Some(signal)) => format!("exit code {code} and signal {signal}"),
        (Some(code), None) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "nothing".to_owned(),
    }
}
