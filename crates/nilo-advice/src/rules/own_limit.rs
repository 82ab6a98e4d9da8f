//! A process that was refused memory at a limit of its own (`ulimit -v`): no more memory helps there, a higher limit does.

use nilo_sample::units::{KIB, format_bytes};

use super::out_of_memory::{MOSTLY_FREE, peak_against_limit};
use super::{Found, found};
use crate::facts::Facts;
use crate::recommendation::AdviceConfidence::{Low, Medium};

/// What the program needs nobody has seen: as after a kill, half more than what was too little.
const AFTER_REFUSAL: f64 = 1.5;

pub(super) fn raise_ulimit(facts: &Facts) -> Option<Found> {
    let ended = &facts.out_of_memory;
    let happened = ended.happened.clone()?;
    let (option, what) = match ended.refused_by.as_deref()? {
        "RLIMIT_AS" => ("-v", "address space"),
        "RLIMIT_DATA" => ("-d", "data size"),
        _ => return None,
    };
    let limit = ended.limit_bytes?;
    let peak = ended.peak_bytes;
    let free = peak.filter(|peak| *peak < MOSTLY_FREE * limit);
    let present = format_bytes(limit);
    let raise = format!("`ulimit {option}` ({present} now): it limits {what}, not resident memory");
    let text = match (&ended.growth, free.is_some()) {
        (Some(_), _) => format!("Stop the growth first; to run that long, raise {raise}"),
        (None, true) => format!(
            "Make the allocation that failed smaller, most of the limit was free, or raise {raise}"
        ),
        (None, false) => format!("Map less at once, or raise {raise}"),
    };
    let confidence = if ended.growth.is_some() { Low } else { Medium };
    Some(
        found(text, change(option, limit, peak))
            .because(happened)
            .because_if(free.and_then(|peak| peak_against_limit(peak, limit)))
            .because_if(facts.host.peak_bytes.map(|resident| {
                let resident = format_bytes(resident);
                format!("resident memory of all processes was at most {resident}")
            }))
            .with(confidence),
    )
}

/// The shell counts in KiB.
fn change(option: &str, limit: f64, peak: Option<f64>) -> String {
    let kib = |bytes: f64| (bytes / KIB as f64).ceil();
    let needed = match peak {
        Some(peak) => format!("more than {} is needed", format_bytes(peak)),
        None => "more is needed".to_owned(),
    };
    format!(
        "ulimit {option} {:.0} where it is set to {:.0} ({needed}; 1.5 × the limit is a guess), or no such limit and one of memory (a cgroup) instead",
        kib(AFTER_REFUSAL * limit),
        kib(limit),
    )
}
