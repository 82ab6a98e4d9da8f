//! Batches.

use nilo_sample::units::format_bytes;

use super::figures::{count, step_time, times};
use super::{AdviceRule, AdviceSubject, Found, found};
use crate::facts::{BatchFacts, Facts};
use crate::recommendation::AdviceConfidence::{High, Low, Medium};

/// Memory that ran out less often than this may have been chance.
const LEAST_RECOVERED: u64 = 3;
/// A fit is not trusted beyond this many times the largest batch that was measured.
const FARTHEST: u64 = 8;

pub(super) const RULES: &[AdviceRule] = &[
    AdviceRule {
        name: "raise-micro-batch",
        subject: AdviceSubject::Batch,
        condition: "gradients are accumulated although a larger micro-batch fits",
        needs: &[
            "batch.micro_batch",
            "batch.largest_micro_batch",
            "batch.accumulation",
        ],
        source: "a fit of memory over batches predicted 16 times the batch without error in our measurement; the time is yours to measure",
        look: raise_micro_batch,
    },
    AdviceRule {
        name: "use-free-memory",
        subject: AdviceSubject::Batch,
        condition: "a batch at least twice as large fits, is allowed and smaller than the dataset, and at most 8 times as large as one that was measured",
        needs: &["batch.micro_batch", "batch.largest_micro_batch"],
        source: "a fit of memory over batches; a larger batch changes training",
        look: use_free_memory,
    },
    AdviceRule {
        name: "lower-micro-batch",
        subject: AdviceSubject::Batch,
        condition: "micro-batches are larger than the largest that fits",
        needs: &["batch.micro_batch", "batch.largest_micro_batch"],
        source: "a fit of memory over batches and lengths",
        look: lower_micro_batch,
    },
    AdviceRule {
        name: "begin-with-what-fits",
        subject: AdviceSubject::Batch,
        condition: "memory ran out three times or more and was recovered from",
        needs: &["batch.recovered_ooms", "batch.micro_batch"],
        source: "every step that ran out of memory runs again",
        look: begin_with_what_fits,
    },
];

/// The largest batch that fits and that the settings allow.
fn allowed_batch(batch: &BatchFacts) -> Option<u64> {
    let fits = batch.largest_micro_batch?;
    Some(batch.max_micro_batch.map_or(fits, |most| fits.min(most)))
}

/// A micro-batch below the one in use and below what is known to run out; none where that is one sample.
pub(super) fn smaller_micro_batch(batch: &BatchFacts) -> Option<String> {
    let sizes = [batch.micro_batch, batch.failed_micro_batch];
    match sizes.into_iter().flatten().filter(|size| *size > 0).min() {
        Some(1) => None,
        Some(size) => Some(format!("a micro-batch of {} instead of {size}", size / 2)),
        None => Some("a smaller micro-batch".to_owned()),
    }
}

fn raise_micro_batch(facts: &Facts) -> Option<Found> {
    let batch = &facts.batch;
    let (now, fits) = (batch.micro_batch?, allowed_batch(batch)?);
    let accumulated = batch.accumulation?;
    if accumulated <= 1 || now == 0 || fits <= now {
        return None;
    }
    let all = now.saturating_mul(accumulated);
    let size = fits.min(all);
    let accumulation = all.div_ceil(size);
    Some(
        found(
            "Run larger micro-batches and accumulate fewer",
            format!("micro-batches of {size}, accumulated {}: nilometer.optimize.AdaptiveBatches(..., micro_batch={size})", times(accumulation)),
        )
        .because(format!(
            "{accumulated} micro-batches of {now} are accumulated, and {fits} fit"
        ))
        .because_if(batch.bytes_per_sample.map(|bytes| {
            format!("one more sample takes {}", format_bytes(bytes))
        }))
        .saves(step_time(None))
        .with(Medium),
    )
}

fn use_free_memory(facts: &Facts) -> Option<Found> {
    let batch = &facts.batch;
    let (now, fits) = (batch.micro_batch?, allowed_batch(batch)?);
    let accumulates = batch.accumulation.is_some_and(|times| times > 1);
    let measured = batch.measured_micro_batch.unwrap_or(now).max(now);
    let is_far = batch.largest_micro_batch? > measured.saturating_mul(FARTHEST);
    let has_fewer = batch.dataset_samples.is_some_and(|samples| fits > samples);
    if accumulates || now == 0 || fits / now < 2 || is_far || has_fewer {
        return None;
    }
    Some(
        found(
            "A larger batch fits; it changes training, adapt the learning rate",
            format!("a batch of up to {fits} (nilometer.optimize.find_batch_size)"),
        )
        .because(format!(
            "batches have {}, and {fits} fit",
            count(now, "sample")
        ))
        .saves(step_time(None))
        .with(Low),
    )
}

fn lower_micro_batch(facts: &Facts) -> Option<Found> {
    let batch = &facts.batch;
    let (now, fits) = (batch.micro_batch?, batch.largest_micro_batch?);
    if fits == 0 || now <= fits {
        return None;
    }
    let is_measured = batch.measured_micro_batch == Some(fits);
    Some(
        found(
            "Lower the micro-batch before the longest samples come",
            format!("micro-batches of {fits} instead of {now}, or nilometer.optimize.TokenBudgetBatches(lengths, max_tokens=...)"),
        )
        .because(format!(
            "micro-batches have {}, and {fits} fit",
            count(now, "sample")
        ))
        .because_if(batch.budget_bytes.map(|bytes| format!("a step may hold {}", format_bytes(bytes))))
        .because_if(batch.bytes_per_sample.map(|bytes| format!("one more sample takes {}", format_bytes(bytes))))
        .with(if is_measured { High } else { Medium }),
    )
}

fn begin_with_what_fits(facts: &Facts) -> Option<Found> {
    let (recovered, now) = (facts.batch.recovered_ooms?, facts.batch.micro_batch?);
    (recovered >= LEAST_RECOVERED && now > 0).then(|| {
        found(
            "Begin with a micro-batch that fits",
            "micro_batch=nilometer.optimize.find_batch_size(step, model, optimizer, length=...).batch_size",
        )
        .because(format!(
            "memory ran out {}; micro-batches have {}",
            times(recovered),
            count(now, "sample")
        ))
        .saves(step_time(None))
        .with(Medium)
    })
}
