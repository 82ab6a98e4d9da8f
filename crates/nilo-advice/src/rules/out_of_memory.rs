//! A program that ran out of memory: what follows from how that happened.

use nilo_sample::units::format_bytes;

use super::batch::smaller_micro_batch;
use super::figures::{percent, share};
use super::{Found, found};
use crate::facts::{Facts, OutOfMemoryFacts};
use crate::recommendation::AdviceConfidence::{High, Low, Medium};

/// A program that held less than this share of a limit did not fill it.
pub(super) const MOSTLY_FREE: f64 = 0.5;

pub(super) fn allow_more_memory(facts: &Facts) -> Option<Found> {
    let ended = &facts.out_of_memory;
    let happened = ended.happened.clone()?;
    // More memory does not help where a limit of the process's own refuses it (`own_limit.rs`).
    if ended.on_gpu == Some(true) || ended.refused_by.is_some() {
        return None;
    }
    let used = used_of_limit(facts);
    let peak = used.and_then(|(peak, limit)| peak_against_limit(peak, limit));
    if used.is_some_and(|(peak, limit)| peak < MOSTLY_FREE * limit) {
        let found = match ended.limit_bytes {
            // The kernel killed it all the same.
            Some(_) => found(
                "Run it on a less busy machine: other processes held most of the memory that ran out",
                format!(
                    "a dedicated memory limit or node; {}",
                    amount(ended)
                ),
            )
            .with(Medium),
            None => found(
                "Make the allocation that failed smaller: most of the limit was free",
                "allocate in parts, or check the shape and the type of what is allocated",
            ),
        };
        return Some(found.because(happened).because_if(peak));
    }
    // A limit that was reached is in the sentence.
    let peak = peak.filter(|_| ended.limit_bytes.is_none());
    Some(
        match &ended.growth {
            // More memory puts the end off.
            Some(_) => found(
                "Stop the growth first; to run that long, allow the program more memory",
                amount(ended),
            )
            .because(happened)
            .with(Low),
            None => found(
                "Allow the program more memory, or have it hold less at once",
                format!(
                    "{}; smaller batches, fewer workers, data read in parts",
                    amount(ended)
                ),
            )
            .because(happened)
            .with(Medium),
        }
        .because_if(peak),
    )
}

pub(super) fn fit_on_the_gpu(facts: &Facts) -> Option<Found> {
    let ended = &facts.out_of_memory;
    let happened = ended.happened.clone()?;
    if ended.on_gpu != Some(true) {
        return None;
    }
    let failed = facts.batch.failed_micro_batch;
    let failed = failed.map(|size| format!("micro-batches of {size} ran out of memory too"));
    let checkpoints = "checkpoints (nilometer.optimize.checkpoint_model)";
    let leaner = match smaller_micro_batch(&facts.batch) {
        Some(smaller) => format!(
            "{smaller} (nilometer.optimize.find_batch_size finds the largest that fits), or {checkpoints}"
        ),
        None => format!(
            "{checkpoints}, bfloat16 autocast, or an optimizer with less state: the batch is already one sample"
        ),
    };
    let found = match &ended.gpu_advice {
        Some(first) => found(
            first.as_str(),
            ended.gpu_further_advice.clone().unwrap_or_default(),
        ),
        None => found("Make the step fit on the GPU", leaner),
    };
    Some(
        found
            .because(happened)
            .because_if(ended.growth.clone())
            .because_if(failed)
            .with(if ended.growth.is_some() { Medium } else { High }),
    )
}

fn amount(ended: &OutOfMemoryFacts) -> String {
    match ended.request_bytes {
        Some(bytes) => format!("{}, as `nilo request` asks for", format_bytes(bytes)),
        None => "`nilo request` says how much".to_owned(),
    }
}

/// What was used at most, and the limit that ran out or else the one in force.
fn used_of_limit(facts: &Facts) -> Option<(f64, f64)> {
    let (ended, host) = (&facts.out_of_memory, &facts.host);
    let peak = ended.peak_bytes.or(host.limit_used_bytes);
    let limit = ended.limit_bytes.or(host.limit_bytes);
    Some((peak?, limit?))
}

pub(super) fn peak_against_limit(peak: f64, limit: f64) -> Option<String> {
    let used = percent(share(peak, limit)?);
    let (peak, limit) = (format_bytes(peak), format_bytes(limit));
    Some(format!(
        "the peak of {peak} is {used} of the limit of {limit}"
    ))
}
