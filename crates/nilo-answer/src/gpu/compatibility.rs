//! Which models fit a GPU, and what would make the others fit.

use nilo_model::catalogue::find_model;
use nilo_model::dry_run::Dtype;
use nilo_model::estimate::WayCost;
use nilo_model::gpus::{GpuKind, gpus};
use nilo_sample::units::format_bytes;
use schemars::JsonSchema;
use serde::Serialize;

use super::requirements::ModelRequirement;
use crate::fit::answer::{BytesRange, FitVerdict, FitWay};
use crate::fit::way_words::cost_in_words;
use crate::fit::{FitChoices, FitModel, FitRequest, WorkChoice};

/// Models beside one GPU.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct GpuCompatibility {
    /// The GPU.
    pub gpu: String,
    /// What programs can have of its memory.
    pub available_gpu_memory_bytes: u64,
    /// What of it is free; `null` where that is not known.
    pub free_bytes: Option<u64>,
    /// A row for each model and use.
    pub models: Vec<CompatibilityRow>,
    /// What follows, in sentences; empty where several GPUs are compared.
    pub verdict: Vec<String>,
}

/// A model and a use of it on a GPU.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct CompatibilityRow {
    /// The model's name on the command line.
    pub slug: String,
    /// Its name.
    pub name: String,
    /// Inference or training.
    #[serde(rename = "use")]
    pub model_use: ModelUse,
    /// What the process takes.
    pub required_bytes: BytesRange,
    /// Whether the GPU has room for it.
    pub status: FitVerdict,
    /// Whether what is free has room for it; `null` where that is not known.
    pub status_now: Option<FitVerdict>,
    /// What would help; `null` where it fits, or where several GPUs are compared.
    pub advice: Option<FitAdvice>,
}

/// What a model is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelUse {
    /// A pass over a batch.
    Inference,
    /// A training of all weights with Adam.
    Training,
}

/// What would make a model fit.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct FitAdvice {
    /// The cheapest change, or several together, with which it fits this GPU; `null` where none is known.
    pub way: Option<FitWay>,
    /// The fewest GPUs of this kind that have room for it together.
    pub way_with_more_gpus: Option<FitWay>,
    /// The smallest GPU of the catalogue that has room for it as it is.
    pub smallest_gpu: Option<String>,
}

/// Tokens of the sequence that the table of models is about.
const TABLE_TOKENS: u64 = 512;

impl GpuCompatibility {
    /// Models beside a GPU, with advice where it is wanted.
    pub fn of(
        models: &[ModelRequirement],
        gpu: &GpuKind,
        free_bytes: Option<u64>,
        wants_advice: bool,
    ) -> Self {
        let uses = [ModelUse::Inference, ModelUse::Training];
        let pairs = models
            .iter()
            .flat_map(|model| uses.map(|used| (model, used)));
        let rows: Vec<CompatibilityRow> = pairs
            .map(|(model, used)| CompatibilityRow::of(model, used, gpu, free_bytes, wants_advice))
            .collect();
        Self {
            gpu: gpu.name.clone(),
            available_gpu_memory_bytes: gpu.memory_bytes,
            free_bytes,
            verdict: match wants_advice {
                true => sentences(&rows),
                false => Vec::new(),
            },
            models: rows,
        }
    }
}

impl CompatibilityRow {
    fn of(
        model: &ModelRequirement,
        model_use: ModelUse,
        gpu: &GpuKind,
        free_bytes: Option<u64>,
        wants_advice: bool,
    ) -> Self {
        let required_bytes = match model_use {
            ModelUse::Inference => model.inference_bytes,
            ModelUse::Training => model.training_bytes,
        };
        let status = status_of(required_bytes, gpu.memory_bytes);
        let is_in_need = wants_advice && status != FitVerdict::Fits;
        Self {
            slug: model.slug.clone(),
            name: model.name.clone(),
            model_use,
            required_bytes,
            status,
            status_now: free_bytes.map(|free| status_of(required_bytes, free)),
            advice: is_in_need
                .then(|| FitAdvice::find(&model.slug, model_use, required_bytes, gpu)),
        }
    }

    /// `Llama 3.1 8B training`.
    fn subject(&self) -> String {
        format!("{} {}", self.name, self.model_use.name())
    }
}

impl ModelUse {
    /// Its name in texts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inference => "inference",
            Self::Training => "training",
        }
    }
}

/// Whether a memory has room for a range of bytes.
fn status_of(required: BytesRange, memory_bytes: u64) -> FitVerdict {
    if required.high <= memory_bytes {
        return FitVerdict::Fits;
    }
    match required.low > memory_bytes {
        true => FitVerdict::DoesNotFit,
        false => FitVerdict::MayNotFit,
    }
}

impl FitAdvice {
    /// Looks for the cheapest ways.
    fn find(slug: &str, model_use: ModelUse, required: BytesRange, gpu: &GpuKind) -> Self {
        let (on_this_gpu, with_more_gpus) = fitting_ways(slug, model_use, gpu);
        let roomy = gpus().into_iter();
        let roomy = roomy.filter(|kind| status_of(required, kind.memory_bytes) == FitVerdict::Fits);
        Self {
            way: on_this_gpu,
            way_with_more_gpus: with_more_gpus,
            smallest_gpu: roomy
                .min_by_key(|kind| kind.memory_bytes)
                .map(|kind| kind.name),
        }
    }

    fn in_words(&self) -> String {
        let takes = |way: &FitWay| format_bytes(way.process_bytes.expected as f64);
        let mut words = match (&self.way, &self.smallest_gpu) {
            (Some(way), _) => format!("fits with {} ({})", way.change, takes(way)),
            (None, Some(gpu)) => {
                format!("no known setting makes it fit; the smallest GPU with room is {gpu}")
            }
            (None, None) => {
                "no known setting makes it fit, and no single GPU of the catalogue has room"
                    .to_owned()
            }
        };
        if let Some(way) = &self.way_with_more_gpus {
            words += &format!("; or {} ({} each)", way.change, takes(way));
        }
        words
    }
}

/// The cheapest way that fits this GPU, and the first that fits several of them.
fn fitting_ways(
    slug: &str,
    model_use: ModelUse,
    gpu: &GpuKind,
) -> (Option<FitWay>, Option<FitWay>) {
    let Ok(model) = model_of(slug) else {
        return (None, None);
    };
    let request = FitRequest {
        model,
        choices: choices_of(model_use),
        gpus: vec![gpu.clone()],
        wants_largest_batch: false,
        wants_ways: true,
    };
    let Ok(answer) = request.answer() else {
        return (None, None);
    };
    let more_gpus = cost_in_words(WayCost::MoreGpus);
    let ways = answer.ways.into_iter().chain(answer.together);
    let fitting = ways.filter(|way| way.verdict == FitVerdict::Fits);
    let (more, mut own): (Vec<FitWay>, Vec<FitWay>) =
        fitting.partition(|way| way.cost == more_gpus);
    // What costs the same keeps its order, and one change is simpler than several.
    own.sort_by_key(|way| (cost_rank(way.cost), way.settings.len()));
    (own.into_iter().next(), more.into_iter().next())
}

/// A model of the catalogue; a file of the same name in this folder is not meant.
fn model_of(slug: &str) -> Result<FitModel, ()> {
    let known = find_model(slug).ok_or(())?;
    Ok(FitModel {
        name: known.name.to_owned(),
        config: Some(known.config().map_err(|_| ())?),
        weights: None,
        config_problem: None,
    })
}

/// The settings that the table of models is about.
fn choices_of(model_use: ModelUse) -> FitChoices {
    FitChoices {
        work: match model_use {
            ModelUse::Inference => WorkChoice::Infer,
            ModelUse::Training => WorkChoice::Train,
        },
        length: Some(TABLE_TOKENS),
        dtype: Some(Dtype::Bf16),
        ..FitChoices::default()
    }
}

fn cost_rank(cost: &str) -> usize {
    let costs = [
        WayCost::SameResults,
        WayCost::LessPrecision,
        WayCost::TrainsLess,
        WayCost::MoreGpus,
    ];
    let place = costs.iter().position(|known| cost_in_words(*known) == cost);
    place.unwrap_or(costs.len())
}

/// What fits in two sentences, and one for each that does not.
fn sentences(rows: &[CompatibilityRow]) -> Vec<String> {
    let fitting = |model_use: ModelUse| {
        let fits =
            |row: &&CompatibilityRow| row.model_use == model_use && row.status == FitVerdict::Fits;
        let names: Vec<&str> = rows
            .iter()
            .filter(fits)
            .map(|row| row.name.as_str())
            .collect();
        (!names.is_empty()).then(|| format!("{} fits: {}", model_use.name(), names.join(", ")))
    };
    let uses = [ModelUse::Inference, ModelUse::Training];
    let mut sentences: Vec<String> = uses.into_iter().filter_map(fitting).collect();
    for row in rows {
        let status = match row.status {
            FitVerdict::Fits => continue,
            FitVerdict::MayNotFit => "may not fit",
            FitVerdict::DoesNotFit => "too large",
        };
        let advice = row
            .advice
            .as_ref()
            .map(FitAdvice::in_words)
            .unwrap_or_default();
        sentences.push(format!("{}: {status}; {advice}", row.subject()));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::super::requirements::requirements;
    use super::*;
    use nilo_model::gpus::find_gpu;

    fn on(gpu: &str, slug: &str) -> GpuCompatibility {
        let gpu = find_gpu(gpu).unwrap();
        let (models, _) = requirements(&[find_model(slug).unwrap()], &gpu);
        GpuCompatibility::of(&models, &gpu, None, true)
    }

    #[test]
    fn a_seven_billion_model_trains_on_a_t4_with_adapters_only() {
        let found = on("T4", "deepseek-math-7b");
        let [inference, training] = &found.models[..] else {
            panic!("two uses");
        };
        // 13.97 GiB of 14.56: nearer than the estimate is sure.
        assert_eq!(inference.status, FitVerdict::MayNotFit);
        assert_eq!(training.status, FitVerdict::DoesNotFit);
        let way = training.advice.as_ref().unwrap().way.as_ref().unwrap();
        assert!(way.change.contains("LoRA"), "{}", way.change);
        assert!(way.process_bytes.high <= found.available_gpu_memory_bytes);
        assert!(
            found.verdict[1].contains("too large; fits with "),
            "{:?}",
            found.verdict
        );
    }

    #[test]
    fn what_no_gpu_has_room_for_is_said_to_be_so() {
        let found = on("T4", "deepseek-v3");
        let advice = found.models[1].advice.as_ref().unwrap();
        assert_eq!((&advice.way, &advice.smallest_gpu), (&None, &None));
        assert!(found.verdict[1].contains("no single GPU of the catalogue has room"));
    }

    #[test]
    fn the_advice_is_about_what_the_table_says() {
        let gpu = find_gpu("A100 40GB").unwrap();
        let known = find_model("llama-3.2-1b").unwrap();
        let (models, _) = requirements(&[known], &gpu);
        for (model_use, range) in [
            (ModelUse::Inference, models[0].inference_bytes),
            (ModelUse::Training, models[0].training_bytes),
        ] {
            let request = FitRequest {
                model: model_of("llama-3.2-1b").unwrap(),
                choices: choices_of(model_use),
                gpus: vec![gpu.clone()],
                wants_largest_batch: false,
                wants_ways: false,
            };
            assert_eq!(request.answer().unwrap().process_bytes, range);
        }
    }

    #[test]
    fn a_full_gpu_has_no_room_now() {
        let gpu = find_gpu("H100").unwrap();
        let (models, _) = requirements(&[find_model("llama-3.1-8b").unwrap()], &gpu);
        let found = GpuCompatibility::of(&models, &gpu, Some(1 << 30), true);
        assert_eq!(found.models[0].status, FitVerdict::Fits);
        assert_eq!(found.models[0].status_now, Some(FitVerdict::DoesNotFit));
    }
}
