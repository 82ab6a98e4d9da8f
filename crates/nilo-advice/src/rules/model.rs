//! The model, its optimizer, and where the memory of a step goes.

use nilo_sample::units::format_bytes;

use super::figures::{
    LEAST_BYTES, count, decimal, gpu_memory, host_memory, percent, share, step_time,
};
use super::{AdviceRule, AdviceSubject, Found, found};
use crate::facts::{Facts, ModelFacts};
use crate::recommendation::AdviceConfidence::Medium;
use crate::recommendation::Saving;

/// Activations are worth a checkpoint from this share of the peak on.
const ACTIVATION_SHARE: f64 = 0.5;
/// What checkpoints took off activations in our measurement: 141 MiB became 39.
const ACTIVATION_SAVED: f64 = 0.72;
/// Memory that is left is worth fewer checkpoints from this share of the budget on.
const HEADROOM: f64 = 0.3;
/// A step is a forward, a backward of two and a recomputed forward: without the last, a quarter less.
const RECOMPUTED: f64 = 0.25;
/// What autocast took off activations in our measurement.
const AUTOCAST_SAVED: f64 = 0.32;
/// The optimizer's state is worth a word from this share of the peak on.
const STATE_SHARE: f64 = 0.3;
/// 8.00 bytes a parameter became 2.05 in our measurement.
const EIGHT_BIT_SAVED: f64 = 0.74;
/// Attention scores are worth a word from this share of the peak on.
const SCORES_SHARE: f64 = 0.05;
/// Logits are worth a word from this share of the peak on.
const LOGITS_SHARE: f64 = 0.2;
/// Eight chunks, one at a time.
const LOGITS_SAVED: f64 = 7.0 / 8.0;

pub(super) const RULES: &[AdviceRule] = &[
    AdviceRule {
        name: "checkpoint-blocks",
        subject: AdviceSubject::Model,
        condition: "activations are more than half of the peak, blocks repeat, and none is checkpointed",
        needs: &[
            "model.activation_bytes",
            "model.peak_bytes",
            "model.repeated_blocks",
        ],
        source: "checkpoints took 72 % off the activations and 44 % off the peak of a small transformer in our measurement",
        look: checkpoint_blocks,
    },
    AdviceRule {
        name: "checkpoint-fewer-blocks",
        subject: AdviceSubject::Model,
        condition: "blocks are checkpointed although more than 30 % of the budget is free",
        needs: &[
            "model.checkpointed_blocks",
            "model.repeated_blocks",
            "model.peak_bytes",
            "model.budget_bytes",
        ],
        source: "a checkpointed block runs forward twice: a quarter of its time in a step",
        look: checkpoint_fewer_blocks,
    },
    AdviceRule {
        name: "preserve-random-state",
        subject: AdviceSubject::Model,
        condition: "checkpoints do not restore RNG state, and there is dropout",
        needs: &["model.preserves_random_state", "model.dropout"],
        source: "allenai/OLMo-core#828; gradients were off by 35 % in our measurement while the loss was equal",
        look: preserve_random_state,
    },
    AdviceRule {
        name: "use-autocast",
        subject: AdviceSubject::Model,
        condition: "activations are in 32 bits on a device that computes in bfloat16",
        needs: &[
            "model.uses_half_precision",
            "torch.has_bfloat16",
            "model.activation_bytes",
            "model.peak_bytes",
        ],
        source: "autocast took 32 % off the activations in our measurement, gradients with a cosine of 1.000",
        look: use_autocast,
    },
    AdviceRule {
        name: "use-8-bit-optimizer",
        subject: AdviceSubject::Model,
        condition: "the state of Adam is more than 30 % of the peak",
        needs: &[
            "model.optimizer_state_bytes",
            "model.optimizer",
            "model.peak_bytes",
        ],
        source: "AdamW took 8.00 bytes a parameter, its 8-bit form 2.05 in our measurement; pytorch/ao#1218 on embeddings",
        look: use_8_bit_optimizer,
    },
    AdviceRule {
        name: "use-sdpa",
        subject: AdviceSubject::Model,
        condition: "attention scores are more than 5 % of the peak",
        needs: &["model.attention_score_bytes", "model.peak_bytes"],
        source: "SDPA took 10 to 30 % off the peak in our measurement",
        look: use_sdpa,
    },
    AdviceRule {
        name: "chunk-cross-entropy",
        subject: AdviceSubject::Model,
        condition: "logits and their gradient are more than 20 % of the peak",
        needs: &["model.logits_bytes", "model.peak_bytes"],
        source: "8 chunks took 35 % off the peak of a small transformer in our measurement",
        look: chunk_cross_entropy,
    },
    AdviceRule {
        name: "tie-weights",
        subject: AdviceSubject::Model,
        condition: "weights that should be tied lie in memory twice",
        needs: &["model.untied_bytes"],
        source: "the storages of embedding and head were compared",
        look: tie_weights,
    },
    AdviceRule {
        name: "freeze-parameters",
        subject: AdviceSubject::Model,
        condition: "parameters that are not trained have gradients",
        needs: &["model.frozen_gradient_bytes"],
        source: "arithmetic: a gradient is as large as its parameter",
        look: freeze_parameters,
    },
    AdviceRule {
        name: "set-gradients-to-none",
        subject: AdviceSubject::Model,
        condition: "gradients of zeros are held between steps",
        needs: &["model.zeroed_gradient_bytes"],
        source: "PyTorch's performance tuning guide",
        look: set_gradients_to_none,
    },
    AdviceRule {
        name: "fit-the-weights",
        subject: AdviceSubject::Model,
        condition: "weights, gradients and optimizer state alone exceed the budget",
        needs: &[
            "model.weight_bytes",
            "model.gradient_bytes",
            "model.optimizer_state_bytes",
            "model.budget_bytes",
        ],
        source: "arithmetic: no batch size and no checkpoint changes these",
        look: fit_the_weights,
    },
];

/// Bytes of the device that the model lies on.
fn device_memory(facts: &Facts, bytes: f64, of_all: Option<f64>) -> Saving {
    match facts.model.on_gpu {
        Some(false) => host_memory(bytes, of_all),
        _ => gpu_memory(bytes, of_all),
    }
}

/// A part of the peak that is worth a word.
fn part_of_peak(model: &ModelFacts, part: Option<f64>, least: f64) -> Option<(f64, f64)> {
    let (part, peak) = (part?, model.peak_bytes?);
    (share(part, peak)? > least).then_some((part, peak))
}

fn of_peak(what: &str, part: f64, peak: f64) -> String {
    format!(
        "{what} {} of the peak of {} ({})",
        format_bytes(part),
        format_bytes(peak),
        percent(part / peak)
    )
}

fn checkpoint_blocks(facts: &Facts) -> Option<Found> {
    let model = &facts.model;
    let (kept, peak) = part_of_peak(model, model.activation_bytes, ACTIVATION_SHARE)?;
    let blocks = model.repeated_blocks?;
    if blocks < 2 || model.checkpointed_blocks.is_some_and(|count| count > 0) {
        return None;
    }
    let budget = model.budget_bytes;
    let change = match budget {
        Some(budget) => {
            format!("nilometer.optimize.checkpoint_model(model, batch, budget_bytes={budget:.0})")
        }
        None => "nilometer.optimize.checkpoint_model(model, batch)".to_owned(),
    };
    Some(
        found(
            "Checkpoint the repeated blocks: less memory, more time",
            change,
        )
        .because(of_peak("activations are", kept, peak))
        .because(format!(
            "{} and none is checkpointed",
            match blocks {
                1 => "1 block repeats".to_owned(),
                _ => format!("{blocks} blocks repeat"),
            }
        ))
        .because_if(
            budget
                .filter(|budget| peak > *budget)
                .map(|budget| format!("a step may hold {}", format_bytes(budget))),
        )
        .saves(device_memory(facts, ACTIVATION_SAVED * kept, Some(peak)))
        .with(Medium),
    )
}

fn checkpoint_fewer_blocks(facts: &Facts) -> Option<Found> {
    let model = &facts.model;
    let (checkpointed, blocks) = (model.checkpointed_blocks?, model.repeated_blocks?);
    let (peak, budget) = (model.peak_bytes?, model.budget_bytes?);
    let free = share(budget - peak, budget)?;
    if checkpointed == 0 || blocks == 0 || free <= HEADROOM {
        return None;
    }
    let part = (checkpointed as f64 / blocks as f64).min(1.0);
    Some(
        found(
            "Checkpoint fewer blocks: there is memory left",
            format!("nilometer.optimize.checkpoint_model(model, batch, budget_bytes={budget:.0})"),
        )
        .because(format!(
            "{checkpointed} of {} {} checkpointed, and the peak of {} leaves {} of {} free",
            count(blocks, "block"),
            if checkpointed == 1 { "is" } else { "are" },
            format_bytes(peak),
            percent(free),
            format_bytes(budget)
        ))
        .saves(step_time(Some(RECOMPUTED * part)))
        .with(Medium),
    )
}

fn preserve_random_state(facts: &Facts) -> Option<Found> {
    let model = &facts.model;
    let dropout = model.dropout?;
    if model.preserves_random_state? || dropout <= 0.0 || model.checkpointed_blocks == Some(0) {
        return None;
    }
    Some(
        found(
            "Restore RNG state in checkpoints (preserve_rng_state=True): gradients are wrong with dropout",
            "torch.utils.checkpoint.checkpoint(..., preserve_rng_state=True)",
        )
        .because(format!(
            "dropout is {}, and preserve_rng_state is False",
            decimal(dropout)
        )),
    )
}

fn use_autocast(facts: &Facts) -> Option<Found> {
    let model = &facts.model;
    let (kept, peak) = part_of_peak(model, model.activation_bytes, 0.0)?;
    let saved = AUTOCAST_SAVED * kept;
    if model.uses_half_precision? || !facts.torch.has_bfloat16? || saved < LEAST_BYTES {
        return None;
    }
    Some(
        found(
            "Compute in bfloat16",
            "with torch.autocast(\"cuda\", dtype=torch.bfloat16): around forward and loss, or nilometer.optimize.apply_steps(model, batch, tolerance=True)",
        )
        .because(of_peak("activations in 32 bits are", kept, peak))
        .because("the device computes in bfloat16")
        .saves(device_memory(facts, saved, Some(peak)))
        .with(Medium),
    )
}

fn use_8_bit_optimizer(facts: &Facts) -> Option<Found> {
    let model = &facts.model;
    let (state, peak) = part_of_peak(model, model.optimizer_state_bytes, STATE_SHARE)?;
    let optimizer = model.optimizer.as_deref()?;
    let lower = optimizer.to_ascii_lowercase();
    if !lower.contains("adam") || lower.contains("8bit") || lower.contains("4bit") {
        return None;
    }
    Some(
        found(
            "Keep the optimizer's state in 8 bits; this changes training, compare the loss",
            "bitsandbytes.optim.AdamW8bit(model.parameters(), ...), embeddings in 32 bits",
        )
        .because(of_peak(
            &format!("the state of {optimizer} is"),
            state,
            peak,
        ))
        .saves(device_memory(facts, EIGHT_BIT_SAVED * state, Some(peak)))
        .with(Medium),
    )
}

fn use_sdpa(facts: &Facts) -> Option<Found> {
    let model = &facts.model;
    let (scores, peak) = part_of_peak(model, model.attention_score_bytes, SCORES_SHARE)?;
    Some(
        found(
            "Use attention that does not store its scores",
            "torch.nn.functional.scaled_dot_product_attention, or attn_implementation=\"sdpa\" of Hugging Face models",
        )
        .because(of_peak("attention scores are", scores, peak))
        .saves(device_memory(facts, scores, Some(peak)))
        .with(Medium),
    )
}

fn chunk_cross_entropy(facts: &Facts) -> Option<Found> {
    let model = &facts.model;
    let (logits, peak) = part_of_peak(model, model.logits_bytes, LOGITS_SHARE)?;
    Some(
        found(
            "Compute the loss in chunks, so that not all logits are there at once",
            "nilometer.optimize.chunked_cross_entropy(hidden, model.lm_head, labels)",
        )
        .because(of_peak("logits and their gradient are", logits, peak))
        .saves(device_memory(facts, LOGITS_SAVED * logits, Some(peak)))
        .with(Medium),
    )
}

fn tie_weights(facts: &Facts) -> Option<Found> {
    let bytes = facts.model.untied_bytes?;
    (bytes >= LEAST_BYTES).then(|| {
        found(
            "Tie the weights of embedding and head again",
            "model.tie_weights(), or head.weight = embedding.weight, after loading and before the optimizer is made",
        )
        .because(format!(
            "weights that should be tied are there twice: {}",
            format_bytes(bytes)
        ))
        .saves(device_memory(facts, bytes, facts.model.peak_bytes))
    })
}

fn freeze_parameters(facts: &Facts) -> Option<Found> {
    let bytes = facts.model.frozen_gradient_bytes?;
    (bytes >= LEAST_BYTES).then(|| {
        found(
            "Compute no gradients of parameters that are not trained",
            "parameter.requires_grad_(False) for what the optimizer does not have",
        )
        .because(format!(
            "gradients of parameters that are not trained take {}",
            format_bytes(bytes)
        ))
        .saves(device_memory(facts, bytes, facts.model.peak_bytes))
    })
}

fn set_gradients_to_none(facts: &Facts) -> Option<Found> {
    let bytes = facts.model.zeroed_gradient_bytes?;
    (bytes >= LEAST_BYTES).then(|| {
        found(
            "Free gradients between steps",
            "optimizer.zero_grad(set_to_none=True)",
        )
        .because(format!(
            "gradients of zeros take {} between steps",
            format_bytes(bytes)
        ))
        .saves(device_memory(facts, bytes, facts.model.peak_bytes))
    })
}

fn fit_the_weights(facts: &Facts) -> Option<Found> {
    let model = &facts.model;
    let parts = [
        ("weights", model.weight_bytes?),
        ("gradients", model.gradient_bytes?),
        ("optimizer state", model.optimizer_state_bytes?),
    ];
    let budget = model.budget_bytes?;
    let all: f64 = parts.iter().map(|(_, bytes)| bytes).sum();
    (all > budget).then(|| {
        let parts = parts.map(|(what, bytes)| format!("{what} {}", format_bytes(bytes)));
        found(
            "Shard the model or train a part of it: no batch size makes it fit",
            "torch.distributed.fsdp.fully_shard(model), adapters (LoRA), or an 8-bit optimizer",
        )
        .because(format!(
            "{}: {} together, and a step may hold {}",
            parts.join(", "),
            format_bytes(all),
            format_bytes(budget)
        ))
    })
}
