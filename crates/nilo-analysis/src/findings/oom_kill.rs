//! The kernel killed for lack of memory.

use nilo_sample::units::format_bytes;
use nilo_sample::{Certainty, Ending};

use super::Finding;

pub(super) fn find(ending: &Ending) -> Option<Finding> {
    let oom = ending.oom.as_ref()?;
    let who = match (&oom.victim_name, oom.victim_pid) {
        (Some(name), Some(pid)) => format!("{name} (PID {pid})"),
        (None, Some(pid)) => format!("PID {pid}"),
        _ => "a process".to_owned(),
    };
    let sure = match oom.certainty {
        Certainty::Certain => "was",
        Certainty::Likely => "was most likely",
        Certainty::Possible => "may have been",
    };
    let limit = oom.limit.as_ref().map_or(String::new(), |limit| {
        let bytes = format_bytes(limit.bytes as f64);
        format!("; the limit is {bytes} ({})", limit.source)
    });
    Some(Finding {
        kind: "oom-kill",
        severity: if oom.certainty == Certainty::Possible {
            "warning"
        } else {
            "critical"
        },
        text: format!("{who} {sure} killed by the kernel for lack of memory{limit}"),
        evidence: oom.evidence.clone(),
        advice: Vec::new(),
    })
}
