//! Programs on the machine waited for memory: stalls by the kernel's account (PSI).
//!
//! The machine's `full` counts the tasks that want to run and nobody who sleeps: one program that is short of memory in a small cgroup,
//! on a machine that is idle otherwise, makes all of it. So it says nothing of this job.

use nilo_sample::units::{format_bytes, format_duration, to_secs};
use nilo_sample::{RecordedTable, Severity, Subject};

use super::{Finding, FindingKind, JudgedRecording};
use crate::tracking::Resource;

/// Waiting for this share of a stretch between two readings is a stall.
const STALL: f64 = 0.1;
/// Stalls shorter than this in all are not worth a word.
const LEAST_NANOS: f64 = 1e9;
/// The machine itself is short of memory where less than this share of it is available.
const SHORT: f64 = 0.1;

pub(super) fn find(seen: &JudgedRecording<'_>) -> Option<Finding> {
    // Where another limit than the machine's ran out, what programs on the machine waited for is no part of it.
    if seen.ending.oom.is_some() || seen.ran_out.is_some() {
        seen.ran_out.filter(|it| it.resource == Resource::Host)?;
    }
    let host = seen.recording.table(&Subject::Host)?;
    let full = host.series("pressure_full_nanos")?;
    let mut before: Option<(u64, f64)> = None;
    let (mut stalled, mut worst, mut worst_at) = (0.0, 0.0, 0);
    for (time, total) in full.present() {
        if let Some((then, total_then)) = before {
            let (waited, passed) = (total - total_then, (time - then).max(1) as f64);
            if waited > STALL * passed {
                stalled += waited;
                if waited / passed > worst {
                    (worst, worst_at) = (waited / passed, time);
                }
            }
        }
        before = Some((time, total));
    }
    if stalled < LEAST_NANOS {
        return None;
    }
    let mut evidence = vec![format!(
        "worst at {:.1} s: {:.0} % of the time",
        to_secs(worst_at),
        100.0 * worst
    )];
    let least = least_available(host);
    let is_short = least.is_none_or(|(bytes, share)| {
        evidence.push(format!(
            "available memory on the machine was never below {}, {:.0} % of the total",
            format_bytes(bytes),
            100.0 * share
        ));
        share < SHORT
    });
    Some(Finding {
        kind: FindingKind::MemoryPressure,
        severity: match is_short && worst > 0.5 {
            true => Severity::Warning,
            false => Severity::Info,
        },
        text: format!(
            "programs on the machine, not necessarily this job, waited for memory for {} in all while nothing else could run",
            format_duration(stalled as u64)
        ),
        evidence,
        advice: Vec::new(),
    })
}

/// The least that was available, and its share of all memory.
fn least_available(host: &RecordedTable) -> Option<(f64, f64)> {
    let available = host.series("available_bytes")?.present();
    let least = available.map(|(_, bytes)| bytes).reduce(f64::min)?;
    let (_, total) = host.series("total_bytes")?.max()?;
    (total > 0.0).then(|| (least, least / total))
}
