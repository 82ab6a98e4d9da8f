//! It went well, but only just: the peak came near the limit, or the kernel had to struggle at it.

use nilo_sample::units::format_bytes;
use nilo_sample::{LimitCounts, LimitSource, Severity, Subject};

use super::{Finding, FindingKind, JudgedRecording};
use crate::ending::limit_in_force;
use crate::held_of_limit::held_of_limit;
use crate::peak::tree_peak;
use crate::rate::growth;

/// This share of the limit is near it.
const NEAR: f64 = 0.95;

pub(super) fn find(seen: &JudgedRecording<'_>) -> Option<Finding> {
    if seen.ending.oom.is_some() || seen.ran_out.is_some() {
        return None;
    }
    let recording = seen.recording;
    let limit = limit_in_force(recording)?;
    let cgroup = match &limit.source {
        LimitSource::Cgroup { path, .. } => {
            recording.table(&Subject::Cgroup { path: path.clone() })
        }
        LimitSource::Rlimit { .. } => None,
        LimitSource::Host => return None,
    };
    let hits = cgroup
        .and_then(|table| table.series("limit_hits"))
        .and_then(growth)
        .unwrap_or(0.0);
    let peak = held_of_limit(recording, tree_peak(recording)?.bytes)?;
    let share = peak / limit.bytes as f64;
    if share < NEAR && hits < 1.0 {
        return None;
    }
    let counts = limit.source.counts();
    let of_what = match counts {
        LimitCounts::Memory => String::new(),
        _ => format!(" of {counts} in one process"),
    };
    let mut evidence = vec![format!(
        "the peak of {}{of_what} is {:.0} % of the limit of {} ({})",
        format_bytes(peak),
        100.0 * share,
        format_bytes(limit.bytes as f64),
        limit.source
    )];
    if hits >= 1.0 {
        evidence.push(format!(
            "usage hit the limit {hits:.0} times and the kernel reclaimed memory"
        ));
    }
    Some(Finding {
        kind: FindingKind::NearMiss,
        severity: if share >= NEAR {
            Severity::Warning
        } else {
            Severity::Info
        },
        text: match counts {
            LimitCounts::Memory => "memory nearly ran out".to_owned(),
            _ => format!("memory nearly ran out: {counts}"),
        },
        evidence,
        advice: vec![
            match counts {
                LimitCounts::Memory => "`nilo request` recommends how much to request",
                LimitCounts::AddressSpace => "raise the limit (`ulimit -v`), or map less: memory that is never touched counts as well",
                LimitCounts::DataSize => "raise the limit (`ulimit -d`), or allocate less: memory that is never touched counts as well",
            }
            .to_owned(),
        ],
    })
}
