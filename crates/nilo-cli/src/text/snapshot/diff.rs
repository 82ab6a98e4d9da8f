//! Two snapshots in words.

use std::io::Write;

use nilo_answer::snapshot::diff::{ComparedSnapshot, SnapshotDiffAnswer};
use nilo_sample::printable::printable;
use nilo_sample::units::{format_bytes, format_bytes_signed};

use super::located_table::{LocatedRow, write_located};
use super::places::{grouped, stack_in_words, when_in_words};
use crate::screen::Screen;
use crate::text::table::{left, right, write_table};

/// Writes the totals and the stacks that changed.
pub(crate) fn write_snapshot_diff(
    out: &mut dyn Write,
    screen: Screen,
    answer: &SnapshotDiffAnswer,
) -> std::io::Result<()> {
    write_side(out, "Before", &answer.before)?;
    write_side(out, "After", &answer.after)?;
    let columns = [
        left("PEAK"),
        right("BEFORE"),
        right("AFTER"),
        right("CHANGE"),
    ];
    let row = |name: &str, before: u64, after: u64, change: i64| {
        vec![
            name.to_owned(),
            format_bytes(before as f64),
            format_bytes(after as f64),
            format_bytes_signed(change as f64),
        ]
    };
    let (before, after) = (&answer.before, &answer.after);
    let rows = [
        row(
            "allocated",
            before.peak_allocated_bytes,
            after.peak_allocated_bytes,
            answer.peak_allocated_change_bytes,
        ),
        row(
            "reserved",
            before.peak_reserved_bytes,
            after.peak_reserved_bytes,
            answer.peak_reserved_change_bytes,
        ),
    ];
    writeln!(out)?;
    write_table(out, screen, &columns, &rows)?;
    writeln!(out)?;
    write_stacks(out, screen, answer)
}

fn write_side(out: &mut dyn Write, name: &str, compared: &ComparedSnapshot) -> std::io::Result<()> {
    writeln!(
        out,
        "{name}: {}, GPU {}, most allocated {}",
        printable(&compared.file),
        compared.device,
        when_in_words(&compared.peak_allocated_at)
    )
}

fn write_stacks(
    out: &mut dyn Write,
    screen: Screen,
    answer: &SnapshotDiffAnswer,
) -> std::io::Result<()> {
    if answer.changed_stacks == 0 {
        return writeln!(out, "Every call stack holds the same at both peaks.");
    }
    writeln!(
        out,
        "Allocated bytes at the peaks by call stack, largest change first ({} of {}, {} more without a change):",
        answer.stacks.len(),
        grouped(answer.changed_stacks),
        grouped(answer.unchanged_stacks)
    )?;
    let columns = [right("CHANGE"), right("BEFORE"), right("AFTER")];
    let rows: Vec<LocatedRow> = answer
        .stacks
        .iter()
        .map(|stack| {
            let figures = vec![
                format_bytes_signed(stack.change_bytes as f64),
                format_bytes(stack.before_bytes as f64),
                format_bytes(stack.after_bytes as f64),
            ];
            (figures, stack_in_words(&stack.stack))
        })
        .collect();
    write_located(out, screen, &columns, &rows)
}
