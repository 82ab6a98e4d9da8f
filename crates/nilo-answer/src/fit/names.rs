//! Models and GPUs that are known by name.

use nilo_model::catalogue::models;
use nilo_model::gpus::gpus;
use schemars::JsonSchema;
use serde::Serialize;

use super::model_table::TableGpu;

/// The value of [`FitNamesAnswer::schema`].
pub const FIT_NAMES_SCHEMA: &str = "nilo.fit-names/1";

/// All names.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct FitNamesAnswer {
    /// `nilo.fit-names/1`.
    #[schemars(extend("const" = FIT_NAMES_SCHEMA))]
    pub schema: &'static str,
    /// Models.
    pub models: Vec<NamedModel>,
    /// GPUs.
    pub gpus: Vec<TableGpu>,
}

/// A model of the catalogue.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct NamedModel {
    /// Its name on the command line.
    pub slug: String,
    /// Its name.
    pub name: String,
    /// All its weights; tied ones count once.
    pub parameters: u64,
    /// Those that a token passes through.
    pub active_parameters: u64,
}

impl FitNamesAnswer {
    /// The whole catalogue.
    pub fn all() -> Self {
        let model = |model: nilo_model::catalogue::KnownModel| NamedModel {
            slug: model.slug.to_owned(),
            name: model.name.to_owned(),
            parameters: model.parameters,
            active_parameters: model.active_parameters,
        };
        let gpu = |gpu: nilo_model::gpus::GpuKind| TableGpu {
            memory_bytes: gpu.memory_bytes,
            name: gpu.name,
        };
        Self {
            schema: FIT_NAMES_SCHEMA,
            models: models().into_iter().map(model).collect(),
            gpus: gpus().into_iter().map(gpu).collect(),
        }
    }
}
