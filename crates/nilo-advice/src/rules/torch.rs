//! GPU memory by PyTorch's account.

use nilo_sample::units::format_bytes;

use super::batch::smaller_micro_batch;
use super::figures::{LEAST_BYTES, count, gpu_memory, percent, share, step_time, times};
use super::out_of_memory::fit_on_the_gpu;
use super::{AdviceRule, AdviceSubject, Found, found};
use crate::facts::Facts;
use crate::recommendation::AdviceConfidence::{High, Low, Medium};

/// Memory that the allocator holds beyond its tensors is worth a word from this share on ...
const RESERVED_SHARE: f64 = 0.2;
/// ... and from this size on.
const LEAST_RESERVED_BYTES: f64 = 256.0 * 1024.0 * 1024.0;
/// Evaluation is worth a word where it exceeds training by this factor.
const EVALUATION_OVER: f64 = 1.05;
/// So much of a device is nearly all of it.
const NEARLY_ALL: f64 = 0.9;
/// A rank is out of line where it exceeds the next one by this factor.
const RANK_OVER: f64 = 1.1;
/// What accumulates in fewer than every other step is no accumulation.
const LEAST_TENSORS: f64 = 0.5;
/// Bytes that every step leaves behind are worth a word from this size on: 1,000 steps keep a MiB.
const LEAST_RETAINED_BYTES: f64 = LEAST_BYTES / 1000.0;

pub(super) const RULES: &[AdviceRule] = &[
    AdviceRule {
        name: "expandable-segments",
        subject: AdviceSubject::Torch,
        condition: "the allocator holds more than 20 % and 256 MiB beyond its tensors at the peak",
        needs: &["torch.peak_reserved_bytes", "torch.peak_allocated_bytes"],
        source: "PyTorch's notes on CUDA memory management",
        look: expandable_segments,
    },
    AdviceRule {
        name: "stay-within-gpu",
        subject: AdviceSubject::Torch,
        condition: "what PyTorch reserved exceeds gpu_warning_threshold of the device",
        needs: &[
            "thresholds.gpu_warning_ratio",
            "torch.peak_reserved_bytes",
            "torch.device_bytes",
        ],
        source: "the configured threshold",
        look: stay_within_gpu,
    },
    AdviceRule {
        name: "avoid-allocation-retries",
        subject: AdviceSubject::Torch,
        condition: "the allocator ran out, freed its cache and tried again",
        needs: &["torch.allocation_retries"],
        source: "mosaicml/composer#3510: every retry waits for the device",
        look: avoid_allocation_retries,
    },
    AdviceRule {
        name: "evaluate-in-smaller-batches",
        subject: AdviceSubject::Torch,
        condition: "evaluation or generation takes more memory than training",
        needs: &["torch.evaluation_peak_bytes", "torch.train_peak_bytes"],
        source: "mosaicml/composer#1776: memory ran out in the first evaluation",
        look: evaluate_in_smaller_batches,
    },
    AdviceRule {
        name: "balance-ranks",
        subject: AdviceSubject::Torch,
        condition: "the peak of one rank is more than 10 % above that of every other",
        needs: &["torch.rank_peak_bytes"],
        source: "huggingface/accelerate#2789",
        look: balance_ranks,
    },
    AdviceRule {
        name: "detach-losses",
        subject: AdviceSubject::Torch,
        condition: "tensors with a graph accumulate from step to step",
        needs: &["torch.graph_tensors_per_step"],
        source: "PyTorch's FAQ: do not accumulate history across the training loop",
        look: detach_losses,
    },
    AdviceRule {
        name: "release-tensors",
        subject: AdviceSubject::Torch,
        condition: "tensors without a graph accumulate from step to step",
        needs: &["torch.retained_bytes_per_step"],
        source: "PyTorch's FAQ: do not hold on to tensors that are not needed",
        look: release_tensors,
    },
    AdviceRule {
        name: "fit-on-the-gpu",
        subject: AdviceSubject::Torch,
        condition: "an allocation on a GPU failed and ended the program",
        needs: &["out_of_memory.happened", "out_of_memory.on_gpu"],
        source: "how the run ended",
        look: fit_on_the_gpu,
    },
];

/// Whether a part of what the allocator reserved is worth a setting.
pub(crate) fn is_much_reserved(part_bytes: f64, reserved_bytes: f64) -> bool {
    let of_all = share(part_bytes, reserved_bytes);
    part_bytes >= LEAST_RESERVED_BYTES && of_all.is_some_and(|share| share > RESERVED_SHARE)
}

fn expandable_segments(facts: &Facts) -> Option<Found> {
    let (reserved, held) = (
        facts.torch.peak_reserved_bytes?,
        facts.torch.peak_allocated_bytes?,
    );
    let idle = reserved - held;
    let of_all = share(idle, reserved)?;
    let is_set = facts.torch.expandable_segments == Some(true);
    if is_set || !is_much_reserved(idle, reserved) {
        return None;
    }
    Some(
        found(
            "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or pad batches to a few fixed lengths",
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        )
        .because(format!(
            "PyTorch reserved up to {} for at most {} of tensors: {} of it holds none",
            format_bytes(reserved),
            format_bytes(held),
            percent(of_all)
        ))
        .saves(gpu_memory(idle, Some(reserved)))
        .with(Medium),
    )
}

fn stay_within_gpu(facts: &Facts) -> Option<Found> {
    let (reserved, device) = (facts.torch.peak_reserved_bytes?, facts.torch.device_bytes?);
    let warning = facts.thresholds.gpu_warning_ratio?;
    let used = share(reserved, device)?;
    let critical = facts.thresholds.gpu_critical_ratio;
    let critical = critical.filter(|critical| used >= *critical);
    let threshold = match critical {
        Some(critical) => format!("critical from {} on", percent(critical)),
        None => format!("a warning from {} on", percent(warning)),
    };
    (used >= warning).then(|| {
        found(
            "Leave more of the GPU's memory free",
            "a smaller micro-batch (nilometer.optimize.find_batch_size) or checkpoints (nilometer.optimize.checkpoint_model)",
        )
        .because(format!(
            "PyTorch reserved up to {} of {}, {} ({threshold})",
            format_bytes(reserved),
            format_bytes(device),
            percent(used)
        ))
    })
}

fn avoid_allocation_retries(facts: &Facts) -> Option<Found> {
    let retries = facts.torch.allocation_retries?;
    let steps = facts.torch.steps.filter(|steps| *steps > 0);
    let smaller = match smaller_micro_batch(&facts.batch) {
        Some(smaller) => format!("{smaller} (nilometer.optimize.find_batch_size)"),
        None => "checkpoints (nilometer.optimize.checkpoint_model)".to_owned(),
    };
    let expandable = match facts.torch.expandable_segments {
        Some(true) => "",
        _ => "; before that, PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    };
    (retries > 0).then(|| {
        found(
            "Leave the allocator some room: it stalls the step to free its cache",
            format!("{smaller}{expandable}"),
        )
        .because(format!(
            "memory ran out and was freed {}{}",
            times(retries),
            steps.map_or(String::new(), |steps| format!(
                " in {}",
                count(steps, "step")
            ))
        ))
        .saves(step_time(None))
        .with(Medium)
    })
}

fn evaluate_in_smaller_batches(facts: &Facts) -> Option<Found> {
    let (evaluation, train) = (
        facts.torch.evaluation_peak_bytes?,
        facts.torch.train_peak_bytes?,
    );
    if evaluation <= EVALUATION_OVER * train || evaluation - train < LEAST_BYTES {
        return None;
    }
    let found = found(
        "Evaluate in smaller batches and without gradients",
        "with torch.inference_mode(): a batch size of its own for evaluation (per_device_eval_batch_size)",
    )
    .because(format!(
        "evaluation held up to {}, training {}",
        format_bytes(evaluation),
        format_bytes(train)
    ));
    let device = facts.torch.device_bytes;
    Some(
        match device.filter(|device| evaluation > NEARLY_ALL * device) {
            Some(device) => found.because(format!("the device has {}", format_bytes(device))),
            None => found
                .saves(gpu_memory(evaluation - train, Some(evaluation)))
                .with(Medium),
        },
    )
}

fn balance_ranks(facts: &Facts) -> Option<Found> {
    let peaks = &facts.torch.rank_peak_bytes;
    let (rank, most) = peaks
        .iter()
        .copied()
        .enumerate()
        .max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let others = peaks
        .iter()
        .copied()
        .enumerate()
        .filter(|(other, _)| *other != rank);
    let next = others.map(|(_, bytes)| bytes).reduce(f64::max)?;
    if most <= RANK_OVER * next || most - next < LEAST_BYTES {
        return None;
    }
    Some(
        found(
            "Balance the memory of the ranks: the fullest decides how large batches can be",
            format!("give rank {rank} no extra work (logging, evaluation, a second model), and all ranks batches of equal length: nilometer.optimize.TokenBudgetBatches"),
        )
        .because(format!(
            "rank {rank} held up to {}, the next {} of {} ranks",
            format_bytes(most),
            format_bytes(next),
            peaks.len()
        ))
        .saves(gpu_memory(most - next, Some(most)))
        .with(Medium),
    )
}

/// Whether tensors that accumulate explain growth.
pub(super) fn keeps_tensors(facts: &Facts) -> bool {
    detach_losses(facts).is_some() || release_tensors(facts).is_some()
}

fn detach_losses(facts: &Facts) -> Option<Found> {
    let tensors = facts.torch.graph_tensors_per_step?;
    let (own, kept) = (
        facts.torch.retained_bytes_per_step,
        facts.torch.graph_bytes_per_step,
    );
    // A loss is four bytes; what it was computed from is what fills the memory.
    let graphs = match kept.filter(|bytes| *bytes > 0.0) {
        Some(bytes) => format!(
            "their graphs keep {} a step for a backward pass",
            format_bytes(bytes)
        ),
        None => "what their graphs keep comes on top and is not known".to_owned(),
    };
    (tensors >= LEAST_TENSORS).then(|| {
        found(
            "Keep numbers instead of tensors with their graph",
            "losses.append(loss.item()) or loss.detach() instead of losses.append(loss)",
        )
        .because(format!(
            "{tensors:.1} tensors with a graph are left by every step"
        ))
        .because_if(
            own.map(|bytes| format!("the tensors themselves are {} a step", format_bytes(bytes))),
        )
        .because(graphs)
    })
}

fn release_tensors(facts: &Facts) -> Option<Found> {
    let bytes = facts.torch.retained_bytes_per_step?;
    if bytes < LEAST_RETAINED_BYTES || detach_losses(facts).is_some() {
        return None;
    }
    let is_certain = facts.torch.graph_tensors_per_step.is_some();
    Some(
        found(
            "Release tensors retained across steps",
            "keep outputs as numbers, or on the CPU (output.cpu()), and bound the list that holds them",
        )
        .because(format!(
            "{} of tensors are left by every step",
            format_bytes(bytes)
        ))
        .with(if is_certain { High } else { Low }),
    )
}
