//! Everything waited for memory: stalls by the kernel's account (PSI).

use nilo_sample::units::{format_duration, to_secs};
use nilo_sample::{Recording, Severity, Subject};

use super::Finding;

/// Waiting for this share of a stretch between two readings is a stall.
const STALL: f64 = 0.1;
/// Stalls shorter than this in all are not worth a word.
const LEAST_NANOS: f64 = 1e9;

pub(super) fn find(recording: &Recording) -> Option<Finding> {
    let full = recording
        .table(&Subject::Host)?
        .series("pressure_full_nanos")?;
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
    (stalled >= LEAST_NANOS).then(|| Finding {
        kind: "memory-pressure",
        severity: if worst > 0.5 {
            Severity::Warning
        } else {
            Severity::Info
        },
        text: format!(
            "every process on the machine stalled for {} waiting for memory",
            format_duration(stalled as u64)
        ),
        evidence: vec![format!(
            "worst at {:.1} s: {:.0} % of the time",
            to_secs(worst_at),
            100.0 * worst
        )],
        advice: Vec::new(),
    })
}
