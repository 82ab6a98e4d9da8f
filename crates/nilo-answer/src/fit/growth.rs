//! How memory and time grow with one setting: the batch, the sequence, the vocabulary, the width or the layers.

use nilo_model::config::ModelShape;
use nilo_model::estimate::{EstimateError, EstimateSettings, estimate, forward_multiplications};
use nilo_model::family::DecoderShape;
use nilo_model::gpus::GpuKind;
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::{BytesRange, FitError, FitPart, FitVerdict, sorted_parts};
use super::choices::FitChoices;
use super::source::FitModel;

/// The value of [`FitGrowthAnswer::schema`].
pub const FIT_GROWTH_SCHEMA: &str = "nilo.fit-growth/1";

/// What is varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum VariedSetting {
    /// Sequences in a batch.
    Batch,
    /// Tokens of each.
    Seq,
    /// Words.
    Vocab,
    /// Numbers of a token, with as many more heads and as wide a feed-forward part.
    Width,
    /// Blocks.
    Layers,
}

/// Memory and time for each value.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct FitGrowthAnswer {
    /// `nilo.fit-growth/1`.
    #[schemars(extend("const" = FIT_GROWTH_SCHEMA))]
    pub schema: &'static str,
    /// The model.
    pub model: String,
    /// What is varied.
    pub varied: VariedSetting,
    /// The GPU.
    pub gpu: String,
    /// What programs can have of its memory.
    pub gpu_memory_bytes: u64,
    /// The values, smallest first.
    pub rows: Vec<GrowthRow>,
}

/// One value.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct GrowthRow {
    /// The value.
    pub value: u64,
    /// Weights of the model.
    pub parameters: u64,
    /// What tensors take.
    pub allocated_bytes: BytesRange,
    /// What the process takes.
    pub process_bytes: BytesRange,
    /// What it is for, largest first.
    pub parts: Vec<FitPart>,
    /// By which power of the value allocated memory grew since the row before: 1 is in proportion, 2 with the square.
    pub memory_exponent: Option<f64>,
    /// The time of a step as a multiple of that of the first row, from counts of multiplications.
    pub time_ratio: f64,
    /// Whether it fits the GPU.
    pub verdict: FitVerdict,
}

/// As many as a configuration may have.
const MOST_LAYERS: u64 = 10_000;
/// How often the value is doubled where none are given.
const DOUBLINGS: u32 = 5;

impl FitGrowthAnswer {
    /// Estimates a model for each value; where none are given, the value is doubled some times.
    pub fn of(
        model: &FitModel,
        choices: &FitChoices,
        gpu: &GpuKind,
        varied: VariedSetting,
        values: &[u64],
    ) -> Result<Self, FitError> {
        let known = model
            .config
            .as_ref()
            .and_then(|config| match &config.shape {
                ModelShape::Decoder(shape) => Some((config, shape)),
                _ => None,
            });
        let Some((config, shape)) = known else {
            return Err(FitError::DecodersOnly {
                name: model.name.clone(),
            });
        };
        let settings = choices.settings(config.dtype, config.max_positions);
        let mut wanted = match values.is_empty() {
            true => doubled(varied, shape, &settings),
            false => values.to_vec(),
        };
        wanted.sort_unstable();
        wanted.dedup();
        let mut rows: Vec<GrowthRow> = Vec::new();
        let mut first = None;
        for value in wanted {
            let (shape, settings) = with_value(varied, value, shape, &settings)?;
            let time = forward_multiplications(&shape, settings.batch, settings.length);
            let first = *first.get_or_insert(time);
            let found = estimate(&ModelShape::Decoder(Box::new(shape)), &settings, gpu)?;
            let before = rows.last();
            rows.push(GrowthRow {
                value,
                parameters: found.parameters,
                memory_exponent: before.map(|row| exponent(row, value, found.allocated.expected)),
                allocated_bytes: found.allocated.into(),
                process_bytes: found.process.into(),
                parts: sorted_parts(&found),
                time_ratio: time / first,
                verdict: FitVerdict::of(found.process, gpu.memory_bytes),
            });
        }
        Ok(Self {
            schema: FIT_GROWTH_SCHEMA,
            model: model.name.clone(),
            varied,
            gpu: gpu.name.clone(),
            gpu_memory_bytes: gpu.memory_bytes,
            rows,
        })
    }
}

fn exponent(before: &GrowthRow, value: u64, allocated: u64) -> f64 {
    let memory = allocated as f64 / before.allocated_bytes.expected as f64;
    let factor = value as f64 / before.value as f64;
    (100.0 * memory.ln() / factor.ln()).round() / 100.0
}

fn doubled(varied: VariedSetting, shape: &DecoderShape, settings: &EstimateSettings) -> Vec<u64> {
    let from = match varied {
        VariedSetting::Batch => settings.batch,
        VariedSetting::Seq => settings.length.div_ceil(8),
        VariedSetting::Vocab => shape.vocabulary.div_ceil(8),
        VariedSetting::Width => shape.hidden,
        VariedSetting::Layers => shape.layers.div_ceil(4),
    };
    (0..=DOUBLINGS).map(|power| from << power).collect()
}

fn with_value(
    varied: VariedSetting,
    value: u64,
    shape: &DecoderShape,
    settings: &EstimateSettings,
) -> Result<(DecoderShape, EstimateSettings), EstimateError> {
    let (mut shape, mut settings) = (shape.clone(), settings.clone());
    match varied {
        VariedSetting::Batch => settings.batch = value,
        VariedSetting::Seq => settings.length = value,
        VariedSetting::Vocab => shape.vocabulary = value,
        VariedSetting::Layers if value > MOST_LAYERS => {
            return Err(EstimateError::Contradiction {
                reason: "a model has at most 10000 layers",
            });
        }
        VariedSetting::Layers => shape.layers = value,
        VariedSetting::Width => {
            if !value.is_multiple_of(shape.head_dim) {
                return Err(EstimateError::Contradiction {
                    reason: "a width must be a multiple of the size of a head",
                });
            }
            let scaled = |count: u64| (count * value).div_ceil(shape.hidden).max(1);
            let (heads, kv_heads, feed_forward) = (
                scaled(shape.heads),
                scaled(shape.kv_heads),
                scaled(shape.feed_forward),
            );
            // Heads stay groups of equal size.
            let group = (heads / kv_heads).max(1);
            (shape.heads, shape.kv_heads) = (group * kv_heads, kv_heads);
            shape.feed_forward = feed_forward;
            shape.hidden = value;
        }
    }
    Ok((shape, settings))
}
