//! Peaks under other settings in words.

use std::io::Write;

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
            "The trace begins late: what was alive before is laid out anew where segments work differently, so take the figures as estimates."
        )?;
    }
    if let Some(limit) = answer.limit_bytes {
        let source = match answer.limit_source {
            ReplayLimitSource::Given => "as given",
            _ => "as the failed allocations show",
        };
        writeln!(out, "Limit: {} ({source})", format_bytes(limit as f64))?;
    }
    writeln!(out)?;
    write_compared(out, screen, answer)?;
    writeln!(out)?;
    write_difference(out, answer)
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
        let ratio = |bytes: u64| bytes as f64 / recorded.peak_reserved_bytes.max(1) as f64 - 1.0;
        let change = format_change(Some(ratio(tried.peak_reserved_bytes)));
        rows.push(row(printable(&tried.configuration), change, tried));
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
            "Just as much would have been reserved with {configuration}."
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
    if !tried.remaining_oom_events.is_empty() {
        writeln!(
            out,
            "Not avoided: {} at {}.",
            counted(tried.remaining_oom_events.len() as u64, "failed allocation"),
            events_in_words(&tried.remaining_oom_events)
        )?;
    }
    if tried.new_ooms > 0 {
        writeln!(
            out,
            "{} that succeeded would have failed.",
            counted(tried.new_ooms, "allocation")
        )?;
    }
    let is_better = (tried.ooms(), after) < (recorded.ooms(), before);
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
