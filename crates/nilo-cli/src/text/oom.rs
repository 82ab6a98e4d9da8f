//! Warnings of running out of memory: a block for each danger, a line for everything else.

use std::io::{Result, Write};

use nilo_analysis::HandledGpuFailures;
use nilo_analysis::assessment::{RanOut, RanOutKind, is_leak, prediction_in_words};
use nilo_analysis::tracking::{Resource, ResourceVerdict};
use nilo_answer::diagnosis::{Diagnosis, DiagnosisSource, PastWarning};
use nilo_answer::oom::ResourceRisk;
use nilo_forecast::words::time_left;
use nilo_sample::units::to_secs;
use nilo_sample::words::{bytes_in_words, clock_time, duration_in_words};
use nilo_sample::{Ending, RunStatus, Severity};

use crate::screen::Screen;
use crate::text::one_line::one_line;

/// How a warning begins.
const WARNING: &str = "[WARNING]";
const NAME_CHARS: usize = 80;
const REASON_CHARS: usize = 300;

/// Writes everything.
pub(crate) fn write_diagnosis(
    out: &mut dyn Write,
    diagnosis: &Diagnosis,
    risks: &[ResourceRisk],
    handled: Option<&HandledGpuFailures>,
) -> Result<()> {
    writeln!(out, "{}", heading(diagnosis))?;
    if let Some(handled) = handled {
        writeln!(out)?;
        write_handled_failures(out, handled)?;
    }
    for risk in risks.iter().filter(|risk| risk.is_warning()) {
        writeln!(out)?;
        write_warning(out, risk)?;
        write_history(out, risk, diagnosis)?;
    }
    let mut calm = risks.iter().filter(|risk| !risk.is_warning()).peekable();
    if calm.peek().is_some() {
        writeln!(out)?;
    }
    for risk in calm {
        let name = one_line(&risk.assessment.name, NAME_CHARS);
        writeln!(out, "{name}: {}", calm_line(risk))?;
        write_history(out, risk, diagnosis)?;
    }
    let is_run = matches!(diagnosis.source, DiagnosisSource::Run { .. });
    if is_run && risks.iter().any(|risk| !risk.history.is_empty()) {
        writeln!(out)?;
        writeln!(
            out,
            "Predictions are computed from the recording, whether or not an alert was sent; `nilo show` lists the alerts."
        )?;
    }
    let unlimited = |risk: &ResourceRisk| risk.assessment.used_percent.is_none();
    if diagnosis.source.is_file() && risks.iter().any(unlimited) {
        writeln!(out)?;
        writeln!(
            out,
            "Predicting when memory runs out needs a limit; set one with --limit SIZE."
        )?;
    }
    Ok(())
}

/// The block of allocations that failed while the program went on.
fn write_handled_failures(out: &mut dyn Write, handled: &HandledGpuFailures) -> Result<()> {
    let label = Screen::stdout().paint(Severity::Warning.as_str(), WARNING);
    let what = one_line(&handled.to_string(), REASON_CHARS);
    writeln!(out, "{label} {what}")?;
    for advice in handled.cause.iter().flat_map(|cause| &cause.advice) {
        writeln!(out, "   Recommendation: {advice}")?;
    }
    match &handled.cause {
        Some(cause) => writeln!(out, "   Reason: {}", one_line(&cause.text, REASON_CHARS)),
        None => Ok(()),
    }
}

/// What was judged, and at which moment.
pub(crate) fn heading(diagnosis: &Diagnosis) -> String {
    let after = duration_in_words(to_secs(diagnosis.end_nanos));
    match &diagnosis.source {
        DiagnosisSource::Run { id, name, ending } => {
            let label = one_line(name.as_deref().unwrap_or(id), NAME_CHARS);
            match ending.status {
                RunStatus::Running => format!("{label}: running for {after}"),
                _ => format!(
                    "{label}: {}; {}:",
                    end_in_words(ending, diagnosis.ran_out.as_ref()),
                    judged_moment(diagnosis)
                ),
            }
        }
        DiagnosisSource::Live { label, is_over } => {
            let ended = if *is_over { "ended, " } else { "" };
            format!("{label}: {ended}monitored for {after}")
        }
        DiagnosisSource::File { path, tool } => {
            format!("{} ({tool}); at its end:", one_line(path, REASON_CHARS))
        }
    }
}

/// The moment that verdicts on a finished run are about.
fn judged_moment(diagnosis: &Diagnosis) -> String {
    match diagnosis.memory_until_nanos() {
        Some(nanos) => {
            let until = duration_in_words(to_secs(nanos));
            format!("memory recorded for the first {until} only; at that point")
        }
        None => "at its end".to_owned(),
    }
}

/// `exited after 78 seconds`, `exited with 1, out of memory after 78 seconds`; where the kernel killed a process of the job and the command went on, both.
fn end_in_words(ending: &Ending, ran_out: Option<&RanOut>) -> String {
    let after = |nanos: u64| duration_in_words(to_secs(nanos));
    let status = ending.status.as_str();
    let decided = match ran_out {
        Some(ran_out) => ran_out.decisive_nanos(ending),
        None => ending.decisive_nanos(),
    };
    let decided = after(decided);
    match (ending.status, ending.exit_code) {
        (RunStatus::OomKilled, Some(code)) => {
            let end = after(ending.time_nanos);
            format!("{status} after {decided}; the command itself exited with {code} after {end}")
        }
        _ if ending.recorder_death.is_some() && ending.kill_nanos().is_none() => {
            format!("{status}; nilo itself died, and the recording stops after {decided}")
        }
        (RunStatus::GpuOutOfMemory, Some(code)) => {
            format!("GPU out of memory after {decided}, exited with {code}")
        }
        (RunStatus::Exited, Some(code)) if ran_out.is_some() => {
            format!("exited with {code}, out of memory after {decided}")
        }
        (RunStatus::Killed, _) if ran_out.is_some() => {
            format!("{status}, out of memory after {decided}")
        }
        _ => format!("{status} after {decided}"),
    }
}

/// The block of one warning.
pub(crate) fn write_warning(out: &mut dyn Write, risk: &ResourceRisk) -> Result<()> {
    let block = risk
        .assessment
        .warning_text(|text| one_line(text, REASON_CHARS));
    let severity = risk.severity().unwrap_or(Severity::Warning);
    match block.strip_prefix(WARNING) {
        Some(rest) => {
            let label = Screen::stdout().paint(severity.as_str(), WARNING);
            writeln!(out, "{label}{rest}")
        }
        None => writeln!(out, "{block}"),
    }
}

fn calm_line(risk: &ResourceRisk) -> String {
    let (verdict, assessment) = (&risk.verdict, &risk.assessment);
    let (Some(percent), Some(limit)) = (assessment.used_percent, verdict.reading.limit_bytes)
    else {
        let level = bytes_in_words(verdict.reading.needed_bytes());
        // Where only the machine limits a job, the line about the machine says the rest.
        return match verdict.resource {
            Resource::Job => format!("{level}, no limit of its own"),
            _ => format!("{level}, no known limit"),
        };
    };
    let level = assessment.level.as_str();
    let limit = bytes_in_words(limit);
    let reading = &verdict.reading;
    let used = match reading.job_bytes.filter(|_| reading.is_shared) {
        Some(own) => {
            let own = bytes_in_words(own);
            format!(
                "{level} risk, its cgroup at {percent:.1}% of {limit}, of which its processes hold {own}"
            )
        }
        None => format!("{level} risk, {percent:.1}% of {limit}"),
    };
    match &assessment.prediction {
        Some(prediction) => {
            let left = prediction_in_words(prediction);
            let reason = one_line(&assessment.reason, REASON_CHARS);
            let confidence = prediction.confidence;
            format!("{used}, full {left} with a confidence of {confidence:.2}: {reason}")
        }
        None if verdict.too_young_to_forecast => {
            let samples = samples_in_words(verdict);
            format!("{used}, too short for a forecast ({samples})")
        }
        None if verdict.forecast.seconds.is_some() => {
            format!("{used}, no reliable trend towards the limit")
        }
        // `nilo leak` tells of it.
        None if is_leak(verdict.growth.as_ref()) => {
            format!("{used}, no trend towards the limit: leaked memory was freed at the end")
        }
        // `nilo leak` tells of the same growth.
        None if verdict.growth_ahead.is_some() => {
            format!("{used}, {}", one_line(&assessment.reason, REASON_CHARS))
        }
        None => format!("{used}, no trend towards the limit"),
    }
}

/// `3 samples over 0.2 seconds`.
pub(crate) fn samples_in_words(verdict: &ResourceVerdict) -> String {
    match verdict.readings {
        1 => "1 sample".to_owned(),
        readings => {
            let secs = duration_in_words(verdict.told_secs());
            format!("{readings} samples over {secs}")
        }
    }
}

fn write_history(out: &mut dyn Write, risk: &ResourceRisk, diagnosis: &Diagnosis) -> Result<()> {
    for warned in &risk.history {
        writeln!(out, "   Predicted: {}", history_line(warned, diagnosis))?;
    }
    Ok(())
}

fn history_line(warned: &PastWarning, diagnosis: &Diagnosis) -> String {
    let until = diagnosis.decisive_nanos();
    let passed = duration_in_words(to_secs(until.saturating_sub(warned.at_nanos)));
    let when = match (diagnosis.source.is_running(), &diagnosis.ran_out) {
        (true, _) => format!("{passed} ago"),
        (false, Some(ran_out))
            if ran_out.kind == RanOutKind::OomKill && ran_out.time_nanos.is_some() =>
        {
            format!("{passed} before the kill")
        }
        (false, Some(ran_out)) if ran_out.kind != RanOutKind::OomKill => {
            format!("{passed} before the allocation failed")
        }
        (false, _) => format!("{passed} before the end"),
    };
    let level = warned.forecast.level.as_str();
    let left = time_left(&warned.forecast).map_or(String::new(), |left| format!(", full {left}"));
    // The prediction, not the warning: a level above its threshold is one without any prediction.
    let withdrawn = warned.cleared_nanos.map_or(String::new(), |nanos| {
        format!("; withdrawn at {}", clock_time(nanos))
    });
    let at = clock_time(warned.at_nanos);
    format!("at {at}, {when}: {level}{left}{withdrawn}")
}
