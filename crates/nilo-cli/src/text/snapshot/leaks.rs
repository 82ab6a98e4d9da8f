//! What accumulates, in words.

use std::io::Write;

use nilo_answer::snapshot::leaks::SnapshotLeaksAnswer;
use nilo_sample::printable::printable;
use nilo_sample::units::{format_bytes, format_bytes_signed};

use super::located_table::{LocatedRow, write_located};
use super::places::{counted, events_in_words, grouped, stack_in_words};
use crate::screen::Screen;
use crate::text::number::format_share;
use crate::text::table::right;

/// Writes the stacks that accumulate, or that there is none.
pub(crate) fn write_snapshot_leaks(
    out: &mut dyn Write,
    screen: Screen,
    answer: &SnapshotLeaksAnswer,
) -> std::io::Result<()> {
    let events = events_in_words(answer.events, answer.duration_secs);
    let head = format!("{}, GPU {}", printable(&answer.file), answer.device);
    let growth = format_bytes_signed(answer.growth_bytes as f64);
    if answer.stack_count == 0 {
        return writeln!(
            out,
            "{head}: nothing accumulates in {events}; the lowest level of allocated memory changed by {growth}."
        );
    }
    writeln!(
        out,
        "{head}: {} accumulated in {events}, from {}; the lowest level of allocated memory changed by {growth}",
        format_bytes(answer.accumulated_bytes as f64),
        counted(answer.stack_count, "call stack"),
    )?;
    let columns = [
        right("ALIVE"),
        right("BLOCKS").drops(2),
        right("FREED"),
        right("PER EVENT").drops(1),
        right("PER SECOND"),
    ];
    let rate = |bytes: Option<f64>| bytes.map_or("-".to_owned(), format_bytes);
    let rows: Vec<LocatedRow> = answer
        .stacks
        .iter()
        .map(|stack| {
            let figures = vec![
                format_bytes(stack.alive_bytes as f64),
                grouped(stack.alive_blocks),
                format_share(Some(stack.freed_ratio)),
                format_bytes(stack.bytes_per_event),
                rate(stack.bytes_per_sec),
            ];
            (figures, stack_in_words(&stack.stack))
        })
        .collect();
    write_located(out, screen, &columns, &rows)?;
    let left_out = answer.stack_count - answer.stacks.len() as u64;
    match left_out {
        0 => Ok(()),
        more => writeln!(
            out,
            "{} more: --stacks {}",
            grouped(more),
            answer.stack_count
        ),
    }
}
