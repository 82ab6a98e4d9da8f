//! The kinds of causes, and what to do about each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kinds of causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GpuOomKind {
    /// A single allocation is larger than all the memory that there is.
    TooLargeRequest,
    /// Other processes hold the memory.
    OtherProcesses,
    /// The process holds much outside PyTorch: the CUDA context, NCCL, libraries.
    OutsidePytorch,
    /// Enough is reserved and free, in pieces that are too small.
    Fragmentation,
    /// An evaluation keeps graphs that nobody needs.
    GraphsInEvaluation,
    /// The graphs of several forward passes are kept at once.
    GraphsKept,
    /// The cache of keys and values grows with every generated token.
    KvCache,
    /// The program keeps more and more.
    Leak,
    /// The program limits itself, and the device has room.
    AllowedFraction,
    /// A step needs far more than all before it.
    Spike,
    /// The model alone fills the memory.
    Model,
    /// The state of the optimizer does not fit beside the model.
    OptimizerState,
    /// The activations of the first steps do not fit beside the model.
    FirstStep,
}

impl GpuOomKind {
    /// What to do about it, the first thing first.
    pub(crate) fn advice(self) -> &'static [&'static str] {
        match self {
            GpuOomKind::TooLargeRequest => &[
                "Look at the shape of the tensor in that line: a size may be wrong, or the work has to be done in pieces",
                "Compute it on the CPU, or in a smaller type",
            ],
            GpuOomKind::OtherProcesses => &[
                "Look for other processes on this GPU (`nvidia-smi`): another job, a notebook, a server, or a process of an earlier run",
                "Use another GPU (`CUDA_VISIBLE_DEVICES`)",
            ],
            GpuOomKind::OutsidePytorch => &[
                "Look for libraries that allocate on the GPU themselves (NCCL, RMM, JAX, TensorRT), and limit them",
                "Leave room for them: torch.cuda.set_per_process_memory_fraction",
            ],
            GpuOomKind::Fragmentation => &[
                "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
                "Avoid shapes that vary, or pad them to a few sizes",
            ],
            GpuOomKind::GraphsInEvaluation => &[
                "Evaluate within `with torch.no_grad():` or `torch.inference_mode()`",
                "Move outputs that are kept to the CPU (`.cpu()`)",
            ],
            GpuOomKind::GraphsKept => &[
                "Call backward() for every micro-batch when gradients are accumulated, not once for the sum of their losses",
                "Keep numbers, not tensors with their graphs: `loss.item()` or `loss.detach()`",
            ],
            GpuOomKind::KvCache => &[
                "Generate for fewer sequences at once, or fewer tokens (`max_new_tokens`)",
                "Use a static, quantized or offloaded cache (`cache_implementation=`), or a model with grouped-query attention",
            ],
            GpuOomKind::Leak => &[
                "Keep numbers, not tensors: `loss.item()`, `.detach().cpu()`",
                "Bound what is collected, or empty it every epoch",
            ],
            GpuOomKind::AllowedFraction => &[
                "Raise the fraction of torch.cuda.set_per_process_memory_fraction, or `per_process_memory_fraction` in PYTORCH_CUDA_ALLOC_CONF",
                "If the limit is intended, make the step smaller: a smaller micro-batch, or gradient checkpointing",
            ],
            GpuOomKind::Spike => &[
                "Look for a longer sequence or a larger batch in that step; sort or cap lengths, or batch by tokens",
                "Evaluate and save in smaller pieces than training steps",
            ],
            GpuOomKind::Model => &[
                "Load the model in a smaller type (bfloat16, 8-bit), or spread it over GPUs",
                "Train adapters (LoRA) instead of all weights",
            ],
            GpuOomKind::OptimizerState => &[
                "Use an optimizer with less state (8-bit Adam, Adafactor), or shard it across GPUs (FSDP, ZeRO)",
                "Train adapters (LoRA) instead of all weights",
            ],
            GpuOomKind::FirstStep => &[
                "Make the step fit on the GPU: a smaller micro-batch (nilometer.optimize.find_batch_size finds the largest that fits), or checkpoints (nilometer.optimize.checkpoint_model)",
            ],
        }
    }
}
