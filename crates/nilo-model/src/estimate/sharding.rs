//! Several GPUs for one model: what each of them has.

use std::collections::BTreeMap;

use crate::dry_run::memory::{Purpose, StepPhase};
use crate::dry_run::tensor::Dtype;

/// How ranks share the states of the model and the optimizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sharding {
    /// Each rank has everything and adds up gradients in buckets (DDP).
    #[default]
    Replicated,
    /// Optimizer states are divided (ZeRO 1).
    OptimizerStates,
    /// Gradients as well (ZeRO 2).
    Gradients,
    /// Weights as well, gathered for each block while it computes (ZeRO 3, FSDP).
    Weights,
}

/// How a model is divided among GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parallelism {
    /// GPUs with batches of their own.
    pub ranks: u64,
    /// How these share states.
    pub sharding: Sharding,
    /// GPUs that share each matrix.
    pub tensor: u64,
    /// GPUs that share the layers.
    pub pipeline: u64,
    /// Whether the optimizer's states are in the memory of the host.
    pub offloads_optimizer: bool,
}

impl Default for Parallelism {
    /// One GPU.
    fn default() -> Self {
        Self {
            ranks: 1,
            sharding: Sharding::Replicated,
            tensor: 1,
            pipeline: 1,
            offloads_optimizer: false,
        }
    }
}

const MIB: u64 = 1 << 20;
/// What NCCL takes for the communicator of two GPUs and of more, as measured on A100s with NVLink (NVIDIA/nccl#864).
const NCCL_PAIR_BYTES: u64 = 544 * MIB;
const NCCL_BYTES: u64 = 688 * MIB;
/// DeepSpeed's default size of a bucket, in numbers.
const ZERO_BUCKET: u64 = 500_000_000;

/// The parts of the model that are gathered as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Units {
    /// Weights of a layer.
    pub(super) layer: u64,
    /// Weights outside of layers.
    pub(super) root: u64,
}

impl Parallelism {
    /// Whether there is one GPU, and nothing is kept elsewhere.
    pub fn is_single(&self) -> bool {
        *self == Self::default()
    }

    /// All GPUs.
    pub fn gpus(&self) -> u64 {
        self.ranks * self.tensor * self.pipeline
    }

    /// What communication takes outside of PyTorch's allocator.
    pub(super) fn library_bytes(&self) -> u64 {
        match self.gpus() {
            1 => 0,
            2 => NCCL_PAIR_BYTES,
            _ => NCCL_BYTES,
        }
    }

    /// What a rank has of the parts that one GPU would have at its peak in a phase.
    pub(super) fn share_of(
        &self,
        phase: StepPhase,
        parts: &BTreeMap<Purpose, u64>,
        units: Units,
        dtype: Dtype,
    ) -> BTreeMap<Purpose, u64> {
        let mut own: BTreeMap<Purpose, u64> = parts.clone();
        for (purpose, bytes) in &mut own {
            if self.divides(*purpose) {
                *bytes = bytes.div_ceil(self.ranks);
            }
            if self.offloads_optimizer && is_of_optimizer(*purpose) {
                *bytes = 0;
            }
        }
        if self.ranks > 1 {
            let buffer = self.buffer_bytes(phase, parts, units, dtype);
            *own.entry(Purpose::Communication).or_default() += buffer;
        }
        own.retain(|_, bytes| *bytes > 0);
        own
    }

    fn divides(&self, purpose: Purpose) -> bool {
        match purpose {
            Purpose::OptimizerState | Purpose::OptimizerTemporaries => {
                self.sharding != Sharding::Replicated
            }
            Purpose::Gradients => {
                matches!(self.sharding, Sharding::Gradients | Sharding::Weights)
            }
            Purpose::Weights => self.sharding == Sharding::Weights,
            _ => false,
        }
    }

    fn buffer_bytes(
        &self,
        phase: StepPhase,
        parts: &BTreeMap<Purpose, u64>,
        units: Units,
        dtype: Dtype,
    ) -> u64 {
        let gradients = parts.get(&Purpose::Gradients).copied().unwrap_or(0);
        match self.sharding {
            // Buckets hold all gradients once more.
            Sharding::Replicated => gradients,
            Sharding::OptimizerStates | Sharding::Gradients => {
                gradients.min(ZERO_BUCKET * dtype.bytes())
            }
            Sharding::Weights => {
                let largest = units.layer.max(units.root) * dtype.bytes();
                match phase {
                    StepPhase::Load | StepPhase::Optimizer => 0,
                    // The unit that computes, and the one that is fetched meanwhile.
                    StepPhase::Forward => 2 * largest,
                    // Its gradients as well, before they are divided.
                    StepPhase::Backward => 3 * largest,
                }
            }
        }
    }
}

fn is_of_optimizer(purpose: Purpose) -> bool {
    matches!(
        purpose,
        Purpose::OptimizerState | Purpose::OptimizerTemporaries
    )
}
