//! Failed allocations in words.

use std::io::Write;

use nilo_answer::snapshot::pinned_segments::{PinnedByStack, PinnedSegmentReport};
use nilo_answer::snapshot::why::{ExplainedOom, OomCause, OomLimit, SnapshotWhyAnswer};
use nilo_sample::printable::printable;
use nilo_sample::units::format_bytes;

use super::located_table::{LocatedRow, write_located};
use super::places::{counted, event_in_words, grouped, stack_in_words};
use super::summary::{write_holders, write_parts};
use crate::screen::Screen;
use crate::text::table::right;

/// Writes each failed allocation.
pub(crate) fn write_snapshot_why(
    out: &mut dyn Write,
    screen: Screen,
    answer: &SnapshotWhyAnswer,
) -> std::io::Result<()> {
    let file = printable(&answer.file);
    if answer.ooms.is_empty() {
        return writeln!(out, "{file}: no allocation failed.");
    }
    let shown = answer.ooms.len() as u64;
    let which = match shown == answer.oom_events {
        true => String::new(),
        false => format!(", the last {} explained", grouped(shown)),
    };
    let failed = counted(answer.oom_events, "failed allocation");
    writeln!(out, "{file}: {failed}{which}")?;
    for oom in &answer.ooms {
        writeln!(out)?;
        write_oom(out, screen, oom)?;
    }
    Ok(())
}

fn write_oom(out: &mut dyn Write, screen: Screen, oom: &ExplainedOom) -> std::io::Result<()> {
    writeln!(out, "GPU {} at {}", oom.device, oom_title(oom))?;
    for sentence in oom_sentences(oom) {
        writeln!(out, "{sentence}")?;
    }
    for advice in &oom.advice {
        writeln!(out, "Advice: {}", printable(advice))?;
    }
    writeln!(out, "\nReserved bytes at that moment:")?;
    write_parts(out, screen, &oom.parts)?;
    if let Some(pinned) = &oom.pinned_segment {
        write_pinned(out, screen, pinned)?;
    }
    if !oom.pinned_by.is_empty() {
        writeln!(out, "\nBlocks pinning partly free segments:")?;
        write_pinned_by(out, screen, &oom.pinned_by)?;
        if let Some(note) = pinned_note(oom) {
            writeln!(out, "{note}")?;
        }
    }
    if !oom.holders.is_empty() {
        writeln!(out, "\nAllocated bytes by call stack:")?;
        write_holders(out, screen, &oom.holders)?;
    }
    Ok(())
}

/// When, how much, by whom.
pub(crate) fn oom_title(oom: &ExplainedOom) -> String {
    format!(
        "{}: {} requested by {}",
        event_in_words(&oom.moment),
        format_bytes(oom.asked_bytes as f64),
        stack_in_words(&oom.request)
    )
}

/// Why it failed, and what would have served it.
pub(crate) fn oom_sentences(oom: &ExplainedOom) -> Vec<String> {
    let bytes = |bytes: u64| format_bytes(bytes as f64);
    let limit = match oom.limited_by {
        OomLimit::Process => format!(
            "the process's own (the device had {} free)",
            bytes(oom.device_free_bytes)
        ),
        OomLimit::Device => format!(
            "the device, which had {} free of the {} requested from it",
            bytes(oom.device_free_bytes),
            bytes(oom.asked_from_driver_bytes)
        ),
    };
    let fits = if oom.fits_defragmented { "yes" } else { "no" };
    let served = match (oom.expandable_segments_would_serve, oom.depends_on_limit) {
        (Some(true), _) => "yes".to_owned(),
        (Some(false), _) => "no".to_owned(),
        (None, Some(range)) => format!(
            "depends on the process's limit, which lies between {} and {}",
            bytes(range.at_least_bytes),
            bytes(range.below_bytes)
        ),
        (None, None) => "already on".to_owned(),
    };
    vec![
        format!("Cause: {}", cause_in_words(oom)),
        format!("Limit: {limit}"),
        format!(
            "Largest usable free block: {} of {} free in its pool and stream",
            bytes(oom.largest_eligible_bytes),
            bytes(oom.eligible_free_bytes)
        ),
        format!("Would fit without fragmentation: {fits}"),
        format!("Succeeds with expandable_segments (replayed): {served}"),
    ]
}

/// What is to be known of the free bytes that stacks keep, where they add up to more than there is.
pub(crate) fn pinned_note(oom: &ExplainedOom) -> Option<String> {
    let kept = oom.pinned_by.iter().map(|stack| stack.kept_free_bytes);
    let stranded = oom.parts.stranded_bytes;
    (kept.sum::<u64>() > stranded).then(|| {
        format!(
            "Segments with blocks of several call stacks are counted for each, so the rows add up to more than the {} stranded.",
            format_bytes(stranded as f64)
        )
    })
}

fn cause_in_words(oom: &ExplainedOom) -> String {
    let free = format_bytes(oom.parts.free_bytes() as f64);
    match oom.cause {
        OomCause::Accumulation => format!(
            "{} of the {} allocated had accumulated over the trace; {free} of the reserved memory was free",
            format_bytes(oom.accumulated_bytes as f64),
            format_bytes(oom.parts.allocated_bytes as f64)
        ),
        OomCause::Fragmentation => format!(
            "fragmentation: {free} of the reserved memory was free, but in pieces of at most {}",
            format_bytes(oom.largest_eligible_bytes as f64)
        ),
        OomCause::PendingFrees => format!(
            "{} had been freed but was still in use by other streams; {free} was free",
            format_bytes(oom.parts.pending_bytes as f64)
        ),
        OomCause::TooMuchInUse => format!(
            "too much in use: {} allocated, {free} of the reserved memory free",
            format_bytes(oom.parts.allocated_bytes as f64)
        ),
    }
}

fn write_pinned(
    out: &mut dyn Write,
    screen: Screen,
    pinned: &PinnedSegmentReport,
) -> std::io::Result<()> {
    writeln!(
        out,
        "\nA segment of {} would have been large enough; it was pinned by {} ({}):",
        format_bytes(pinned.segment_bytes as f64),
        counted(pinned.pinned_blocks, "block"),
        format_bytes(pinned.pinned_bytes as f64)
    )?;
    write_holders(out, screen, &pinned.stacks)
}

fn write_pinned_by(
    out: &mut dyn Write,
    screen: Screen,
    stacks: &[PinnedByStack],
) -> std::io::Result<()> {
    let columns = [
        right("FREE BYTES KEPT"),
        right("SEGMENTS"),
        right("BLOCKS").drops(2),
        right("THEIR BYTES").drops(1),
    ];
    let rows: Vec<LocatedRow> = stacks
        .iter()
        .map(|stack| {
            let figures = vec![
                format_bytes(stack.kept_free_bytes as f64),
                grouped(stack.segments),
                grouped(stack.blocks),
                format_bytes(stack.bytes as f64),
            ];
            (figures, stack_in_words(&stack.stack))
        })
        .collect();
    write_located(out, screen, &columns, &rows)
}
