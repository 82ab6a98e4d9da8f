//! An estimate: what tensors, PyTorch and the process take, and what it is for.

use std::collections::BTreeMap;

use nilo_allocator::replay::TapeError;

use super::range::{ByteRange, EstimateSpread};
use super::settings::{EstimateSettings, Precision, Work};
use super::sharding::{Parallelism, Sharding, Units};
use super::trial::{Trial, try_model};
use crate::config::ModelShape;
use crate::dry_run::memory::{Purpose, StepPhase};
use crate::dry_run::ops::AttentionKernel;
use crate::family::DecoderShape;
use crate::gpus::GpuKind;

/// What a model takes on a GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelEstimate {
    /// The most that PyTorch's tensors take (`torch.cuda.max_memory_allocated()`).
    pub allocated: ByteRange,
    /// The most that PyTorch takes from the driver (`torch.cuda.max_memory_reserved()`).
    pub reserved: ByteRange,
    /// What the driver (`nvidia-smi`) tells of the process.
    pub process: ByteRange,
    /// What it is for; the parts add up to what is expected of the process.
    pub parts: BTreeMap<EstimatedPart, u64>,
    /// In which phase the peak falls.
    pub phase: StepPhase,
    /// Weights of the model, adapters among them.
    pub parameters: u64,
    /// Weights that are trained.
    pub trained_parameters: u64,
}

/// What memory of a process is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EstimatedPart {
    /// A tensor's purpose.
    Tensors(Purpose),
    /// What the allocator adds to each tensor.
    Rounding,
    /// What PyTorch has taken from the driver and does not use.
    UnusedByAllocator,
    /// CUDA's context and loaded kernels.
    Context,
    /// Communicators of NCCL.
    CommunicationLibrary,
}

/// Why there is no estimate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EstimateError {
    /// The GPUs cannot share this model so.
    #[error("{reason}")]
    CannotShare {
        /// What does not go together.
        reason: String,
    },
    /// Settings that contradict each other.
    #[error("{reason}")]
    Contradiction {
        /// Which ones.
        reason: &'static str,
    },
    /// The dry run made an impossible list of allocations.
    #[error("the estimate failed: {0}")]
    Tape(#[from] TapeError),
}

/// Estimates a model on a GPU.
pub fn estimate(
    shape: &ModelShape,
    settings: &EstimateSettings,
    gpu: &GpuKind,
) -> Result<ModelEstimate, EstimateError> {
    settings.check()?;
    let settings = EstimateSettings {
        workspace_bytes: gpu.workspace_bytes(),
        // Without a kernel PyTorch computes one operation after another, with all scores in memory.
        attention: match has_fused_kernel(shape, settings, gpu) {
            true => settings.attention,
            false => AttentionKernel::Eager,
        },
        ..settings.clone()
    };
    let own = share_of_shape(shape, &settings.parallelism)?;
    let trial = try_model(&own, &settings)?;
    if settings.parallelism.is_single() {
        return Ok(on_one_gpu(&trial, gpu));
    }
    let units = match &own {
        ModelShape::Decoder(shape) => units_of(shape, &settings)?,
        _ => Units {
            layer: 0,
            root: trial.parameters,
        },
    };
    let whole = match settings.parallelism.tensor * settings.parallelism.pipeline {
        1 => trial.parameters,
        _ => try_model(shape, &one_step_of(&settings))?.parameters,
    };
    let mut shared = on_several(&trial, &settings, units, gpu);
    shared.parameters = whole;
    Ok(shared)
}

/// Whether `scaled_dot_product_attention` has a kernel for the heads of a model.
///
/// Only flash attention takes fewer heads of keys than of queries. It computes in 16 bits, from compute capability 8.0 on (pytorch/pytorch#181528).
pub fn has_fused_kernel(shape: &ModelShape, settings: &EstimateSettings, gpu: &GpuKind) -> bool {
    let ModelShape::Decoder(shape) = shape else {
        return true;
    };
    let is_grouped = shape.heads != shape.kv_heads && shape.latent.is_none();
    let computes_in = match settings.precision {
        Precision::Autocast(dtype) | Precision::Pure(dtype) => dtype,
    };
    let has_flash = computes_in.is_half() && gpu.capability >= FIRST_WITH_FLASH;
    settings.attention != AttentionKernel::Sdpa || !is_grouped || has_flash
}

/// The compute capability from which on flash attention runs.
const FIRST_WITH_FLASH: (u32, u32) = (8, 0);

/// A cheap run, for counting.
fn one_step_of(settings: &EstimateSettings) -> EstimateSettings {
    EstimateSettings {
        work: Work::Inference,
        batch: 1,
        length: 1,
        ..settings.clone()
    }
}

fn on_one_gpu(trial: &Trial, gpu: &GpuKind) -> ModelEstimate {
    let context = gpu.context_bytes();
    let tensors = trial.parts.values().sum::<u64>();
    let process = trial.reserved_bytes + context;
    let mut parts = labelled(&trial.parts);
    parts.insert(EstimatedPart::Rounding, trial.allocated_bytes - tensors);
    let unused = trial.reserved_bytes - trial.allocated_bytes;
    parts.insert(EstimatedPart::UnusedByAllocator, unused);
    parts.insert(EstimatedPart::Context, context);
    ModelEstimate {
        allocated: ByteRange::around(trial.allocated_bytes, EstimateSpread::Allocated),
        reserved: ByteRange::around(trial.reserved_bytes, EstimateSpread::Reserved),
        process: ByteRange::around(process, EstimateSpread::Reserved),
        parts,
        phase: trial.phase,
        parameters: trial.parameters,
        trained_parameters: trial.trained_parameters,
    }
}

fn on_several(
    trial: &Trial,
    settings: &EstimateSettings,
    units: Units,
    gpu: &GpuKind,
) -> ModelEstimate {
    let parallelism = &settings.parallelism;
    let dtype = settings.precision.weights();
    let in_flight = parallelism.pipeline.min(settings.accumulation).max(1);
    let share = |(phase, peak): (&StepPhase, &super::phase_peaks::PhasePeak)| {
        let mut parts = peak.parts.clone();
        if in_flight > 1 {
            for (purpose, bytes) in &mut parts {
                if is_kept_for_backward(*purpose) {
                    *bytes *= in_flight;
                }
            }
        }
        let parts = parallelism.share_of(*phase, &parts, units, dtype);
        (*phase, parts)
    };
    let shares = trial.phase_peaks.iter().map(share);
    let (phase, parts) = shares
        .max_by_key(|(_, parts)| parts.values().sum::<u64>())
        .unwrap_or((StepPhase::Load, BTreeMap::new()));
    let allocated = parts.values().sum::<u64>();
    // The allocator was not run for this: it is taken to leave unused what it does on one GPU.
    let unused_share = trial.reserved_bytes as f64 / trial.allocated_bytes.max(1) as f64 - 1.0;
    let unused = (allocated as f64 * unused_share) as u64;
    let (context, library) = (gpu.context_bytes(), parallelism.library_bytes());
    let mut parts = labelled(&parts);
    parts.insert(EstimatedPart::UnusedByAllocator, unused);
    parts.insert(EstimatedPart::Context, context);
    if library > 0 {
        parts.insert(EstimatedPart::CommunicationLibrary, library);
    }
    let process = allocated + unused + context + library;
    ModelEstimate {
        allocated: ByteRange::around(allocated, EstimateSpread::Sharded),
        reserved: ByteRange::around(allocated + unused, EstimateSpread::Sharded),
        process: ByteRange::around(process, EstimateSpread::Sharded),
        parts,
        phase,
        parameters: trial.parameters,
        trained_parameters: trial.trained_parameters,
    }
}

fn labelled(parts: &BTreeMap<Purpose, u64>) -> BTreeMap<EstimatedPart, u64> {
    let label = |(purpose, bytes): (&Purpose, &u64)| (EstimatedPart::Tensors(*purpose), *bytes);
    parts.iter().map(label).collect()
}

fn is_kept_for_backward(purpose: Purpose) -> bool {
    matches!(
        purpose,
        Purpose::Activations | Purpose::Attention | Purpose::FeedForward | Purpose::Normalization
    )
}

/// What one of the GPUs that share layers and matrices has of the model.
fn share_of_shape(
    shape: &ModelShape,
    parallelism: &Parallelism,
) -> Result<ModelShape, EstimateError> {
    let (tensor, pipeline) = (parallelism.tensor, parallelism.pipeline);
    if tensor * pipeline == 1 {
        return Ok(shape.clone());
    }
    let ModelShape::Decoder(shape) = shape else {
        return Err(EstimateError::CannotShare {
            reason: "tensor and pipeline parallelism are known for decoders only".to_owned(),
        });
    };
    let heads = [shape.heads, shape.kv_heads];
    if let Some(count) = heads.iter().find(|count| !count.is_multiple_of(tensor)) {
        return Err(EstimateError::CannotShare {
            reason: format!("{tensor} GPUs cannot share {count} heads of attention evenly"),
        });
    }
    if pipeline > shape.layers {
        return Err(EstimateError::CannotShare {
            reason: format!("{pipeline} GPUs cannot share {} layers", shape.layers),
        });
    }
    let mut own = (**shape).clone();
    own.heads /= tensor;
    own.kv_heads /= tensor;
    own.feed_forward = own.feed_forward.div_ceil(tensor);
    own.vocabulary = own.vocabulary.div_ceil(tensor);
    if let Some(mixture) = &mut own.mixture {
        mixture.width = mixture.width.div_ceil(tensor);
        mixture.shared_width = mixture.shared_width.div_ceil(tensor);
    }
    own.layers = own.layers.div_ceil(pipeline);
    Ok(ModelShape::Decoder(Box::new(own)))
}

/// Weights of a layer and outside of layers, from models of one and two layers.
fn units_of(shape: &DecoderShape, settings: &EstimateSettings) -> Result<Units, EstimateError> {
    let counted = |layers: u64| {
        let mut small = shape.clone();
        let dense = small
            .mixture
            .as_ref()
            .map_or(0, |mixture| mixture.dense_layers);
        if let Some(mixture) = &mut small.mixture {
            mixture.dense_layers = 0;
        }
        small.layers = layers.min(shape.layers.max(dense));
        let shape = ModelShape::Decoder(Box::new(small));
        try_model(&shape, &one_step_of(settings)).map(|trial| trial.parameters)
    };
    let (one, two) = (counted(1)?, counted(2)?);
    let layer = two - one;
    Ok(Units {
        layer,
        root: one - layer,
    })
}

impl EstimateSettings {
    /// Refuses settings that do not go together.
    pub fn check(&self) -> Result<(), EstimateError> {
        let contradiction = |reason| Err(EstimateError::Contradiction { reason });
        let is_training = self.work == Work::Training;
        if self.batch == 0 || self.length == 0 || self.accumulation == 0 {
            return contradiction("a batch needs at least one sequence with one token");
        }
        if self.packing != crate::family::WeightPacking::None
            && is_training
            && self.adapters.is_none()
        {
            return contradiction("quantized weights cannot be trained, only adapters beside them");
        }
        let parallelism = &self.parallelism;
        if parallelism.ranks == 1 && parallelism.sharding != Sharding::Replicated {
            return contradiction("sharding needs more than one GPU");
        }
        if parallelism.gpus() == 0 {
            return contradiction("at least one GPU is needed");
        }
        Ok(())
    }
}
