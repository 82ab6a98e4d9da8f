//! Estimates beside what was measured on a GPU: cases of trainings and inferences, each with its model, settings and peaks.

use std::collections::BTreeMap;
use std::path::Path;

use nilo_model::config::ModelConfig;
use nilo_model::dry_run::Dtype;
use nilo_model::dry_run::ops::AttentionKernel;
use nilo_model::estimate::{Checkpointing, ModelEstimate, estimate};
use nilo_model::gpus::find_gpu;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::answer::dtype_of;
use super::choices::{FitChoices, WorkChoice};
use super::part_names::OPTIMIZERS;

/// The value of [`FitTruthAnswer::schema`].
pub const FIT_TRUTH_SCHEMA: &str = "nilo.fit-truth/1";
/// A file of measurements has some kilobytes a case.
const LARGEST_FILE_BYTES: u64 = 64 << 20;
/// What cases of adapters have where they do not say.
const LORA_RANK: u64 = 16;
/// Tokens that were generated where a case does not say.
const NEW_TOKENS: u64 = 32;

/// Estimate and truth of cases.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct FitTruthAnswer {
    /// `nilo.fit-truth/1`.
    #[schemars(extend("const" = FIT_TRUTH_SCHEMA))]
    pub schema: &'static str,
    /// The cases, in the order of the file.
    pub cases: Vec<TruthCase>,
}

/// A case.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct TruthCase {
    /// Its name.
    pub name: String,
    /// The most that tensors took.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub peak_allocated_bytes: Option<EstimateAndTruth>,
    /// The most that PyTorch took from the driver.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub peak_reserved_bytes: Option<EstimateAndTruth>,
    /// The most that the driver told of the process.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub peak_process_bytes: Option<EstimateAndTruth>,
    /// Why there is no estimate.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub problem: Option<String>,
}

/// A figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct EstimateAndTruth {
    /// What is expected.
    pub estimate: u64,
    /// What was measured.
    pub truth: u64,
}

/// Why a file of cases cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TruthError {
    /// The operating system refuses.
    #[error("cannot read the cases ({source}): {}", path.display())]
    Read {
        /// The file.
        path: std::path::PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It is something else.
    #[error("{reason}: {}", path.display())]
    NotCases {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// The cases of a file.
pub fn read_cases(path: &Path) -> Result<Vec<Map<String, Value>>, TruthError> {
    let wrong = |reason: String| TruthError::NotCases {
        path: path.to_owned(),
        reason,
    };
    let failed = |source| TruthError::Read {
        path: path.to_owned(),
        source,
    };
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > LARGEST_FILE_BYTES {
        return Err(wrong(format!(
            "the file has {size} bytes, more than any list of cases"
        )));
    }
    let bytes = std::fs::read(path).map_err(failed)?;
    let value: Value =
        serde_json::from_slice(&bytes).map_err(|error| wrong(format!("not JSON ({error})")))?;
    let list = value
        .as_array()
        .ok_or_else(|| wrong("not a list of cases".to_owned()))?;
    let case = |value: &Value| {
        let case = value
            .as_object()
            .filter(|case| case.get("name").is_some_and(Value::is_string));
        case.cloned()
            .ok_or_else(|| wrong("a case has no name".to_owned()))
    };
    list.iter().map(case).collect()
}

impl TruthCase {
    /// The estimate of a case beside what was measured.
    pub fn of(case: &Map<String, Value>) -> Self {
        let name = text(case, "name").unwrap_or_default().to_owned();
        match estimated(case) {
            Ok(found) => Self::beside(name, case, &found),
            Err(problem) => Self {
                name,
                peak_allocated_bytes: None,
                peak_reserved_bytes: None,
                peak_process_bytes: None,
                problem: Some(problem),
            },
        }
    }

    fn beside(name: String, case: &Map<String, Value>, found: &ModelEstimate) -> Self {
        let figure = |key: &str, estimate: u64| {
            let truth = case.get(key).and_then(Value::as_u64)?;
            Some(EstimateAndTruth { estimate, truth })
        };
        Self {
            peak_allocated_bytes: figure("peak_alloc", found.allocated.expected),
            peak_reserved_bytes: figure("peak_reserved", found.reserved.expected),
            peak_process_bytes: figure("peak_proc", found.process.expected),
            name,
            problem: None,
        }
    }
}

fn text<'a>(case: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    case.get(key).and_then(Value::as_str)
}

fn estimated(case: &Map<String, Value>) -> Result<ModelEstimate, String> {
    let config = class_config(case.get("config").and_then(Value::as_object))?;
    let number = |key: &str| {
        case.get(key)
            .and_then(Value::as_u64)
            .filter(|found| *found > 0)
    };
    let mode = text(case, "mode").unwrap_or("train");
    let work = match mode {
        "train" | "lora" => WorkChoice::Train,
        "infer" => WorkChoice::Infer,
        "generate" => WorkChoice::Generate(number("new_tokens").unwrap_or(NEW_TOKENS)),
        _ => {
            return Err(format!(
                "the mode {mode:?} is not known; known are train, infer, generate, lora"
            ));
        }
    };
    let dtype = text(case, "dtype").unwrap_or("fp32");
    let known =
        |name: &str| dtype_of(name).ok_or_else(|| format!("the type {name:?} is not known"));
    let (dtype, autocast) = match dtype.strip_prefix("amp-") {
        Some(cast) => (None, Some(known(cast)?)),
        None => (Some(known(dtype)?), None),
    };
    let optimizer = text(case, "opt").unwrap_or("adamw");
    let optimizer = if optimizer == "sgdm" {
        "sgd-momentum"
    } else {
        optimizer
    };
    let optimizer = OPTIMIZERS
        .iter()
        .find(|(name, _)| *name == optimizer)
        .ok_or_else(|| format!("the optimizer {optimizer:?} is not known"))?
        .1;
    let choices = FitChoices {
        work,
        batch: number("batch").ok_or("the case has no batch")?,
        length: Some(number("seq").unwrap_or(1)),
        dtype,
        autocast,
        optimizer,
        checkpointing: match case.get("ckpt").and_then(Value::as_bool) {
            Some(true) => Checkpointing::Full,
            _ => Checkpointing::None,
        },
        attention: match text(case, "attn") {
            Some("eager") => AttentionKernel::Eager,
            Some("flash_attention_2") => AttentionKernel::Flash,
            _ => AttentionKernel::Sdpa,
        },
        lora_rank: (mode == "lora").then(|| number("rank").unwrap_or(LORA_RANK)),
        lora_dtype: Dtype::Bf16,
        ..FitChoices::default()
    };
    let settings = choices.settings(config.dtype, config.max_positions);
    let gpu = find_gpu(text(case, "gpu").unwrap_or("H200")).map_err(|error| error.to_string())?;
    estimate(&config.shape, &settings, &gpu).map_err(|error| error.to_string())
}

/// A configuration by the name of its class in Hugging Face's library, and the arguments that it was made with.
fn class_config(given: Option<&Map<String, Value>>) -> Result<ModelConfig, String> {
    let given = given.ok_or("the case has no config")?;
    let class = given
        .get("cls")
        .and_then(Value::as_str)
        .ok_or("the case does not say of which class its model is (config.cls)")?;
    let defaults = class_defaults(class)
        .ok_or_else(|| format!("the class {class:?} is not known to the closed form"))?;
    let mut all = defaults;
    for (key, value) in given.iter().filter(|(key, _)| *key != "cls") {
        all.insert(key.clone(), value.clone());
    }
    ModelConfig::from_value(&Value::Object(all)).map_err(|error| error.to_string())
}

/// What a class of configurations has where nothing is given.
fn class_defaults(class: &str) -> Option<Map<String, Value>> {
    let all: BTreeMap<String, Map<String, Value>> =
        serde_json::from_str(include_str!("class_defaults.json")).ok()?;
    all.get(class).cloned()
}
