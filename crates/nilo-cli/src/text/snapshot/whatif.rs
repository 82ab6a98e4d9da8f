//! Peaks under other settings in words.

use std::io::Write;

use nilo_answer::snapshot::limit_problem::{LimitProblem, LimitProblemKind};
use nilo_answer::snapshot::whatif::{ReplayLimitSource, ReplayedSettings, SnapshotWhatIfAnswer};
use nilo_sample::printable::printable;
use nilo_sample::units::format_bytes;

use super::places::{counted, grouped};
use crate::screen::Screen;
use crate::text::number::format_change;
use crate::text::table::{left, right, write_table};

/// Writes the comparison, what it comes to, and what to set.
pub(crate) fn write_snapshot_whatif(
    out: &mut dyn Write,
    screen: Screen,
    answer: &SnapshotWhatIfAnswer,
) -> std::io::Result<()> {
    writeln!(
        out,
        "{}, GPU {}: {} replayed{}",
        printable(&answer.file),
        answer.device,
        counted(answer.events, "event"),
        match answer.replay_is_exact {
            true => "; under the recorded settings the replay is exact",
            false => "",
        }
    )?;
    if answer.begins_late {
        writeln!(
            out,
            "The trace begins late: blocks allocated before it are re-placed in the replay where segments work differently, so the figures are estimates."
        )?;
    }
    if answer.waiting_frees > 0 {
        writeln!(
            out,
            "{} waited for another stream, which takes as long as the GPU needs: reserved memory may differ from run to run.",
            counted(answer.waiting_frees, "free")
        )?;
    }
    if let Some(limit) = answer.limit_bytes {
        let source = match answer.limit_source {
            ReplayLimitSource::Given => "as given",
            _ => "inferred from failed allocations",
        };
        match &answer.limit_range {
            Some(range) => writeln!(
                out,
                "Limit: between {} and {} ({source}); replayed within the lower one",
                format_bytes(range.at_least_bytes as f64),
                format_bytes(range.below_bytes as f64)
            )?,
            None => writeln!(out, "Limit: {} ({source})", format_bytes(limit as f64))?,
        }
    }
    if let Some(problem) = &answer.limit_problem {
        writeln!(out, "{}", limit_problem_in_words(problem))?;
        if problem.is_certain() {
            return Ok(());
        }
    }
    writeln!(out)?;
    write_compared(out, screen, answer)?;
    writeln!(out)?;
    write_difference(out, answer)
}

fn limit_problem_in_words(problem: &LimitProblem) -> String {
    let needed = format_bytes(problem.needed_bytes as f64);
    match problem.kind {
        LimitProblemKind::SmallestSegment => format!(
            "The program would not fit: the smallest segment that it needs takes {needed}, whatever the settings."
        ),
        LimitProblemKind::InUseAtStart => {
            format!("The program would not fit: it has {needed} in use when the trace begins.")
        }
        LimitProblemKind::ReservedAtStart => format!(
            "When the trace begins, {needed} is reserved already: only a trace that starts at the first allocation can show whether the program would fit."
        ),
    }
}

fn write_compared(
    out: &mut dyn Write,
    screen: Screen,
    answer: &SnapshotWhatIfAnswer,
) -> std::io::Result<()> {
    let columns = [
        left("SETTINGS"),
        right("PEAK RESERVED"),
        right("CHANGE"),
        right("PEAK ALLOCATED").drops(1),
        right("OOMS"),
    ];
    let recorded = &answer.replayed;
    let row = |name: String, change: String, replayed: &ReplayedSettings| {
        vec![
            name,
            format_bytes(replayed.peak_reserved_bytes as f64),
            change,
            format_bytes(replayed.peak_allocated_bytes as f64),
            grouped(replayed.ooms()),
        ]
    };
    let mut rows = vec![row("as recorded".to_owned(), String::new(), recorded)];
    for tried in &answer.compared {
        let (before, after) = (recorded.peak_reserved_bytes, tried.peak_reserved_bytes);
        // Where nothing could be reserved, nothing was saved.
        let ratio = (before > 0 && after > 0).then(|| after as f64 / before as f64 - 1.0);
        rows.push(row(
            printable(&tried.configuration),
            format_change(ratio),
            tried,
        ));
    }
    write_table(out, screen, &columns, &rows).map(drop)
}

/// How much less or more, which failures would have been avoided, and what to set.
fn write_difference(out: &mut dyn Write, answer: &SnapshotWhatIfAnswer) -> std::io::Result<()> {
    let (recorded, tried) = (&answer.replayed, &answer.whatif);
    let configuration = printable(&tried.configuration);
    let before = recorded.peak_reserved_bytes;
    let after = tried.peak_reserved_bytes;
    let amount = format_bytes(before.abs_diff(after) as f64);
    match after.cmp(&before) {
        std::cmp::Ordering::Less => writeln!(
            out,
            "{amount} less would have been reserved with {configuration}."
        )?,
        std::cmp::Ordering::Equal => writeln!(
            out,
            "The same amount would have been reserved with {configuration}."
        )?,
        std::cmp::Ordering::Greater => writeln!(
            out,
            "{amount} more would have been reserved with {configuration}."
        )?,
    }
    if !tried.avoided_oom_events.is_empty() {
        writeln!(
            out,
            "Avoided: {} at {}.",
            counted(tried.avoided_oom_events.len() as u64, "failed allocation"),
            events_in_words(&tried.avoided_oom_events)
        )?;
    }
    let depends = &tried.depends_on_limit_oom_events;
    let mut remaining = tried.remaining_oom_events.clone();
    remaining.retain(|event| !depends.contains(event));
    if !remaining.is_empty() {
        writeln!(
            out,
            "Not avoided: {} at {}.",
            counted(remaining.len() as u64, "failed allocation"),
            events_in_words(&remaining)
        )?;
    }
    if let Some(range) = answer.limit_range.filter(|_| !depends.is_empty()) {
        writeln!(
            out,
            "Depends on the limit: {} at {}, avoided if the process may use almost {}, and not if it may use {} only.",
            counted(depends.len() as u64, "failed allocation"),
            events_in_words(depends),
            format_bytes(range.below_bytes as f64),
            format_bytes(range.at_least_bytes as f64)
        )?;
    }
    if tried.new_ooms > 0 {
        writeln!(
            out,
            "{} that succeeded would have failed.",
            counted(tried.new_ooms, "allocation")
        )?;
    }
    if let Some(limit) = answer.limit_bytes
        && answer.limit_source == ReplayLimitSource::Given
        && answer.limit_problem.is_none()
        && recorded.ooms() > 0
        && tried.ooms() > 0
    {
        let limit = format_bytes(limit as f64);
        return writeln!(
            out,
            "The program would not fit into {limit} with any of these settings."
        );
    }
    let is_better = !depends.is_empty() || (tried.ooms(), after) < (recorded.ooms(), before);
    match is_better {
        true => writeln!(
            out,
            "To set it: export PYTORCH_CUDA_ALLOC_CONF={configuration}"
        ),
        false => writeln!(out, "The recorded settings are as good or better."),
    }
}

fn events_in_words(events: &[u64]) -> String {
    const MOST: usize = 5;
    let named: Vec<String> = events
        .iter()
        .take(MOST)
        .map(|event| grouped(*event))
        .collect();
    let more = match events.len() > MOST {
        true => format!(" and {} more", events.len() - MOST),
        false => String::new(),
    };
    format!("event {}{more}", named.join(", "))
}
