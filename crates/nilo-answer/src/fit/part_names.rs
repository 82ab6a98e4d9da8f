//! Names of parts, phases and settings, as JSON and tables have them.

use nilo_model::dry_run::ops::AttentionKernel;
use nilo_model::dry_run::optimizer::Optimizer;
use nilo_model::dry_run::{Dtype, Purpose, StepPhase};
use nilo_model::estimate::EstimatedPart;

/// A part by its name.
pub fn part_name(part: EstimatedPart) -> &'static str {
    match part {
        EstimatedPart::Tensors(purpose) => purpose_name(purpose),
        EstimatedPart::Rounding => "rounding",
        EstimatedPart::UnusedByAllocator => "unused by the allocator",
        EstimatedPart::Context => "CUDA context",
        EstimatedPart::CommunicationLibrary => "NCCL",
    }
}

fn purpose_name(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Weights => "weights",
        Purpose::Gradients => "gradients",
        Purpose::OptimizerState => "optimizer state",
        Purpose::Activations => "activations: residuals",
        Purpose::Attention => "activations: attention",
        Purpose::FeedForward => "activations: feed-forward",
        Purpose::Normalization => "activations: normalization",
        Purpose::ConvertedWeights => "converted weights",
        Purpose::Loss => "logits and loss",
        Purpose::KeyValueCache => "KV cache",
        Purpose::BackwardTemporaries => "temporaries of backward",
        Purpose::OptimizerTemporaries => "temporaries of the optimizer",
        Purpose::Communication => "communication buffers",
        Purpose::Batch => "batch",
        Purpose::Workspaces => "workspaces",
    }
}

/// A phase by its name.
pub fn phase_name(phase: StepPhase) -> &'static str {
    match phase {
        StepPhase::Load => "load",
        StepPhase::Forward => "forward",
        StepPhase::Backward => "backward",
        StepPhase::Optimizer => "optimizer",
    }
}

/// A type by its name.
pub fn dtype_name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F32 => "fp32",
        Dtype::Bf16 => "bf16",
        Dtype::F16 => "fp16",
        Dtype::I64 => "int64",
        Dtype::U8 => "uint8",
    }
}

/// Optimizers by their names on the command line and in Python.
pub const OPTIMIZERS: [(&str, Optimizer); 10] = [
    ("adamw", Optimizer::AdamW),
    ("adamw-fused", Optimizer::AdamWFused),
    ("adamw-for-loop", Optimizer::AdamWForLoop),
    ("adamw-8bit", Optimizer::AdamW8bit),
    ("adam", Optimizer::AdamW),
    ("sgd", Optimizer::Sgd),
    ("sgd-momentum", Optimizer::SgdMomentum),
    ("adafactor", Optimizer::Adafactor),
    ("lion", Optimizer::Lion),
    ("muon", Optimizer::Muon),
];

/// An optimizer by its name.
pub fn optimizer_name(optimizer: Optimizer) -> &'static str {
    let found = OPTIMIZERS.iter().find(|(_, known)| *known == optimizer);
    found.map_or("adamw", |(name, _)| name)
}

/// A way to compute attention by its name.
pub fn attention_name(kernel: AttentionKernel) -> &'static str {
    match kernel {
        AttentionKernel::Sdpa => "sdpa",
        AttentionKernel::Flash => "flash",
        AttentionKernel::Eager => "eager",
    }
}
