//! What would make a training fit, in words.

use std::io::Write;

use nilo_answer::optimize::{OptimizeAnswer, OptimizeMode, UnansweredSubject};
use nilo_sample::printable::printable;
use nilo_sample::units::format_bytes;

use crate::text::advice::{confidence_in_words, optimization_in_words, saving_in_words};
use crate::text::one_line::one_line;
use crate::text::run_commands::{CommandOfRun, with_commands};

const NAME_CHARS: usize = 60;
const FAILURE_CHARS: usize = 200;

/// Writes what is expected, what was measured, and what was not looked at.
pub(crate) fn write_optimize(
    out: &mut dyn Write,
    answer: &OptimizeAnswer,
    command: CommandOfRun<'_>,
) -> std::io::Result<()> {
    let title = title(answer);
    if let Some(failure) = failure(answer) {
        writeln!(out, "{failure}")?;
    }
    if let Some(memory) = memory_in_words(answer) {
        writeln!(out, "{memory}")?;
    }
    if answer.recommendations.is_empty() {
        writeln!(out, "{}", nothing(answer))?;
    } else {
        writeln!(
            out,
            "Recommendations for {title}, best first; savings are expected, not measured:"
        )?;
    }
    for (number, said) in answer.recommendations.iter().enumerate() {
        writeln!(out, "{}. {}", number + 1, printable(&said.text))?;
        let confidence = confidence_in_words(said.confidence);
        writeln!(out, "   {} ({confidence})", saving_in_words(said))?;
        for evidence in &said.evidence {
            writeln!(out, "   - {}", printable(evidence))?;
        }
        let change = with_commands(&said.change, command);
        writeln!(out, "   change: {}", printable(&change))?;
        writeln!(out, "   source: {} [{}]", said.source, said.rule)?;
    }
    if answer.left_out > 0 {
        let full = command("optimize --mode full");
        writeln!(out, "{} more: {full}", answer.left_out)?;
    }
    if !answer.optimizations.is_empty() {
        writeln!(out, "Tried in this run, measured before and after:")?;
    }
    for tried in &answer.optimizations {
        writeln!(out, "  {}", optimization_in_words(tried))?;
    }
    match not_looked_at(&answer.not_looked_at) {
        Some(line) => writeln!(out, "{line}"),
        None => Ok(()),
    }
}

/// The run by its name.
pub(crate) fn title(answer: &OptimizeAnswer) -> String {
    one_line(answer.name.as_deref().unwrap_or(&answer.run), NAME_CHARS)
}

/// That the run failed: what is said of it rests on the part that was recorded.
pub(crate) fn failure(answer: &OptimizeAnswer) -> Option<String> {
    let failure = answer.failure.as_deref()?;
    Some(format!(
        "This run failed ({}); results cover the recorded part only.",
        one_line(failure, FAILURE_CHARS)
    ))
}

/// The peak against the limit: `Memory: peak 1.25 GiB, 16 % of the limit of 8.00 GiB used`.
pub(crate) fn memory_in_words(answer: &OptimizeAnswer) -> Option<String> {
    let peak = format_bytes(answer.peak_bytes? as f64);
    let limit = answer.limit_bytes.filter(|limit| *limit > 0);
    let Some(limit) = limit else {
        return Some(format!("Memory: peak {peak}, no limit known"));
    };
    let in_words = format_bytes(limit as f64);
    Some(match answer.limit_used_bytes {
        Some(used) => {
            let percent = 100.0 * used as f64 / limit as f64;
            format!("Memory: peak {peak}, {percent:.0} % of the limit of {in_words} used")
        }
        None => format!("Memory: peak {peak}, limit {in_words}"),
    })
}

/// Said where no rule speaks.
pub(crate) fn nothing(answer: &OptimizeAnswer) -> String {
    let about = match answer.mode {
        OptimizeMode::Training => "the training of ",
        OptimizeMode::Full | OptimizeMode::Quick => "",
    };
    let budget = answer.budget_bytes.map_or(String::new(), |bytes| {
        format!(" within the budget of {}", format_bytes(bytes))
    });
    format!("No recommendations for {about}{}{budget}.", title(answer))
}

/// What could be measured, in one line.
pub(crate) fn not_looked_at(subjects: &[UnansweredSubject]) -> Option<String> {
    let names: Vec<String> = subjects
        .iter()
        .map(|subject| match subject.silent_rules.len() as u64 {
            silent if silent == subject.all_rules => subject.subject.to_owned(),
            silent => format!(
                "{} ({silent} of {} rules)",
                subject.subject, subject.all_rules
            ),
        })
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "not measured: {}; use nilometer.optimize to measure it",
            names.join(", ")
        )
    })
}
