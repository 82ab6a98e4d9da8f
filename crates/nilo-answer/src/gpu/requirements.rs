//! What well-known models take, for inference and for training.

use nilo_model::catalogue::{KnownModel, find_model, models};
use nilo_model::gpus::GpuKind;
use schemars::JsonSchema;
use serde::Serialize;

use crate::fit::answer::BytesRange;
use crate::fit::model_table::{ModelTableAnswer, TableModel};

/// Models of a table for which none were named, from small to large.
const COMMON: [&str; 8] = [
    "gpt2",
    "llama-3.2-1b",
    "deepseek-math-7b",
    "llama-3.1-8b",
    "qwen2.5-14b",
    "qwen2.5-32b",
    "deepseek-llm-67b",
    "deepseek-v3",
];

/// What a model takes.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct ModelRequirement {
    /// Its name on the command line.
    pub slug: String,
    /// Its name.
    pub name: String,
    /// All its weights, which must be loaded.
    pub parameters: u64,
    /// Those that a token passes through; fewer than all where the model has experts.
    pub active_parameters: u64,
    /// The bytes of its weights in 16 bits.
    pub weights_bytes: u64,
    /// What a process takes for inference in 16 bits.
    pub inference_bytes: BytesRange,
    /// What it takes for a training of all weights with Adam in 16 bits.
    pub training_bytes: BytesRange,
}

/// The models that are shown where none are named.
pub fn common_models() -> Vec<KnownModel> {
    COMMON.iter().filter_map(|name| find_model(name)).collect()
}

/// The requirements of models on a kind of GPU, and a note for each that cannot be estimated. Of no models: of the whole catalogue.
pub fn requirements(asked: &[KnownModel], gpu: &GpuKind) -> (Vec<ModelRequirement>, Vec<String>) {
    let all = match asked.is_empty() {
        true => models(),
        false => asked.to_vec(),
    };
    let mut found = Vec::new();
    let mut notes = Vec::new();
    for model in all {
        match ModelTableAnswer::of(&[model], std::slice::from_ref(gpu)) {
            Ok(table) => found.extend(table.models.into_iter().map(ModelRequirement::from)),
            Err(error) => notes.push(format!("{} cannot be estimated: {error}", model.name)),
        }
    }
    (found, notes)
}

impl From<TableModel> for ModelRequirement {
    fn from(model: TableModel) -> Self {
        Self {
            slug: model.slug,
            name: model.name,
            parameters: model.parameters,
            active_parameters: model.active_parameters,
            weights_bytes: model.weights_bytes,
            inference_bytes: model.inference_bytes,
            training_bytes: model.training_bytes,
        }
    }
}

impl ModelRequirement {
    /// Whether only some of its weights are used for a token.
    pub fn has_experts(&self) -> bool {
        self.active_parameters < self.parameters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_model::gpus::find_gpu;

    #[test]
    fn every_common_model_is_in_the_catalogue() {
        assert_eq!(common_models().len(), COMMON.len());
    }

    #[test]
    fn all_experts_must_be_loaded() {
        let model = find_model("deepseek-v3").unwrap();
        let (found, notes) = requirements(&[model], &find_gpu("H200").unwrap());
        assert!(notes.is_empty(), "{notes:?}");
        assert!(found[0].has_experts());
        assert!(found[0].inference_bytes.expected > 2 * 671_000_000_000);
    }
}
