//! The allocator keeps more and more although what is allocated does not grow: its reserve is in pieces that fit nothing.

use nilo_sample::units::format_bytes;
use nilo_sample::{RecordedTable, Recording, Severity, Subject};

use super::{Finding, FindingKind};

/// The reserve must exceed the most that was ever allocated by this factor ...
const OVER_ALLOCATED: f64 = 1.3;
/// ... and have grown by this factor after the first quarter of the time.
const GREW: f64 = 1.15;
/// What is allocated stands still within this factor.
const STOOD: f64 = 1.05;

pub(super) fn find(recording: &Recording) -> Vec<Finding> {
    let tables = recording
        .tables
        .iter()
        .filter_map(|table| match table.spec.subject {
            Subject::TorchMemory { device, .. } => describe(table, device),
            _ => None,
        });
    tables.collect()
}

fn describe(table: &RecordedTable, device: u32) -> Option<Finding> {
    let most = |column: &str, from: u64, to: u64| {
        let within = table
            .series(column)?
            .present()
            .filter(|(time, _)| (from..=to).contains(time));
        within.map(|(_, value)| value).reduce(f64::max)
    };
    let (begin, end) = (*table.times.first()?, *table.times.last()?);
    let quarter = begin + (end - begin) / 4;
    let reserved_early = most("reserved_bytes", begin, quarter)?;
    let reserved = most("reserved_bytes", begin, end)?;
    let peak = |from, to| {
        most("peak_allocated_bytes", from, to)
            .into_iter()
            .chain(most("allocated_bytes", from, to))
            .reduce(f64::max)
    };
    let allocated_early = peak(begin, quarter)?;
    let allocated = peak(begin, end)?;
    let creeps = reserved > GREW * reserved_early && allocated < STOOD * allocated_early;
    if !creeps || reserved < OVER_ALLOCATED * allocated {
        return None;
    }
    Some(Finding {
        kind: FindingKind::Fragmentation,
        severity: Severity::Warning,
        text: format!(
            "PyTorch's reserved memory on GPU {device} grew to {} while at most {} was allocated: it is fragmented",
            format_bytes(reserved),
            format_bytes(allocated)
        ),
        evidence: vec![format!(
            "reserved {} in the first quarter of {}; allocated {} there",
            format_bytes(reserved_early),
            table.writer,
            format_bytes(allocated_early)
        )],
        advice: vec!["set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or pad batches to a few fixed lengths".to_owned()],
    })
}
