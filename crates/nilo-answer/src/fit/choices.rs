//! What was chosen, before the model's own type of weights is known.

use nilo_model::dry_run::Dtype;
use nilo_model::dry_run::ops::AttentionKernel;
use nilo_model::dry_run::optimizer::Optimizer;
use nilo_model::estimate::{
    Checkpointing, EstimateSettings, LossKind, Parallelism, Precision, Work,
};
use nilo_model::family::{Adapters, WeightPacking};

/// What a model is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WorkChoice {
    /// A training.
    #[default]
    Train,
    /// A pass over a batch.
    Infer,
    /// A pass over a batch, and so many new tokens.
    Generate(u64),
}

/// All settings.
#[derive(Debug, Clone, PartialEq)]
pub struct FitChoices {
    /// What the model is used for.
    pub work: WorkChoice,
    /// Sequences in a batch.
    pub batch: u64,
    /// Tokens of each; the longest that the model was made for, up to 2048, where none are given.
    pub length: Option<u64>,
    /// The type of the weights; the published one where none is given, and 32 bits where none is known.
    pub dtype: Option<Dtype>,
    /// The type of computations over 32-bit weights.
    pub autocast: Option<Dtype>,
    /// The optimizer.
    pub optimizer: Optimizer,
    /// Which layers are checkpointed.
    pub checkpointing: Checkpointing,
    /// Batches for one step.
    pub accumulation: u64,
    /// How attention is computed.
    pub attention: AttentionKernel,
    /// In how many parts the loss is computed.
    pub loss_chunks: Option<u64>,
    /// The rank of adapters.
    pub lora_rank: Option<u64>,
    /// Whether all linear layers have adapters, or attention alone.
    pub lora_everywhere: bool,
    /// The type of adapters.
    pub lora_dtype: Dtype,
    /// How frozen weights are stored.
    pub packing: WeightPacking,
    /// How GPUs share the work.
    pub parallelism: Parallelism,
    /// Whether PyTorch's allocator has that setting.
    pub expandable_segments: bool,
}

impl Default for FitChoices {
    fn default() -> Self {
        Self {
            work: WorkChoice::Train,
            batch: 1,
            length: None,
            dtype: None,
            autocast: None,
            optimizer: Optimizer::AdamW,
            checkpointing: Checkpointing::None,
            accumulation: 1,
            attention: AttentionKernel::Sdpa,
            loss_chunks: None,
            lora_rank: None,
            lora_everywhere: false,
            lora_dtype: Dtype::F32,
            packing: WeightPacking::None,
            parallelism: Parallelism::default(),
            expandable_segments: false,
        }
    }
}

/// Longer sequences than this are named.
const DEFAULT_LENGTH: u64 = 2048;

impl FitChoices {
    /// The settings for a model with this type of weights and longest sequence.
    pub fn settings(
        &self,
        published: Option<Dtype>,
        max_positions: Option<u64>,
    ) -> EstimateSettings {
        let precision = match self.autocast {
            Some(dtype) => Precision::Autocast(dtype),
            None => Precision::Pure(self.dtype.or(published).unwrap_or(Dtype::F32)),
        };
        let longest = max_positions.unwrap_or(DEFAULT_LENGTH).min(DEFAULT_LENGTH);
        EstimateSettings {
            work: match self.work {
                WorkChoice::Train => Work::Training,
                WorkChoice::Infer => Work::Inference,
                WorkChoice::Generate(count) => Work::Generation(count),
            },
            batch: self.batch,
            length: self.length.unwrap_or(longest),
            precision,
            optimizer: self.optimizer,
            checkpointing: self.checkpointing,
            accumulation: self.accumulation,
            attention: self.attention,
            loss: self
                .loss_chunks
                .map_or(LossKind::Standard, LossKind::Chunked),
            adapters: self.lora_rank.map(|rank| Adapters {
                rank,
                everywhere: self.lora_everywhere,
                dtype: self.lora_dtype,
                dropout: 0.0,
            }),
            packing: self.packing,
            expandable_segments: self.expandable_segments,
            parallelism: self.parallelism,
            ..EstimateSettings::default()
        }
    }
}
