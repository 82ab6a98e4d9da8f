//! What the rules recommend, and what was tried, in words.

use std::io::Write;

use nilo_advice::{AdviceConfidence, Recommendation, SavedResource};
use nilo_analysis::Summary;
use nilo_sample::Optimization;
use nilo_sample::printable::printable;
use nilo_sample::units::{format_bytes, format_duration};

use crate::text::one_line::one_line;
use crate::text::run_commands::{CommandOfRun, with_commands};

/// How many recommendations the summary has.
const FEW: usize = 3;
/// Names and notes come from the program.
const NAME_CHARS: usize = 60;
const NOTE_CHARS: usize = 200;

/// The best recommendations that no finding has told already, and what was tried.
pub(crate) fn write_advice(
    out: &mut dyn Write,
    summary: &Summary,
    command: CommandOfRun<'_>,
) -> std::io::Result<()> {
    let further: Vec<&Recommendation> = summary.further_recommendations().collect();
    if !further.is_empty() {
        writeln!(out, "Recommendations:")?;
    }
    for said in further.iter().take(FEW) {
        writeln!(
            out,
            "  {} ({})",
            printable(&said.text),
            saving_in_words(said)
        )?;
        let change = with_commands(&said.change, command);
        writeln!(out, "    - {}", printable(&change))?;
    }
    if further.len() > FEW {
        let all = command("optimize");
        writeln!(out, "  and {} more: {all}", further.len() - FEW)?;
    }
    if !summary.optimizations.is_empty() {
        writeln!(out, "Optimizations that were tried:")?;
    }
    for tried in &summary.optimizations {
        writeln!(out, "  {}", optimization_in_words(tried))?;
    }
    Ok(())
}

/// What a recommendation is expected to do.
pub(crate) fn saving_in_words(said: &Recommendation) -> String {
    let Some(saving) = said.saving else {
        return "prevents an error".to_owned();
    };
    let of = match saving.of {
        SavedResource::GpuMemory => "GPU memory",
        SavedResource::HostMemory => "memory",
        SavedResource::StepTime => "the time of a step",
        SavedResource::LongestPause => "the longest pause",
    };
    // Less than one in a hundred is said in bytes alone.
    let told = saving.ratio.filter(|ratio| *ratio >= 0.01);
    let ratio = told.map(|ratio| format!("{:.0} %", 100.0 * ratio));
    let bytes = saving.bytes.map(|bytes| format_bytes(bytes as f64));
    match (bytes, ratio) {
        (Some(bytes), Some(ratio)) => format!("saves about {bytes} of {of}, {ratio} of it"),
        (Some(bytes), None) => format!("saves about {bytes} of {of}"),
        (None, Some(ratio)) => format!("saves about {ratio} of {of}"),
        (None, None) => format!("saves some of {of}"),
    }
}

pub(crate) fn confidence_in_words(confidence: AdviceConfidence) -> &'static str {
    match confidence {
        AdviceConfidence::Low => "low confidence",
        AdviceConfidence::Medium => "medium confidence",
        AdviceConfidence::High => "high confidence",
    }
}

/// `checkpoint plan: 3.76 GiB → 2.09 GiB (−44 %), measured`.
pub(crate) fn optimization_in_words(tried: &Optimization) -> String {
    let bytes = tried
        .before_bytes
        .zip(tried.after_bytes)
        .map(|pair| change(pair, format_bytes));
    let seconds = |secs: f64| format_duration((secs.max(0.0) * 1e9) as u64);
    let time = tried.before_seconds.zip(tried.after_seconds);
    let time = time.map(|pair| format!("step {}", change(pair, seconds)));
    let figures: Vec<String> = bytes.into_iter().chain(time).collect();
    let mut parts = Vec::new();
    if !figures.is_empty() {
        let how = match tried.measured.is_empty() {
            true => "measured".to_owned(),
            false => format!("measured ({})", one_line(&tried.measured, NAME_CHARS)),
        };
        parts.extend(figures);
        parts.push(how);
    }
    let outcome = match (tried.applied, parts.is_empty()) {
        (true, true) => Some("applied, not measured"),
        (true, false) => None,
        (false, _) => Some("not applied"),
    };
    parts.extend(outcome.map(str::to_owned));
    let note = match tried.note.is_empty() {
        true => String::new(),
        false => format!("; {}", one_line(&tried.note, NOTE_CHARS)),
    };
    format!(
        "{}: {}{note}",
        one_line(&tried.name, NAME_CHARS),
        parts.join(", ")
    )
}

fn change((before, after): (f64, f64), format: impl Fn(f64) -> String) -> String {
    let share = match before > 0.0 {
        true => {
            let percent = 100.0 * (after - before) / before;
            // A true minus, as wide as the plus.
            let sign = if percent < 0.0 { "−" } else { "+" };
            format!(" ({sign}{:.0} %)", percent.abs())
        }
        false => String::new(),
    };
    format!("{} → {}{share}", format(before), format(after))
}

#[cfg(test)]
mod tests {
    use nilo_advice::Saving;

    use super::*;

    fn tried(before: Option<f64>, after: Option<f64>) -> Optimization {
        Optimization {
            name: "checkpoint plan".to_owned(),
            applied: true,
            before_bytes: before.map(|gib| gib * 1073741824.0),
            after_bytes: after.map(|gib| gib * 1073741824.0),
            ..Optimization::default()
        }
    }

    #[test]
    fn a_saving_says_how_much_of_what() {
        let said = |of, bytes, ratio| {
            let saving = Some(Saving { of, bytes, ratio });
            saving_in_words(&Recommendation {
                rule: "some-rule",
                text: String::new(),
                change: String::new(),
                evidence: Vec::new(),
                saving,
                confidence: AdviceConfidence::High,
                source: "",
            })
        };
        let (gpu, host) = (SavedResource::GpuMemory, SavedResource::HostMemory);
        assert_eq!(
            said(gpu, Some(2048), Some(0.25)),
            "saves about 2.00 KiB of GPU memory, 25 % of it"
        );
        assert_eq!(
            said(host, Some(2048), Some(0.001)),
            "saves about 2.00 KiB of memory"
        );
        assert_eq!(
            said(SavedResource::StepTime, None, Some(0.4)),
            "saves about 40 % of the time of a step"
        );
        assert_eq!(
            said(SavedResource::LongestPause, None, None),
            "saves some of the longest pause"
        );
    }

    #[test]
    fn an_optimization_is_one_line() {
        let plan = tried(Some(3.76), Some(2.09));
        assert_eq!(
            optimization_in_words(&plan),
            "checkpoint plan: 3.76 GiB → 2.09 GiB (−44 %), measured"
        );
        let slower = Optimization {
            before_seconds: Some(0.1),
            after_seconds: Some(0.125),
            measured: "peak of a step,\nCUDA allocator".to_owned(),
            applied: false,
            note: "gradients differ".to_owned(),
            ..plan
        };
        assert_eq!(
            optimization_in_words(&slower),
            "checkpoint plan: 3.76 GiB → 2.09 GiB (−44 %), step 100 ms → 125 ms (+25 %), measured (peak of a step, CUDA allocator), not applied; gradients differ"
        );
        assert_eq!(
            optimization_in_words(&tried(None, Some(1.0))),
            "checkpoint plan: applied, not measured"
        );
        assert_eq!(
            optimization_in_words(&tried(Some(0.0), Some(1.0))),
            "checkpoint plan: 0 B → 1.00 GiB, measured"
        );
    }
}
