//! Ways to make a model fit, in the order of what they cost. Each is estimated, none is a rule of thumb.

use super::estimated::{EstimateError, ModelEstimate, estimate};
use super::multiplications::head_share;
use super::settings::{Checkpointing, EstimateSettings, LossKind, Precision, Work};
use super::sharding::Sharding;
use crate::config::ModelShape;
use crate::dry_run::optimizer::Optimizer;
use crate::dry_run::tensor::Dtype;
use crate::family::{Adapters, WeightPacking};
use crate::gpus::GpuKind;

/// A change of the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`.
    ExpandableSegments,
    /// An optimizer in one kernel.
    FusedOptimizer,
    /// The loss of some tokens at a time.
    ChunkedLoss(u64),
    /// Attention without the scores of all pairs of tokens.
    FusedAttention,
    /// An optimizer with state in 8 bits.
    EightBitOptimizer,
    /// Smaller batches, whose gradients are added up.
    Accumulate {
        /// The smaller batch.
        batch: u64,
        /// How many of them.
        times: u64,
    },
    /// Checkpoints of every second layer.
    CheckpointHalf,
    /// Checkpoints of all layers.
    CheckpointAll,
    /// Computations in 16 bits.
    Autocast,
    /// Weights, gradients and optimizer in 16 bits.
    Pure16Bits,
    /// Low-rank adapters in the place of all weights.
    Lora,
    /// The same beside weights of 4 bits.
    Qlora,
    /// Weights of 8 or 4 bits.
    Quantize(WeightPacking),
    /// Several GPUs that share weights, gradients and optimizer states.
    Shard(u64),
}

/// What else changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WayCost {
    /// The results are the same.
    SameResults,
    /// Numbers have fewer bits, so the training may differ slightly.
    LessPrecision,
    /// Less is trained.
    TrainsLess,
    /// More GPUs are needed.
    MoreGpus,
}

/// A way with what it comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct TriedWay {
    /// The change, or several together.
    pub ways: Vec<Way>,
    /// The settings with it.
    pub settings: EstimateSettings,
    /// The estimate with it.
    pub estimate: ModelEstimate,
    /// How much longer a step takes, as a share, from counts of multiplications; none where that is not known.
    pub time_share: Option<f64>,
    /// What else changes.
    pub cost: WayCost,
}

/// Tokens whose scores are computed at once.
const CHUNK_TOKENS: u64 = 2048;
const LORA_RANK: u64 = 16;
const SHARDS: [u64; 3] = [2, 4, 8];
/// What saves less is not worth a line.
const LEAST_SHARE: f64 = 0.01;

impl Way {
    /// What it costs besides time.
    pub fn cost(self) -> WayCost {
        match self {
            Self::EightBitOptimizer | Self::Autocast | Self::Pure16Bits | Self::Quantize(_) => {
                WayCost::LessPrecision
            }
            Self::Lora | Self::Qlora => WayCost::TrainsLess,
            Self::Shard(_) => WayCost::MoreGpus,
            _ => WayCost::SameResults,
        }
    }

    fn applied(self, settings: &EstimateSettings) -> EstimateSettings {
        let mut changed = settings.clone();
        match self {
            Self::ExpandableSegments => changed.expandable_segments = true,
            Self::FusedOptimizer => changed.optimizer = Optimizer::AdamWFused,
            Self::ChunkedLoss(chunks) => changed.loss = LossKind::Chunked(chunks),
            Self::FusedAttention => changed.attention = crate::dry_run::ops::AttentionKernel::Sdpa,
            Self::EightBitOptimizer => changed.optimizer = Optimizer::AdamW8bit,
            Self::Accumulate { batch, times } => {
                changed.batch = batch;
                changed.accumulation = settings.accumulation * times;
            }
            Self::CheckpointHalf => changed.checkpointing = Checkpointing::Every(2),
            Self::CheckpointAll => changed.checkpointing = Checkpointing::Full,
            Self::Autocast => changed.precision = Precision::Autocast(Dtype::Bf16),
            Self::Pure16Bits => changed.precision = Precision::Pure(Dtype::Bf16),
            Self::Lora | Self::Qlora => {
                changed.adapters = Some(Adapters {
                    rank: LORA_RANK,
                    everywhere: true,
                    dtype: Dtype::Bf16,
                    dropout: 0.0,
                });
                if changed.precision.weights() == Dtype::F32 {
                    changed.precision = Precision::Pure(Dtype::Bf16);
                }
                if self == Self::Qlora {
                    changed.packing = WeightPacking::FourBits;
                }
            }
            Self::Quantize(packing) => changed.packing = packing,
            Self::Shard(ranks) => {
                changed.parallelism.ranks = ranks;
                changed.parallelism.sharding = Sharding::Weights;
            }
        }
        changed
    }

    /// How much longer a step takes with it.
    fn time_share(self, shape: &ModelShape, settings: &EstimateSettings) -> Option<f64> {
        match self {
            Self::ExpandableSegments | Self::FusedOptimizer | Self::EightBitOptimizer => Some(0.0),
            Self::Accumulate { .. } => Some(0.0),
            // Forward takes a third of a step, and is computed once more.
            Self::CheckpointAll => Some(1.0 / 3.0),
            Self::CheckpointHalf => Some(1.0 / 6.0),
            Self::ChunkedLoss(_) => match shape {
                ModelShape::Decoder(shape) => Some(head_share(shape, settings.length) / 3.0),
                _ => None,
            },
            _ => None,
        }
    }
}

/// All ways that are open to these settings, by what they cost.
fn open_ways(settings: &EstimateSettings) -> Vec<Way> {
    let mut ways = Vec::new();
    if !settings.expandable_segments {
        ways.push(Way::ExpandableSegments);
    }
    if settings.work != Work::Training {
        if settings.packing == WeightPacking::None {
            ways.extend([
                Way::Quantize(WeightPacking::EightBits),
                Way::Quantize(WeightPacking::FourBits),
            ]);
        }
        if settings.precision.weights() == Dtype::F32 {
            ways.push(Way::Pure16Bits);
        }
        return ways;
    }
    if settings.optimizer == Optimizer::AdamW {
        ways.push(Way::FusedOptimizer);
    }
    if settings.attention == crate::dry_run::ops::AttentionKernel::Eager {
        ways.push(Way::FusedAttention);
    }
    let tokens = settings.batch * settings.length;
    if settings.loss == LossKind::Standard && tokens > CHUNK_TOKENS {
        ways.push(Way::ChunkedLoss(tokens.div_ceil(CHUNK_TOKENS)));
    }
    let mut times = 2;
    while times <= settings.batch {
        if settings.batch.is_multiple_of(times) {
            let batch = settings.batch / times;
            ways.push(Way::Accumulate { batch, times });
        }
        times *= 2;
    }
    if settings.checkpointing == Checkpointing::None {
        ways.extend([Way::CheckpointHalf, Way::CheckpointAll]);
    }
    if matches!(settings.optimizer, Optimizer::AdamW | Optimizer::AdamWFused) {
        ways.push(Way::EightBitOptimizer);
    }
    if settings.precision == Precision::Pure(Dtype::F32) {
        ways.push(Way::Autocast);
    }
    if settings.precision.weights() == Dtype::F32 {
        ways.push(Way::Pure16Bits);
    }
    if settings.adapters.is_none() {
        ways.extend([Way::Lora, Way::Qlora]);
    }
    if settings.parallelism.gpus() == 1 {
        ways.extend(SHARDS.map(Way::Shard));
    }
    ways
}

/// Each way by itself, cheapest first; what saves nothing worth mentioning is left out.
pub fn ways_to_fit(
    shape: &ModelShape,
    settings: &EstimateSettings,
    gpu: &GpuKind,
) -> Result<Vec<TriedWay>, EstimateError> {
    let before = estimate(shape, settings, gpu)?.process.expected;
    let mut tried = Vec::new();
    for way in open_ways(settings) {
        let Ok(found) = try_ways(shape, settings, gpu, &[way]) else {
            continue;
        };
        let saved = before.saturating_sub(found.estimate.process.expected);
        if saved as f64 >= LEAST_SHARE * before as f64 {
            tried.push(found);
        }
    }
    let order = |way: &TriedWay| {
        (
            way.cost as u8,
            way.time_share.map_or(0, |share| (share * 1e6) as u64),
        )
    };
    tried.sort_by_key(order);
    Ok(tried)
}

/// The first ways that fit together, added one by one; none where even all of them do not, or where it fits anyway.
pub fn ways_together(
    shape: &ModelShape,
    settings: &EstimateSettings,
    gpu: &GpuKind,
    singles: &[TriedWay],
) -> Result<Option<TriedWay>, EstimateError> {
    let mut chosen: Vec<Way> = Vec::new();
    let mut best = estimate(shape, settings, gpu)?.process;
    for single in singles.iter().filter(|way| way.cost != WayCost::MoreGpus) {
        let [way] = single.ways[..] else { continue };
        let replaced = |other: &Way| {
            std::mem::discriminant(other) == std::mem::discriminant(&way) || is_covered(*other, way)
        };
        let mut next: Vec<Way> = chosen
            .iter()
            .copied()
            .filter(|other| !replaced(other))
            .collect();
        next.push(way);
        let Ok(found) = try_ways(shape, settings, gpu, &next) else {
            continue;
        };
        if found.estimate.process.expected >= best.expected {
            continue;
        }
        best = found.estimate.process;
        if best.fits(gpu.memory_bytes) == Some(true) {
            return only_needed(shape, settings, gpu, found).map(Some);
        }
        chosen = next;
    }
    Ok(None)
}

/// Without the ways that it fits without, the costliest first.
fn only_needed(
    shape: &ModelShape,
    settings: &EstimateSettings,
    gpu: &GpuKind,
    mut found: TriedWay,
) -> Result<TriedWay, EstimateError> {
    let mut by_cost = found.ways.clone();
    let cost = |way: &Way| {
        let time = way.time_share(shape, settings).unwrap_or(1.0);
        (way.cost() as u8, (time * 1e6) as u64)
    };
    by_cost.sort_by_key(|way| std::cmp::Reverse(cost(way)));
    for way in by_cost {
        let rest: Vec<Way> = found
            .ways
            .iter()
            .copied()
            .filter(|other| *other != way)
            .collect();
        if rest.is_empty() {
            break;
        }
        let without = try_ways(shape, settings, gpu, &rest)?;
        if without.estimate.process.fits(gpu.memory_bytes) == Some(true) {
            found = without;
        }
    }
    Ok(found)
}

/// Whether a way makes another one pointless.
fn is_covered(way: Way, by: Way) -> bool {
    matches!(
        (way, by),
        (Way::CheckpointHalf, Way::CheckpointAll)
            | (Way::FusedOptimizer, Way::EightBitOptimizer)
            | (Way::Lora, Way::Qlora)
            | (Way::Autocast, Way::Pure16Bits)
    )
}

fn try_ways(
    shape: &ModelShape,
    settings: &EstimateSettings,
    gpu: &GpuKind,
    ways: &[Way],
) -> Result<TriedWay, EstimateError> {
    let changed = ways
        .iter()
        .fold(settings.clone(), |changed, way| way.applied(&changed));
    let estimate = estimate(shape, &changed, gpu)?;
    let times: Option<Vec<f64>> = ways
        .iter()
        .map(|way| way.time_share(shape, settings))
        .collect();
    let costs = ways.iter().map(|way| way.cost());
    Ok(TriedWay {
        ways: ways.to_vec(),
        settings: changed,
        estimate,
        time_share: times.map(|times| times.iter().sum()),
        cost: costs
            .max_by_key(|cost| *cost as u8)
            .unwrap_or(WayCost::SameResults),
    })
}
