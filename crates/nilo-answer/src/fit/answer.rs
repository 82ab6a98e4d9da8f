//! The memory of a model: the estimate, GPUs that it fits, and ways to make it fit.

use nilo_model::config::ModelConfig;
use nilo_model::dry_run::Dtype;
use nilo_model::estimate::{
    ByteRange, Checkpointing, EstimateError, EstimateSettings, LossKind, ModelEstimate, Precision,
    Sharding, TriedWay, Work, estimate, has_fused_kernel, largest_batch, ways_to_fit,
    ways_together,
};
use nilo_model::gpus::GpuKind;
use nilo_weights::Weights;
use schemars::JsonSchema;
use serde::Serialize;

use super::choices::FitChoices;
use super::part_names::{attention_name, dtype_name, optimizer_name, part_name, phase_name};
use super::source::FitModel;
use super::way_words::{cost_in_words, way_in_words, way_setting};

/// The value of [`FitAnswer::schema`].
pub const FIT_SCHEMA: &str = "nilo.fit/1";

/// Where activations are not known, this part of the weights is left for them.
const ROOM_BESIDE_WEIGHTS: u64 = 4;

/// What is asked.
#[derive(Debug, Clone)]
pub struct FitRequest {
    /// The model.
    pub model: FitModel,
    /// How it is used.
    pub choices: FitChoices,
    /// The GPUs that are asked for; the first one is taken for the estimate.
    pub gpus: Vec<GpuKind>,
    /// Whether the largest batch is looked for.
    pub wants_largest_batch: bool,
    /// Whether ways to make it fit are looked for.
    pub wants_ways: bool,
}

/// How much GPU memory a model takes.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct FitAnswer {
    /// `nilo.fit/1`.
    #[schemars(extend("const" = FIT_SCHEMA))]
    pub schema: &'static str,
    /// The model.
    pub model: FittedModel,
    /// How it is used.
    pub settings: FitSettings,
    /// How the estimate was made.
    pub method: FitMethod,
    /// The most that PyTorch's tensors take (`torch.cuda.max_memory_allocated()`).
    pub allocated_bytes: BytesRange,
    /// The most that PyTorch takes from the driver (`torch.cuda.max_memory_reserved()`).
    pub reserved_bytes: BytesRange,
    /// What the driver (`nvidia-smi`) tells of the process.
    pub process_bytes: BytesRange,
    /// What it is for, largest first; the parts add up to what is expected of the process.
    pub parts: Vec<FitPart>,
    /// In which phase the peak falls: load, forward, backward or optimizer.
    pub phase: &'static str,
    /// GPUs that were asked for.
    pub gpus: Vec<FitGpu>,
    /// Ways to make it fit the first of them, cheapest first; empty where none were asked for.
    pub ways: Vec<FitWay>,
    /// The first ways that make it fit together; `null` where it fits anyway, or does not with all of them.
    pub together: Option<FitWay>,
    /// What was assumed.
    pub notes: Vec<String>,
}

/// A model in an answer.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct FittedModel {
    /// Its name.
    pub name: String,
    /// Its family by Hugging Face's name; `null` where only its weights are known.
    pub architecture: Option<String>,
    /// Its weights, adapters among them; tied ones count once.
    pub parameters: u64,
    /// Weights that are trained.
    pub trained_parameters: u64,
    /// The bytes of its weights in the files of the checkpoint; `null` where there are none.
    pub checkpoint_bytes: Option<u64>,
    /// The same by type.
    pub checkpoint_types: Vec<CheckpointType>,
}

/// The weights of a type in a checkpoint.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct CheckpointType {
    /// Its name in the file.
    pub name: String,
    /// Weights.
    pub parameters: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// How a model is used.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct FitSettings {
    /// Training, inference or generation.
    pub work: &'static str,
    /// Sequences in a batch.
    pub batch: u64,
    /// Tokens of each.
    pub tokens: u64,
    /// Tokens that are generated.
    pub new_tokens: u64,
    /// The type of the weights.
    pub dtype: &'static str,
    /// The type of computations, where autocast is on.
    pub autocast: Option<&'static str>,
    /// The optimizer of a training.
    pub optimizer: Option<&'static str>,
    /// Every so many blocks are checkpointed; 0 is none.
    pub checkpoint_every: u64,
    /// Batches for one step.
    pub accumulation: u64,
    /// How attention is computed: sdpa, flash or eager.
    pub attention: &'static str,
    /// In how many parts the loss is computed.
    pub loss_chunks: u64,
    /// The rank of adapters; `null` without.
    pub lora_rank: Option<u64>,
    /// Layers with adapters, attention or all; `null` without.
    pub lora_layers: Option<&'static str>,
    /// The type of adapters; `null` without.
    pub lora_dtype: Option<&'static str>,
    /// Bits of frozen weights; `null` as they are.
    pub quantized_bits: Option<u64>,
    /// GPUs with batches of their own.
    pub ranks: u64,
    /// How these share the model: ddp, zero1, zero2 or zero3 (FSDP).
    pub sharding: &'static str,
    /// GPUs that share each matrix.
    pub tensor_parallel: u64,
    /// GPUs that share the layers.
    pub pipeline_parallel: u64,
    /// Whether the optimizer's state is in the memory of the host.
    pub offload_optimizer: bool,
    /// Whether PyTorch's allocator has that setting.
    pub expandable_segments: bool,
}

/// How an estimate was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FitMethod {
    /// From the weights in a checkpoint alone.
    Header,
    /// From the architecture: every tensor of some steps, through a model of PyTorch's allocator.
    ClosedForm,
}

/// Bytes that are expected, and between which figures the true ones should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
pub struct BytesRange {
    /// The true figure should not be below.
    pub low: u64,
    /// The best guess.
    pub expected: u64,
    /// The true figure should not be above.
    pub high: u64,
}

impl From<ByteRange> for BytesRange {
    fn from(range: ByteRange) -> Self {
        Self {
            low: range.low,
            expected: range.expected,
            high: range.high,
        }
    }
}

/// A part of the memory.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct FitPart {
    /// What it is for.
    pub name: &'static str,
    /// Its bytes.
    pub bytes: u64,
}

/// A GPU and whether the model fits.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct FitGpu {
    /// Its name.
    pub name: String,
    /// What programs can have of its memory.
    pub memory_bytes: u64,
    /// Whether the model fits.
    pub verdict: FitVerdict,
    /// The largest batch that fits even if the estimate is too low by as much as it may be; `null` where it was not looked for.
    pub largest_batch: Option<u64>,
    /// The largest batch that fits if the estimate is right.
    pub largest_batch_expected: Option<u64>,
}

/// Whether a model fits a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FitVerdict {
    /// Also if the estimate is too low by as much as it may be.
    Fits,
    /// The memory lies between the lowest and the highest figure.
    MayNotFit,
    /// Not even if the estimate is too high by as much as it may be.
    DoesNotFit,
}

impl FitVerdict {
    /// Of a range of bytes and a memory.
    pub fn of(range: ByteRange, memory_bytes: u64) -> Self {
        match range.fits(memory_bytes) {
            Some(true) => Self::Fits,
            Some(false) => Self::DoesNotFit,
            None => Self::MayNotFit,
        }
    }
}

/// A way to make it fit.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct FitWay {
    /// What to do.
    pub change: String,
    /// How to do it in PyTorch or Hugging Face's libraries.
    pub settings: Vec<&'static str>,
    /// What the process would take.
    pub process_bytes: BytesRange,
    /// What it would be for, largest first.
    pub parts: Vec<FitPart>,
    /// How much less that is.
    pub saved_bytes: u64,
    /// How much longer a step takes, in percent; `null` where that is not known.
    pub time_percent: Option<f64>,
    /// What else changes.
    pub cost: &'static str,
    /// Whether it fits then.
    pub verdict: FitVerdict,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    /// The settings cannot be estimated.
    #[error(transparent)]
    Estimate(#[from] EstimateError),
    /// Something that was written down for decoders is asked of another model.
    #[error("how memory grows is known for decoders only, not for {name}")]
    DecodersOnly {
        /// The model.
        name: String,
    },
    /// Only weights are known, and activations are asked for.
    #[error("{name} has no architecture beside its weights: {reason}")]
    WeightsAlone {
        /// The model.
        name: String,
        /// Why not.
        reason: String,
    },
}

impl FitRequest {
    /// The answer.
    pub fn answer(&self) -> Result<FitAnswer, FitError> {
        match &self.model.config {
            Some(config) => self.of_architecture(config),
            None => self.of_weights(),
        }
    }

    fn of_architecture(&self, config: &ModelConfig) -> Result<FitAnswer, FitError> {
        let published = config.dtype.or_else(|| self.checkpoint_dtype());
        let settings = self.choices.settings(published, config.max_positions);
        let gpu = &self.gpus[0];
        let found = estimate(&config.shape, &settings, gpu)?;
        let mut gpus = Vec::new();
        for kind in &self.gpus {
            let is_alike = kind.workspace_bytes() == gpu.workspace_bytes()
                && has_fused_kernel(&config.shape, &settings, kind)
                    == has_fused_kernel(&config.shape, &settings, gpu);
            let own = match is_alike {
                true => found.clone(),
                false => estimate(&config.shape, &settings, kind)?,
            };
            let batch = match self.wants_largest_batch {
                true => Some(largest_batch(&config.shape, &settings, kind)?),
                false => None,
            };
            gpus.push(FitGpu {
                name: kind.name.clone(),
                memory_bytes: kind.memory_bytes,
                verdict: FitVerdict::of(own.process, kind.memory_bytes),
                largest_batch: batch.map(|batch| batch.surely),
                largest_batch_expected: batch.map(|batch| batch.expected),
            });
        }
        let (ways, together) = self.ways(config, &settings, &found)?;
        Ok(FitAnswer {
            schema: FIT_SCHEMA,
            model: self.fitted(
                Some(config.model_type.clone()),
                found.parameters,
                found.trained_parameters,
            ),
            settings: FitSettings::of(&settings),
            method: FitMethod::ClosedForm,
            allocated_bytes: found.allocated.into(),
            reserved_bytes: found.reserved.into(),
            process_bytes: found.process.into(),
            parts: sorted_parts(&found),
            phase: phase_name(found.phase),
            gpus,
            ways,
            together,
            notes: self.notes(config, &settings, &found),
        })
    }

    fn ways(
        &self,
        config: &ModelConfig,
        settings: &EstimateSettings,
        found: &ModelEstimate,
    ) -> Result<(Vec<FitWay>, Option<FitWay>), FitError> {
        if !self.wants_ways {
            return Ok((Vec::new(), None));
        }
        let gpu = &self.gpus[0];
        let told = |way: &TriedWay| FitWay::of(way, found.process, gpu.memory_bytes);
        let singles = ways_to_fit(&config.shape, settings, gpu)?;
        let together = match found.process.fits(gpu.memory_bytes) {
            Some(true) => None,
            _ => ways_together(&config.shape, settings, gpu, &singles)?,
        };
        Ok((
            singles.iter().map(told).collect(),
            together.as_ref().map(told),
        ))
    }

    /// The type of most weights of the checkpoint.
    fn checkpoint_dtype(&self) -> Option<Dtype> {
        let kinds = self.model.weights.as_ref()?.by_kind();
        let (name, _) = kinds.iter().max_by_key(|(_, total)| total.parameters)?;
        match name.as_str() {
            "F32" => Some(Dtype::F32),
            "BF16" => Some(Dtype::Bf16),
            "F16" => Some(Dtype::F16),
            _ => None,
        }
    }

    fn notes(
        &self,
        config: &ModelConfig,
        settings: &EstimateSettings,
        found: &ModelEstimate,
    ) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(weights) = &self.model.weights {
            let (stored, made) = (weights.total_parameters(), found.parameters);
            let frozen = found.trained_parameters == 0 || settings.adapters.is_none();
            if frozen && stored != made {
                notes.push(format!(
                    "the checkpoint has {stored} weights, and the architecture {made}: the estimate is of the architecture"
                ));
            }
        }
        let is_chosen = self.choices.dtype.is_some() || self.choices.autocast.is_some();
        if !is_chosen && config.dtype.or_else(|| self.checkpoint_dtype()).is_none() {
            notes.push("the configuration names no type of weights that can be trained, so fp32 is assumed; --dtype chooses another".to_owned());
        }
        if config
            .max_positions
            .is_some_and(|longest| settings.length > longest)
        {
            notes.push(format!(
                "{} tokens are more than the {} positions that the model was made for",
                settings.length,
                config.max_positions.unwrap_or(0)
            ));
        }
        if !has_fused_kernel(&config.shape, settings, &self.gpus[0]) {
            notes.push("attention: no kernel takes grouped heads in 32 bits, or on a GPU before Ampere, so PyTorch keeps the scores of all pairs of tokens; estimated as eager attention".to_owned());
        }
        if !settings.parallelism.is_single() {
            notes.push(
                "several GPUs: from documented sizes of buffers, not compared with measurements"
                    .to_owned(),
            );
        }
        notes.push("torch.compile, CUDA graphs and custom kernels are not modelled".to_owned());
        notes
    }

    /// Where only the weights are known: what must be there in any case.
    fn of_weights(&self) -> Result<FitAnswer, FitError> {
        let alone = |reason: &str| FitError::WeightsAlone {
            name: self.model.name.clone(),
            reason: match &self.model.config_problem {
                Some(problem) => format!("{reason} ({problem})"),
                None => reason.to_owned(),
            },
        };
        let settings = self.choices.settings(None, None);
        let Some(weights) = &self.model.weights else {
            return Err(alone("nothing is known of it"));
        };
        if settings.work == Work::Training {
            return Err(alone(
                "a training is estimated from a config.json in the same folder; --infer estimates the weights",
            ));
        }
        let gpu = &self.gpus[0];
        let stored = weights.total_bytes();
        let (workspace, context) = (gpu.workspace_bytes(), gpu.context_bytes());
        let allocated = stored + workspace;
        let process = allocated + context;
        // Activations and caches are not known, only that there are some: room is left for them.
        let at_least = |expected: u64| ByteRange {
            low: expected,
            expected,
            high: expected + stored / ROOM_BESIDE_WEIGHTS,
        };
        let verdict = |kind: &GpuKind| FitGpu {
            name: kind.name.clone(),
            memory_bytes: kind.memory_bytes,
            verdict: FitVerdict::of(at_least(process), kind.memory_bytes),
            largest_batch: None,
            largest_batch_expected: None,
        };
        let parts = [
            ("weights", stored),
            ("workspaces", workspace),
            ("CUDA context", context),
        ];
        let mut parts = parts.map(|(name, bytes)| FitPart { name, bytes }).to_vec();
        parts.sort_by_key(|part| std::cmp::Reverse(part.bytes));
        Ok(FitAnswer {
            schema: FIT_SCHEMA,
            model: self.fitted(None, weights.total_parameters(), 0),
            settings: FitSettings::of(&settings),
            method: FitMethod::Header,
            allocated_bytes: at_least(allocated).into(),
            reserved_bytes: at_least(allocated).into(),
            process_bytes: at_least(process).into(),
            parts,
            phase: "load",
            gpus: self.gpus.iter().map(verdict).collect(),
            ways: Vec::new(),
            together: None,
            notes: vec!["activations and KV cache are not known from weights alone, so a quarter of the weights is added to the range for them; a config.json in the same folder tells them".to_owned()],
        })
    }

    fn fitted(
        &self,
        architecture: Option<String>,
        parameters: u64,
        trained_parameters: u64,
    ) -> FittedModel {
        let weights = self.model.weights.as_ref();
        FittedModel {
            name: self.model.name.clone(),
            architecture,
            parameters,
            trained_parameters,
            checkpoint_bytes: weights.map(Weights::total_bytes),
            checkpoint_types: weights.map(checkpoint_types).unwrap_or_default(),
        }
    }
}

fn checkpoint_types(weights: &Weights) -> Vec<CheckpointType> {
    let by_kind = weights.by_kind().into_iter();
    let told = by_kind.map(|(name, total)| CheckpointType {
        name,
        parameters: total.parameters,
        bytes: total.bytes,
    });
    told.collect()
}

pub(crate) fn sorted_parts(found: &ModelEstimate) -> Vec<FitPart> {
    let mut parts: Vec<FitPart> = found
        .parts
        .iter()
        .filter(|(_, bytes)| **bytes > 0)
        .map(|(part, bytes)| FitPart {
            name: part_name(*part),
            bytes: *bytes,
        })
        .collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.bytes));
    parts
}

impl FitWay {
    fn of(way: &TriedWay, before: ByteRange, memory_bytes: u64) -> Self {
        let changes: Vec<String> = way.ways.iter().map(|way| way_in_words(*way)).collect();
        let process = way.estimate.process;
        Self {
            change: changes.join(" + "),
            settings: way.ways.iter().map(|way| way_setting(*way)).collect(),
            process_bytes: process.into(),
            parts: sorted_parts(&way.estimate),
            saved_bytes: before.expected.saturating_sub(process.expected),
            time_percent: way.time_share.map(|share| (share * 1000.0).round() / 10.0),
            cost: cost_in_words(way.cost),
            verdict: FitVerdict::of(process, memory_bytes),
        }
    }
}

impl FitSettings {
    fn of(settings: &EstimateSettings) -> Self {
        let autocast = match settings.precision {
            Precision::Autocast(dtype) => Some(dtype_name(dtype)),
            Precision::Pure(_) => None,
        };
        let is_training = settings.work == Work::Training;
        Self {
            work: match settings.work {
                Work::Training => "training",
                Work::Inference => "inference",
                Work::Generation(_) => "generation",
            },
            batch: settings.batch,
            tokens: settings.length,
            new_tokens: match settings.work {
                Work::Generation(count) => count,
                _ => 0,
            },
            dtype: dtype_name(settings.precision.weights()),
            autocast,
            optimizer: is_training.then(|| optimizer_name(settings.optimizer)),
            checkpoint_every: match settings.checkpointing {
                Checkpointing::None => 0,
                Checkpointing::Full => 1,
                Checkpointing::Every(count) => count,
            },
            accumulation: settings.accumulation,
            attention: attention_name(settings.attention),
            loss_chunks: match settings.loss {
                LossKind::Standard => 1,
                LossKind::Chunked(count) => count,
            },
            lora_rank: settings.adapters.as_ref().map(|adapters| adapters.rank),
            lora_layers: settings
                .adapters
                .as_ref()
                .map(|adapters| match adapters.everywhere {
                    true => "all",
                    false => "attention",
                }),
            lora_dtype: settings
                .adapters
                .as_ref()
                .map(|adapters| dtype_name(adapters.dtype)),
            quantized_bits: match settings.packing {
                nilo_model::family::WeightPacking::None => None,
                nilo_model::family::WeightPacking::EightBits => Some(8),
                nilo_model::family::WeightPacking::FourBits => Some(4),
            },
            ranks: settings.parallelism.ranks,
            sharding: match settings.parallelism.sharding {
                Sharding::Replicated => "ddp",
                Sharding::OptimizerStates => "zero1",
                Sharding::Gradients => "zero2",
                Sharding::Weights => "zero3",
            },
            tensor_parallel: settings.parallelism.tensor,
            pipeline_parallel: settings.parallelism.pipeline,
            offload_optimizer: settings.parallelism.offloads_optimizer,
            expandable_segments: settings.expandable_segments,
        }
    }
}

/// A type by its name on the command line, in Python and in files.
pub fn dtype_of(name: &str) -> Option<Dtype> {
    match name {
        "fp32" | "float32" | "f32" => Some(Dtype::F32),
        "bf16" | "bfloat16" => Some(Dtype::Bf16),
        "fp16" | "float16" | "half" => Some(Dtype::F16),
        _ => None,
    }
}
