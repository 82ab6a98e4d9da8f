//! The peaks of snapshots in words.

use std::io::Write;

use nilo_answer::snapshot::call_stack::HeldByStack;
use nilo_answer::snapshot::held_by::{HeldByCategory, HeldByPhase};
use nilo_answer::snapshot::memory_category::{CategoryEvidence, MemoryCategory};
use nilo_answer::snapshot::reserved_parts::ReservedParts;
use nilo_answer::snapshot::settings_text::SnapshotSettings;
use nilo_answer::snapshot::summary::{
    MemoryAtPeak, SnapshotSummaryAnswer, SummarizedDevice, SummarizedSnapshot,
};
use nilo_sample::printable::printable;
use nilo_sample::units::format_bytes;

use super::located_table::{LocatedRow, write_located};
use super::places::{events_in_words, grouped, stack_in_words, when_in_words};
use crate::screen::Screen;
use crate::text::number::format_share;
use crate::text::one_line::one_line;
use crate::text::table::{left, right, write_table};

/// Phases that are printed; JSON has all of them.
const MOST_PHASES: usize = 10;
/// The name of a phase.
const PHASE_CHARS: usize = 60;

/// Writes the summary; of several files a table first, then the one that reserved most.
pub(crate) fn write_snapshot_summary(
    out: &mut dyn Write,
    screen: Screen,
    answer: &SnapshotSummaryAnswer,
) -> std::io::Result<()> {
    let rows: usize = answer.snapshots.iter().map(|one| one.devices.len()).sum();
    if rows > 1 {
        write_ranks(out, screen, answer)?;
        writeln!(out)?;
    }
    let Some(snapshot) = answer.snapshots.first() else {
        return Ok(());
    };
    match snapshot.devices.first() {
        Some(device) => write_device(out, screen, snapshot, device),
        None => Ok(()),
    }
}

fn write_ranks(
    out: &mut dyn Write,
    screen: Screen,
    answer: &SnapshotSummaryAnswer,
) -> std::io::Result<()> {
    let columns = [
        left("FILE"),
        right("GPU"),
        right("PEAK RESERVED"),
        right("PEAK ALLOCATED"),
        right("STRANDED").drops(1),
        right("OOMS"),
        right("EVENTS").drops(2),
    ];
    let mut rows = Vec::new();
    for snapshot in &answer.snapshots {
        for device in &snapshot.devices {
            rows.push(vec![
                printable(&snapshot.file),
                device.device.to_string(),
                format_bytes(device.peak_reserved_bytes as f64),
                format_bytes(device.peak_allocated_bytes as f64),
                format_bytes(device.at_peak_reserved.parts.stranded_bytes as f64),
                device.oom_events.to_string(),
                grouped(device.events),
            ]);
        }
    }
    write_table(out, screen, &columns, &rows).map(drop)
}

fn write_device(
    out: &mut dyn Write,
    screen: Screen,
    snapshot: &SummarizedSnapshot,
    device: &SummarizedDevice,
) -> std::io::Result<()> {
    writeln!(
        out,
        "{}, GPU {}: {}",
        printable(&snapshot.file),
        device.device,
        events_in_words(device.events, device.duration_secs)
    )?;
    if device.begins_late {
        writeln!(
            out,
            "The trace begins late: what was allocated before is counted, earlier peaks are not in it."
        )?;
    }
    write_peak(
        out,
        "allocated",
        device.peak_allocated_bytes,
        &device.at_peak_allocated,
    )?;
    write_peak(
        out,
        "reserved",
        device.peak_reserved_bytes,
        &device.at_peak_reserved,
    )?;
    let ooms = match device.oom_events {
        0 => "none".to_owned(),
        number => format!("{}; `nilo snapshot why` explains them", grouped(number)),
    };
    writeln!(out, "Failed allocations: {ooms}")?;
    writeln!(out, "Settings: {}", settings_in_words(&snapshot.settings))?;
    writeln!(out, "\nReserved bytes at the peak of reserved memory:")?;
    write_parts(out, screen, &device.at_peak_reserved.parts)?;
    if let Some(free) = device.notable_free_bytes() {
        writeln!(
            out,
            "{} of it was free; `nilo snapshot whatif` compares settings that may reserve less.",
            format_bytes(free as f64)
        )?;
    }
    write_kinds(out, screen, device)?;
    if !snapshot.has_stacks {
        return writeln!(
            out,
            "\nNo call stacks were recorded; _record_memory_history(context=\"all\") records them."
        );
    }
    if device.stacks.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nAllocated bytes at their peak, by call stack ({} of {}):",
        device.stacks.len(),
        device.stack_count
    )?;
    write_holders(out, screen, &device.stacks)
}

/// What the allocated bytes were, and what the program was doing when it allocated them; nothing where nothing tells.
fn write_kinds(
    out: &mut dyn Write,
    screen: Screen,
    device: &SummarizedDevice,
) -> std::io::Result<()> {
    let is_known = |held: &HeldByCategory| held.category != MemoryCategory::Unknown;
    if device.categories.iter().any(is_known) {
        writeln!(out, "\nAllocated bytes at their peak, by category:")?;
        let columns = [
            left("CATEGORY"),
            right("BYTES"),
            right("SHARE"),
            right("BLOCKS").drops(1),
            left("DECIDED BY"),
        ];
        let rows: Vec<Vec<String>> = device.categories.iter().map(category_row).collect();
        write_table(out, screen, &columns, &rows)?;
    }
    let is_named = |held: &HeldByPhase| held.phase.is_some();
    if device.phases.iter().any(is_named) {
        writeln!(
            out,
            "\nAllocated bytes at their peak, by annotation at allocation:"
        )?;
        let columns = [
            left("PHASE"),
            right("BYTES"),
            right("SHARE"),
            right("BLOCKS").drops(1),
        ];
        let rows: Vec<Vec<String>> = device
            .phases
            .iter()
            .take(MOST_PHASES)
            .map(|held| {
                let phase = held.phase.as_deref().unwrap_or("(no annotation)");
                vec![
                    one_line(phase, PHASE_CHARS),
                    format_bytes(held.bytes as f64),
                    format_share(Some(held.share_ratio)),
                    grouped(held.blocks),
                ]
            })
            .collect();
        write_table(out, screen, &columns, &rows)?;
    }
    Ok(())
}

fn category_row(held: &HeldByCategory) -> Vec<String> {
    vec![
        category_in_words(held.category).to_owned(),
        format_bytes(held.bytes as f64),
        format_share(Some(held.share_ratio)),
        grouped(held.blocks),
        evidence_in_words(held.decided_by).to_owned(),
    ]
}

/// The name of a category.
pub(crate) fn category_in_words(category: MemoryCategory) -> &'static str {
    match category {
        MemoryCategory::Parameters => "parameters",
        MemoryCategory::OptimizerState => "optimizer state",
        MemoryCategory::OptimizerStep => "optimizer step",
        MemoryCategory::Gradients => "gradients",
        MemoryCategory::Backward => "backward",
        MemoryCategory::Activations => "activations",
        MemoryCategory::Unknown => "unknown",
    }
}

/// What decided a category.
pub(crate) fn evidence_in_words(evidence: CategoryEvidence) -> &'static str {
    match evidence {
        CategoryEvidence::Frames => "frames",
        CategoryEvidence::Annotation => "annotation",
        CategoryEvidence::OtherFrames => "no known frame",
        CategoryEvidence::NoStack => "no stack",
    }
}

fn write_peak(
    out: &mut dyn Write,
    what: &str,
    bytes: u64,
    at: &MemoryAtPeak,
) -> std::io::Result<()> {
    writeln!(
        out,
        "Peak {what}: {} ({} bytes) {}",
        format_bytes(bytes as f64),
        grouped(bytes),
        when_in_words(&at.moment)
    )
}

/// The settings that are not PyTorch's defaults.
pub(crate) fn settings_in_words(settings: &SnapshotSettings) -> String {
    match settings.configuration.trim() {
        "" if settings.expandable_segments => "expandable_segments:True".to_owned(),
        "" => "PyTorch's defaults".to_owned(),
        configuration => format!("PYTORCH_CUDA_ALLOC_CONF={}", printable(configuration)),
    }
}

/// The parts that add up to the reserved bytes.
pub(crate) fn write_parts(
    out: &mut dyn Write,
    screen: Screen,
    parts: &ReservedParts,
) -> std::io::Result<()> {
    let columns = [left("PART"), right("BYTES"), right(""), right("SHARE")];
    let named = [
        ("requested", parts.requested_bytes),
        ("rounding", parts.rounding_bytes),
        ("pending", parts.pending_bytes),
        ("releasable", parts.releasable_bytes),
        ("stranded", parts.stranded_bytes),
        ("= reserved", parts.reserved_bytes),
    ];
    let whole = parts.reserved_bytes.max(1) as f64;
    let rows: Vec<Vec<String>> = named
        .iter()
        .map(|(name, bytes)| {
            vec![
                (*name).to_owned(),
                grouped(*bytes),
                format_bytes(*bytes as f64),
                format_share(Some(*bytes as f64 / whole)),
            ]
        })
        .collect();
    write_table(out, screen, &columns, &rows).map(drop)
}

/// Who holds what, one line each.
pub(crate) fn write_holders(
    out: &mut dyn Write,
    screen: Screen,
    holders: &[HeldByStack],
) -> std::io::Result<()> {
    let columns = [right("BYTES"), right("SHARE"), right("BLOCKS").drops(1)];
    let rows: Vec<LocatedRow> = holders
        .iter()
        .map(|held| {
            let figures = vec![
                format_bytes(held.bytes as f64),
                format_share(Some(held.share_ratio)),
                grouped(held.blocks),
            ];
            (figures, stack_in_words(&held.stack))
        })
        .collect();
    write_located(out, screen, &columns, &rows)
}
