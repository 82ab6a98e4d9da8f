//! Well-known models by name, so that nothing has to be downloaded to ask about them.
//!
//! `catalogue/models.tsv` has names and counts of parameters, `catalogue/models/` what their configurations say of sizes.

use crate::config::{ConfigError, ModelConfig};

/// A model of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownModel {
    /// Its name on the command line.
    pub slug: &'static str,
    /// Its name as people write it.
    pub name: &'static str,
    /// Other names, those of Hugging Face's repositories among them.
    aliases: &'static str,
    /// All its weights; tied ones count once.
    pub parameters: u64,
    /// Those that a token passes through, fewer than all where it has experts.
    pub active_parameters: u64,
    config: &'static str,
}

const TABLE: &str = include_str!("../catalogue/models.tsv");

/// Sizes of the models of the table.
const CONFIGS: &[(&str, &str)] = &[
    ("gpt2", include_str!("../catalogue/models/gpt2.json")),
    (
        "gpt2-medium",
        include_str!("../catalogue/models/gpt2-medium.json"),
    ),
    (
        "gpt2-large",
        include_str!("../catalogue/models/gpt2-large.json"),
    ),
    ("gpt2-xl", include_str!("../catalogue/models/gpt2-xl.json")),
    (
        "llama-7b",
        include_str!("../catalogue/models/llama-7b.json"),
    ),
    (
        "llama-2-13b",
        include_str!("../catalogue/models/llama-2-13b.json"),
    ),
    (
        "llama-2-70b",
        include_str!("../catalogue/models/llama-2-70b.json"),
    ),
    (
        "llama-3-8b",
        include_str!("../catalogue/models/llama-3-8b.json"),
    ),
    (
        "llama-3.1-8b",
        include_str!("../catalogue/models/llama-3.1-8b.json"),
    ),
    (
        "llama-3-70b",
        include_str!("../catalogue/models/llama-3-70b.json"),
    ),
    (
        "llama-3.1-70b",
        include_str!("../catalogue/models/llama-3.1-70b.json"),
    ),
    (
        "llama-3.1-405b",
        include_str!("../catalogue/models/llama-3.1-405b.json"),
    ),
    (
        "llama-3.2-1b",
        include_str!("../catalogue/models/llama-3.2-1b.json"),
    ),
    (
        "llama-3.2-3b",
        include_str!("../catalogue/models/llama-3.2-3b.json"),
    ),
    (
        "tinyllama-1.1b",
        include_str!("../catalogue/models/tinyllama-1.1b.json"),
    ),
    (
        "mistral-7b",
        include_str!("../catalogue/models/mistral-7b.json"),
    ),
    (
        "mistral-7b-v0.3",
        include_str!("../catalogue/models/mistral-7b-v0.3.json"),
    ),
    (
        "mistral-nemo-12b",
        include_str!("../catalogue/models/mistral-nemo-12b.json"),
    ),
    (
        "mistral-small-24b",
        include_str!("../catalogue/models/mistral-small-24b.json"),
    ),
    (
        "mixtral-8x7b",
        include_str!("../catalogue/models/mixtral-8x7b.json"),
    ),
    (
        "mixtral-8x22b",
        include_str!("../catalogue/models/mixtral-8x22b.json"),
    ),
    (
        "qwen2-0.5b",
        include_str!("../catalogue/models/qwen2-0.5b.json"),
    ),
    (
        "qwen2.5-0.5b",
        include_str!("../catalogue/models/qwen2.5-0.5b.json"),
    ),
    (
        "qwen2.5-1.5b",
        include_str!("../catalogue/models/qwen2.5-1.5b.json"),
    ),
    (
        "qwen2.5-3b",
        include_str!("../catalogue/models/qwen2.5-3b.json"),
    ),
    (
        "qwen2.5-7b",
        include_str!("../catalogue/models/qwen2.5-7b.json"),
    ),
    (
        "qwen2.5-14b",
        include_str!("../catalogue/models/qwen2.5-14b.json"),
    ),
    (
        "qwen2.5-32b",
        include_str!("../catalogue/models/qwen2.5-32b.json"),
    ),
    (
        "qwen2.5-72b",
        include_str!("../catalogue/models/qwen2.5-72b.json"),
    ),
    (
        "qwen3-0.6b",
        include_str!("../catalogue/models/qwen3-0.6b.json"),
    ),
    (
        "qwen3-1.7b",
        include_str!("../catalogue/models/qwen3-1.7b.json"),
    ),
    (
        "qwen3-4b",
        include_str!("../catalogue/models/qwen3-4b.json"),
    ),
    (
        "qwen3-8b",
        include_str!("../catalogue/models/qwen3-8b.json"),
    ),
    (
        "qwen3-14b",
        include_str!("../catalogue/models/qwen3-14b.json"),
    ),
    (
        "qwen3-32b",
        include_str!("../catalogue/models/qwen3-32b.json"),
    ),
    (
        "qwen3-30b-a3b",
        include_str!("../catalogue/models/qwen3-30b-a3b.json"),
    ),
    (
        "gemma-2b",
        include_str!("../catalogue/models/gemma-2b.json"),
    ),
    (
        "gemma-7b",
        include_str!("../catalogue/models/gemma-7b.json"),
    ),
    (
        "gemma-2-2b",
        include_str!("../catalogue/models/gemma-2-2b.json"),
    ),
    (
        "gemma-2-9b",
        include_str!("../catalogue/models/gemma-2-9b.json"),
    ),
    (
        "gemma-2-27b",
        include_str!("../catalogue/models/gemma-2-27b.json"),
    ),
    (
        "gemma-3-1b",
        include_str!("../catalogue/models/gemma-3-1b.json"),
    ),
    ("phi-2", include_str!("../catalogue/models/phi-2.json")),
    (
        "phi-3-mini",
        include_str!("../catalogue/models/phi-3-mini.json"),
    ),
    ("phi-4", include_str!("../catalogue/models/phi-4.json")),
    (
        "deepseek-math-7b",
        include_str!("../catalogue/models/deepseek-math-7b.json"),
    ),
    (
        "deepseek-llm-67b",
        include_str!("../catalogue/models/deepseek-llm-67b.json"),
    ),
    (
        "deepseek-v2-lite",
        include_str!("../catalogue/models/deepseek-v2-lite.json"),
    ),
    (
        "deepseek-v3",
        include_str!("../catalogue/models/deepseek-v3.json"),
    ),
    (
        "smollm2-135m",
        include_str!("../catalogue/models/smollm2-135m.json"),
    ),
    (
        "smollm2-360m",
        include_str!("../catalogue/models/smollm2-360m.json"),
    ),
    (
        "smollm2-1.7b",
        include_str!("../catalogue/models/smollm2-1.7b.json"),
    ),
    (
        "olmo-2-7b",
        include_str!("../catalogue/models/olmo-2-7b.json"),
    ),
    (
        "falcon-7b",
        include_str!("../catalogue/models/falcon-7b.json"),
    ),
    (
        "bert-base",
        include_str!("../catalogue/models/bert-base.json"),
    ),
    (
        "bert-large",
        include_str!("../catalogue/models/bert-large.json"),
    ),
    (
        "t5-small",
        include_str!("../catalogue/models/t5-small.json"),
    ),
    ("t5-base", include_str!("../catalogue/models/t5-base.json")),
    (
        "t5-large",
        include_str!("../catalogue/models/t5-large.json"),
    ),
    (
        "vit-base",
        include_str!("../catalogue/models/vit-base.json"),
    ),
    (
        "vit-large",
        include_str!("../catalogue/models/vit-large.json"),
    ),
    (
        "whisper-tiny",
        include_str!("../catalogue/models/whisper-tiny.json"),
    ),
    (
        "whisper-base",
        include_str!("../catalogue/models/whisper-base.json"),
    ),
    (
        "whisper-small",
        include_str!("../catalogue/models/whisper-small.json"),
    ),
    (
        "whisper-medium",
        include_str!("../catalogue/models/whisper-medium.json"),
    ),
    (
        "whisper-large-v3",
        include_str!("../catalogue/models/whisper-large-v3.json"),
    ),
];

/// All of them, smallest families first as in the table.
pub fn models() -> Vec<KnownModel> {
    TABLE.lines().skip(1).filter_map(model_of_row).collect()
}

fn model_of_row(row: &'static str) -> Option<KnownModel> {
    let mut cells = row.split('\t');
    let mut next = || cells.next();
    let (slug, name, aliases) = (next()?, next()?, next()?);
    let (parameters, active_parameters) = (next()?.parse().ok()?, next()?.parse().ok()?);
    let (_, config) = CONFIGS.iter().find(|(of, _)| *of == slug)?;
    Some(KnownModel {
        slug,
        name,
        aliases,
        parameters,
        active_parameters,
        config,
    })
}

/// A model by its name, an alias or the name of its repository, without regard to case.
pub fn find_model(name: &str) -> Option<KnownModel> {
    let wanted = plain(name);
    let is_named = |model: &KnownModel| {
        let mut names = model.aliases.split(',').chain([model.slug, model.name]);
        names.any(|known| plain(known) == wanted)
    };
    models().into_iter().find(is_named)
}

/// Names that are written alike count as one: `Llama 3.1 8B` and `meta-llama/Llama-3.1-8B`.
fn plain(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    let kept = last
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '.');
    kept.collect::<String>().to_ascii_lowercase()
}

impl KnownModel {
    /// What its configuration says.
    pub fn config(&self) -> Result<ModelConfig, ConfigError> {
        ModelConfig::from_json(self.config)
    }

    /// Its configuration as JSON.
    pub fn config_json(&self) -> &'static str {
        self.config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_sizes_and_names_of_its_own() {
        assert_eq!(models().len(), TABLE.lines().count() - 1);
        assert_eq!(models().len(), CONFIGS.len());
        for model in models() {
            for name in model.aliases.split(',').chain([model.slug, model.name]) {
                assert_eq!(
                    find_model(name).map(|found| found.slug),
                    Some(model.slug),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn models_are_found_however_they_are_written() {
        for name in ["llama-3.1-8b", "meta-llama/Llama-3.1-8B", "LLAMA 3.1 8B"] {
            assert_eq!(
                find_model(name).map(|model| model.slug),
                Some("llama-3.1-8b"),
                "{name}"
            );
        }
        assert_eq!(find_model("llama-9b"), None);
        assert_eq!(find_model(""), None);
    }
}
