//! What is run.

use super::sharding::Parallelism;
use crate::dry_run::ops::AttentionKernel;
use crate::dry_run::optimizer::Optimizer;
use crate::dry_run::tensor::Dtype;
use crate::family::{Adapters, TokenBatch, WeightPacking};

/// A training or an inference.
#[derive(Debug, Clone, PartialEq)]
pub struct EstimateSettings {
    /// What is run.
    pub work: Work,
    /// Sequences, images or recordings in a batch.
    pub batch: u64,
    /// Tokens of each sequence. Images have as many as they have patches, whatever is said here; of speech it is the text that has so many.
    pub length: u64,
    /// Types of weights and of computations.
    pub precision: Precision,
    /// The optimizer of a training.
    pub optimizer: Optimizer,
    /// Which layers compute again in backward what they would keep.
    pub checkpointing: Checkpointing,
    /// Batches whose gradients are added up for a step.
    pub accumulation: u64,
    /// How attention is computed.
    pub attention: AttentionKernel,
    /// How the loss is computed.
    pub loss: LossKind,
    /// Adapters that are trained in the place of the model.
    pub adapters: Option<Adapters>,
    /// How frozen weights are stored.
    pub packing: WeightPacking,
    /// What cuBLAS takes for each thread that multiplies matrices.
    pub workspace_bytes: u64,
    /// Whether PyTorch's allocator has that setting.
    pub expandable_segments: bool,
    /// How GPUs share the work.
    pub parallelism: Parallelism,
}

impl Default for EstimateSettings {
    /// A training of one sequence of 1024 tokens in 32 bits on a recent GPU.
    fn default() -> Self {
        Self {
            work: Work::Training,
            batch: 1,
            length: 1024,
            precision: Precision::Pure(Dtype::F32),
            optimizer: Optimizer::AdamW,
            checkpointing: Checkpointing::None,
            accumulation: 1,
            attention: AttentionKernel::Sdpa,
            loss: LossKind::Standard,
            adapters: None,
            packing: WeightPacking::None,
            workspace_bytes: 32 << 20,
            expandable_segments: false,
            parallelism: Parallelism::default(),
        }
    }
}

impl EstimateSettings {
    pub(crate) fn tokens(&self) -> TokenBatch {
        TokenBatch {
            batch: self.batch,
            length: self.length,
        }
    }
}

/// What a model is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Steps of a training.
    Training,
    /// Passes over a batch, each with the scores of all its tokens.
    Inference,
    /// A pass over a batch, and then so many new tokens; encoders without a decoder only do the pass.
    Generation(u64),
}

/// Types of weights and of computations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// Everything in one type.
    Pure(Dtype),
    /// Weights in 32 bits, products of matrices in another type (`torch.autocast`).
    Autocast(Dtype),
}

impl Precision {
    /// The type of weights.
    pub fn weights(self) -> Dtype {
        match self {
            Self::Pure(dtype) => dtype,
            Self::Autocast(_) => Dtype::F32,
        }
    }

    pub(crate) fn autocast(self) -> Option<Dtype> {
        match self {
            Self::Pure(_) => None,
            Self::Autocast(dtype) => Some(dtype),
        }
    }
}

/// Which layers are checkpointed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Checkpointing {
    /// None.
    #[default]
    None,
    /// All, each by itself.
    Full,
    /// One of so many.
    Every(u64),
}

impl Checkpointing {
    pub(crate) fn every(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Full => Some(1),
            Self::Every(count) => Some(count.max(1)),
        }
    }
}

/// How the loss over all words is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LossKind {
    /// The scores of all words for all tokens at once.
    #[default]
    Standard,
    /// So many parts of the tokens one after the other.
    Chunked(u64),
}
