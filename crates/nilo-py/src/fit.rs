//! Estimates of known models and the catalogue of GPUs: the native half of `nilometer.fit`.

use nilo_answer::fit::choices_input::ChoicesInput;
use nilo_answer::fit::{FitModel, FitRequest};
use nilo_model::estimate::{ByteRange, EstimateSpread};
use nilo_model::gpus::{GpuKind, find_gpu, gpus};
use pyo3::prelude::*;

use crate::errors::value_error;

type GpuRow = (String, u64, (u32, u32), u64, u64);

/// GPUs with name, memory, compute capability, workspace and context.
#[pyfunction]
pub(crate) fn known_gpus() -> Vec<GpuRow> {
    gpus().iter().map(row).collect()
}

/// One of them by its name.
#[pyfunction]
pub(crate) fn known_gpu(name: &str) -> PyResult<GpuRow> {
    let found = find_gpu(name).map_err(|error| value_error(error.to_string()))?;
    Ok(row(&found))
}

fn row(gpu: &GpuKind) -> GpuRow {
    (
        gpu.name.clone(),
        gpu.memory_bytes,
        gpu.capability,
        gpu.workspace_bytes(),
        gpu.context_bytes(),
    )
}

/// Between which figures the true one should be: of allocated memory, or of what is reserved.
#[pyfunction]
pub(crate) fn byte_range(expected: u64, is_allocated: bool) -> (u64, u64, u64) {
    let spread = match is_allocated {
        true => EstimateSpread::Allocated,
        false => EstimateSpread::Reserved,
    };
    let range = ByteRange::around(expected, spread);
    (range.low, range.expected, range.high)
}

/// The answer of `nilo fit` as JSON: for a model by name or path, choices as JSON, and GPUs by name and memory.
#[pyfunction]
pub(crate) fn fit_known_model(
    py: Python<'_>,
    model: String,
    choices: String,
    gpus: Vec<(String, u64, (u32, u32))>,
    max_batch: bool,
    ways: bool,
) -> PyResult<String> {
    let answer = py.detach(move || {
        let input: ChoicesInput =
            serde_json::from_str(&choices).map_err(|error| error.to_string())?;
        let model = FitModel::find(&model).map_err(|error| match error.hint() {
            Some(hint) => format!("{error}; {hint}"),
            None => error.to_string(),
        })?;
        let kind = |(name, memory_bytes, capability): (String, u64, (u32, u32))| {
            let mut kind = GpuKind::of_memory(&name, memory_bytes);
            kind.capability = capability;
            kind
        };
        let request = FitRequest {
            model,
            choices: input.choices()?,
            gpus: gpus.into_iter().map(kind).collect(),
            wants_largest_batch: max_batch,
            wants_ways: ways,
        };
        if request.gpus.is_empty() {
            return Err("at least one GPU is needed".to_owned());
        }
        let answer = request.answer().map_err(|error| error.to_string())?;
        serde_json::to_string(&answer).map_err(|error| error.to_string())
    });
    answer.map_err(value_error)
}
