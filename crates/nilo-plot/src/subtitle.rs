//! The line under the title: what ran, where, when, and how it ended.

use nilo_sample::units::format_duration;
use nilo_sample::{Ending, RunDescription, RunMode, RunStatus};

use crate::font::{shorten, text_width};
use crate::frame::TEXT_PX;
use crate::options::{ChartOptions, RanOutMark};

const SEPARATOR: &str = "  ·  ";

/// The run's own name, else its id.
pub(crate) fn title(description: &RunDescription) -> &str {
    let name = description.name.as_deref();
    name.filter(|name| !name.trim().is_empty())
        .unwrap_or(description.id.as_str())
}

/// A command shorter than this says nothing: other parts give way to it.
const SHORTEST_COMMAND_PX: f64 = 120.0;

/// Command, host, start and status, and of how many runs the metrics are where that is several; where there is little room, first the start is left out, then the host.
pub(crate) fn subtitle(
    description: &RunDescription,
    options: &ChartOptions,
    width_px: f64,
) -> String {
    let host: String = description.host.chars().take(60).collect();
    let started = started(description.started_unix_nanos);
    let ended = description.ending.as_ref();
    let ended = ended.map_or(String::new(), |ending| match description.mode {
        RunMode::Machine => format!("recorded for {}", format_duration(ending.time_nanos)),
        _ => status(ending, options.ran_out),
    });
    let resumed = match options.earlier_runs {
        0 => String::new(),
        1 => "metrics with the run it resumes".to_owned(),
        earlier => format!("metrics with the {earlier} runs it resumes"),
    };
    let join = |parts: &[&str]| {
        let parts = parts.iter().copied().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(SEPARATOR)
    };
    let status = join(&[&ended, &resumed]);
    let room = |rest: &str| width_px - text_width(rest, TEXT_PX) - text_width(SEPARATOR, TEXT_PX);
    let choices = [
        join(&[&host, &started, &status]),
        join(&[&host, &status]),
        status.clone(),
    ];
    let roomy = choices
        .iter()
        .find(|rest| room(rest) >= SHORTEST_COMMAND_PX);
    let rest = roomy.unwrap_or(&status).clone();
    let command = shorten(&description.command.join(" "), TEXT_PX, room(&rest));
    match (command.is_empty(), rest.is_empty()) {
        (true, _) => rest,
        (_, true) => command,
        _ => format!("{command}{SEPARATOR}{rest}"),
    }
}

/// In universal time: a figure is read elsewhere.
fn started(unix_nanos: u64) -> String {
    let timestamp = jiff::Timestamp::from_nanosecond(i128::from(unix_nanos));
    match timestamp {
        Ok(timestamp) if unix_nanos > 0 => timestamp.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        _ => String::new(),
    }
}

fn status(ending: &Ending, ran_out: Option<RanOutMark>) -> String {
    let why = match ran_out {
        Some(_) => " (out of memory)",
        None => "",
    };
    let how = match (ending.status, ending.exit_code, ending.signal) {
        (RunStatus::Exited, Some(code), _) => format!("exited {code}{why}"),
        (RunStatus::Killed, _, Some(signal)) => format!("killed by signal {signal}{why}"),
        (status, _, _) => status.as_str().to_owned(),
    };
    let ran_out_nanos = ran_out.and_then(|mark| mark.time_nanos);
    let after = format_duration(ran_out_nanos.unwrap_or_else(|| ending.decisive_nanos()));
    match ending.recorder_death {
        Some(_) if ending.kill_nanos().is_none() => {
            format!("{how}; nilo died, recorded for {after}")
        }
        _ => format!("{how} after {after}"),
    }
}
