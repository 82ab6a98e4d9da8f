//! Somebody else on the machine takes its memory.

use nilo_sample::units::format_bytes;
use nilo_sample::{Recording, Severity, Subject};

use super::{Finding, FindingKind};

/// The machine is short of memory when less than this share is available.
const SHORT: f64 = 0.1;
/// The others are to blame when they took at least this share of what became less.
const OTHERS: f64 = 0.7;

pub(super) fn find(recording: &Recording) -> Option<Finding> {
    let host = recording.table(&Subject::Host)?;
    let tree = recording.table(&Subject::Tree)?.series("memory_bytes")?;
    let total = host.series("total_bytes")?.last()?;
    let available = host.series("available_bytes")?;
    let (_, first) = available.present().next()?;
    let (at, least) = available.present().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let taken = first - least;
    if least > SHORT * total || taken < SHORT * total {
        return None;
    }
    let at_time = |time: u64| {
        tree.present()
            .take_while(|(t, _)| *t <= time)
            .last()
            .map(|(_, v)| v)
    };
    let (_, own_first) = tree.present().next()?;
    let own = at_time(at).unwrap_or(own_first) - own_first;
    if taken - own < OTHERS * taken {
        return None;
    }
    Some(Finding {
        kind: FindingKind::Neighbour,
        severity: Severity::Warning,
        text: format!(
            "other processes took {} of the machine's memory while this job ran, leaving {}",
            format_bytes(taken - own),
            format_bytes(least)
        ),
        evidence: vec![format!(
            "this job itself grew by {} in that time",
            format_bytes(own)
        )],
        advice: Vec::new(),
    })
}
