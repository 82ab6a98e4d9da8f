//! The rows of `testdata/traced.json`, which `tools/fit/trace_cases.py` writes: what traces of real models take.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub)]

use nilo_model::config::ModelConfig;
use nilo_model::dry_run::ops::AttentionKernel;
use nilo_model::dry_run::optimizer::Optimizer;
use nilo_model::dry_run::tensor::Dtype;
use nilo_model::estimate::{Checkpointing, EstimateSettings, Precision, Work};
use nilo_model::family::Adapters;
use serde_json::Value;

/// One row.
pub struct TracedCase {
    /// The model and the settings.
    pub name: String,
    pub config: ModelConfig,
    pub settings: EstimateSettings,
    pub parameters: u64,
    pub allocated_bytes: u64,
    pub reserved_bytes: u64,
    pub phase: String,
}

/// All rows whose name has this in it.
pub fn traced_cases(part_of_name: &str) -> Vec<TracedCase> {
    cases_of("traced.json", part_of_name)
}

/// The same of `testdata/traced_encoders.json`, which `tools/fit/trace_encoders.py` writes.
pub fn encoder_cases(part_of_name: &str) -> Vec<TracedCase> {
    cases_of("traced_encoders.json", part_of_name)
}

fn cases_of(file: &str, part_of_name: &str) -> Vec<TracedCase> {
    let path = format!("{}/testdata/{file}", env!("CARGO_MANIFEST_DIR"));
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let rows = file["rows"].as_array().unwrap();
    let cases = rows.iter().map(|row| {
        let (model, settings) = (text(row, "model"), text(row, "settings"));
        TracedCase {
            name: format!("{model}/{settings}"),
            config: ModelConfig::from_value(&file["models"][model]).unwrap(),
            settings: settings_of(&file["settings"][settings]),
            parameters: row["parameters"].as_u64().unwrap(),
            allocated_bytes: row["allocated_bytes"].as_u64().unwrap(),
            reserved_bytes: row["reserved_bytes"].as_u64().unwrap(),
            phase: text(row, "phase").to_owned(),
        }
    });
    cases
        .filter(|case| case.name.contains(part_of_name))
        .collect()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap()
}

fn settings_of(value: &Value) -> EstimateSettings {
    let precision = match value["autocast"].as_str() {
        Some(name) => Precision::Autocast(dtype(name)),
        None => Precision::Pure(dtype(text(value, "dtype"))),
    };
    EstimateSettings {
        work: match text(value, "work") {
            "training" => Work::Training,
            "inference" => Work::Inference,
            "generation" => Work::Generation(value["new_tokens"].as_u64().unwrap()),
            other => panic!("no work is called {other}"),
        },
        batch: value["batch"].as_u64().unwrap(),
        length: value["length"].as_u64().unwrap(),
        precision,
        optimizer: optimizer(value["optimizer"].as_str().unwrap_or("adamw")),
        checkpointing: match value["checkpointing"].as_bool() {
            Some(true) => Checkpointing::Full,
            _ => Checkpointing::None,
        },
        accumulation: value["accumulation"].as_u64().unwrap_or(1),
        attention: match value["attention"].as_str() {
            Some("eager") => AttentionKernel::Eager,
            _ => AttentionKernel::Sdpa,
        },
        adapters: value["adapter_rank"].as_u64().map(|rank| Adapters {
            rank,
            everywhere: value["adapts_all"].as_bool().unwrap_or(false),
            dtype: dtype(text(value, "adapter_dtype")),
            dropout: 0.0,
        }),
        ..EstimateSettings::default()
    }
}

fn dtype(name: &str) -> Dtype {
    match name {
        "fp32" => Dtype::F32,
        "bf16" => Dtype::Bf16,
        "fp16" => Dtype::F16,
        other => panic!("no type is called {other}"),
    }
}

fn optimizer(name: &str) -> Optimizer {
    match name {
        "adamw" => Optimizer::AdamW,
        "adamw-fused" => Optimizer::AdamWFused,
        "adamw-for-loop" => Optimizer::AdamWForLoop,
        "sgd" => Optimizer::Sgd,
        "sgd-momentum" => Optimizer::SgdMomentum,
        "adafactor" => Optimizer::Adafactor,
        "muon" => Optimizer::Muon,
        other => panic!("no optimizer is called {other}"),
    }
}
