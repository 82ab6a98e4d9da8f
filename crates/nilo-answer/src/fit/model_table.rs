//! Models beside GPUs: what each takes for inference and training, and which GPU has room for it.

use nilo_model::catalogue::{KnownModel, models};
use nilo_model::estimate::{ByteRange, EstimateError, estimate};
use nilo_model::gpus::GpuKind;
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::{BytesRange, FitVerdict};
use super::choices::{FitChoices, WorkChoice};

/// The value of [`ModelTableAnswer::schema`].
pub const MODEL_TABLE_SCHEMA: &str = "nilo.fit-table/1";

/// Models and the GPUs that they fit.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct ModelTableAnswer {
    /// `nilo.fit-table/1`.
    #[schemars(extend("const" = MODEL_TABLE_SCHEMA))]
    pub schema: &'static str,
    /// The GPUs, in the order of the verdicts.
    pub gpus: Vec<TableGpu>,
    /// The models.
    pub models: Vec<TableModel>,
}

/// A GPU of the table.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct TableGpu {
    /// Its name.
    pub name: String,
    /// What programs can have of its memory.
    pub memory_bytes: u64,
}

/// A model of the table.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct TableModel {
    /// Its name on the command line.
    pub slug: String,
    /// Its name.
    pub name: String,
    /// All its weights.
    pub parameters: u64,
    /// Those that a token passes through.
    pub active_parameters: u64,
    /// The bytes of its weights in 16 bits.
    pub weights_bytes: u64,
    /// What the process takes for inference in 16 bits.
    pub inference_bytes: BytesRange,
    /// What it takes for a training with AdamW in 16 bits.
    pub training_bytes: BytesRange,
    /// Whether inference fits, GPU by GPU.
    pub inference: Vec<FitVerdict>,
    /// Whether training fits, GPU by GPU.
    pub training: Vec<FitVerdict>,
}

/// Tokens of the sequence that the table is about.
const TABLE_TOKENS: u64 = 512;

impl ModelTableAnswer {
    /// All models of the catalogue, or those named.
    pub fn of(names: &[KnownModel], gpus: &[GpuKind]) -> Result<Self, EstimateError> {
        let all = match names.is_empty() {
            true => models(),
            false => names.to_vec(),
        };
        let rows: Result<Vec<_>, _> = all.iter().map(|model| row(model, gpus)).collect();
        Ok(Self {
            schema: MODEL_TABLE_SCHEMA,
            gpus: gpus
                .iter()
                .map(|gpu| TableGpu {
                    name: gpu.name.clone(),
                    memory_bytes: gpu.memory_bytes,
                })
                .collect(),
            models: rows?,
        })
    }
}

fn row(model: &KnownModel, gpus: &[GpuKind]) -> Result<TableModel, EstimateError> {
    let config = model.config().map_err(|_| EstimateError::Contradiction {
        reason: "a model of the catalogue has no known architecture",
    })?;
    let process = |work: WorkChoice, gpu: &GpuKind| -> Result<ByteRange, EstimateError> {
        let choices = FitChoices {
            work,
            length: Some(TABLE_TOKENS),
            dtype: Some(nilo_model::dry_run::Dtype::Bf16),
            ..FitChoices::default()
        };
        let settings = choices.settings(config.dtype, config.max_positions);
        Ok(estimate(&config.shape, &settings, gpu)?.process)
    };
    let (inference, training) = (
        process(WorkChoice::Infer, &gpus[0])?,
        process(WorkChoice::Train, &gpus[0])?,
    );
    let verdicts = |work: WorkChoice| -> Result<Vec<FitVerdict>, EstimateError> {
        let verdict = |gpu: &GpuKind| Ok(FitVerdict::of(process(work, gpu)?, gpu.memory_bytes));
        gpus.iter().map(verdict).collect()
    };
    Ok(TableModel {
        slug: model.slug.to_owned(),
        name: model.name.to_owned(),
        parameters: model.parameters,
        active_parameters: model.active_parameters,
        weights_bytes: 2 * model.parameters,
        inference_bytes: inference.into(),
        training_bytes: training.into(),
        inference: verdicts(WorkChoice::Infer)?,
        training: verdicts(WorkChoice::Train)?,
    })
}
