//! Choices as JSON, under the names that the command has: what Python passes.

use nilo_model::dry_run::ops::AttentionKernel;
use nilo_model::estimate::{Checkpointing, Parallelism, Sharding};
use nilo_model::family::WeightPacking;
use serde::Deserialize;

use super::answer::dtype_of;
use super::choices::{FitChoices, WorkChoice};
use super::part_names::OPTIMIZERS;

/// What may be given.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChoicesInput {
    train: Option<bool>,
    new_tokens: u64,
    batch_size: Option<u64>,
    seq_len: Option<u64>,
    dtype: Option<String>,
    autocast: Option<String>,
    optimizer: Option<String>,
    checkpointing: u64,
    accumulation: Option<u64>,
    attention: Option<String>,
    loss_chunks: Option<u64>,
    lora_rank: Option<u64>,
    lora_everywhere: bool,
    lora_dtype: Option<String>,
    quantize_bits: Option<u64>,
    ranks: Option<u64>,
    sharding: Option<String>,
    tensor_parallel: Option<u64>,
    pipeline_parallel: Option<u64>,
    offload_optimizer: bool,
    expandable_segments: bool,
}

impl ChoicesInput {
    /// The choices, or why one of them cannot be.
    pub fn choices(&self) -> Result<FitChoices, String> {
        let dtype = |text: &Option<String>, name: &str| match text {
            None => Ok(None),
            Some(text) => dtype_of(text)
                .map(Some)
                .ok_or_else(|| format!("{name} must be fp32, bf16 or fp16, not {text:?}")),
        };
        let defaults = FitChoices::default();
        Ok(FitChoices {
            work: match (self.train.unwrap_or(true), self.new_tokens) {
                (true, 0) => WorkChoice::Train,
                (true, _) => {
                    return Err(
                        "new_tokens is for train=False: a training generates nothing".to_owned(),
                    );
                }
                (false, 0) => WorkChoice::Infer,
                (false, count) => WorkChoice::Generate(count),
            },
            batch: self.batch_size.unwrap_or(defaults.batch),
            length: self.seq_len,
            dtype: dtype(&self.dtype, "dtype")?,
            autocast: dtype(&self.autocast, "autocast")?,
            optimizer: match &self.optimizer {
                None => defaults.optimizer,
                Some(name) => {
                    let found = OPTIMIZERS.iter().find(|(known, _)| known == name);
                    found.map(|(_, optimizer)| *optimizer).ok_or_else(|| {
                        let names: Vec<&str> = OPTIMIZERS.iter().map(|(name, _)| *name).collect();
                        format!(
                            "optimizer must be one of {}, not {name:?}",
                            names.join(", ")
                        )
                    })?
                }
            },
            checkpointing: match self.checkpointing {
                0 => Checkpointing::None,
                1 => Checkpointing::Full,
                every => Checkpointing::Every(every),
            },
            accumulation: self.accumulation.unwrap_or(1),
            attention: match self.attention.as_deref() {
                None | Some("sdpa") => AttentionKernel::Sdpa,
                Some("flash") => AttentionKernel::Flash,
                Some("eager") => AttentionKernel::Eager,
                Some(other) => {
                    return Err(format!(
                        "attention must be sdpa, flash or eager, not {other:?}"
                    ));
                }
            },
            loss_chunks: self.loss_chunks,
            lora_rank: self.lora_rank,
            lora_everywhere: self.lora_everywhere,
            lora_dtype: dtype(&self.lora_dtype, "lora_dtype")?.unwrap_or(defaults.lora_dtype),
            packing: match self.quantize_bits {
                None => WeightPacking::None,
                Some(4) => WeightPacking::FourBits,
                Some(8) => WeightPacking::EightBits,
                Some(other) => return Err(format!("quantize_bits must be 4 or 8, not {other}")),
            },
            parallelism: Parallelism {
                ranks: self.ranks.unwrap_or(1),
                sharding: match self.sharding.as_deref() {
                    None | Some("ddp") => Sharding::Replicated,
                    Some("zero1") => Sharding::OptimizerStates,
                    Some("zero2") => Sharding::Gradients,
                    Some("zero3" | "fsdp") => Sharding::Weights,
                    Some(other) => {
                        return Err(format!(
                            "sharding must be ddp, zero1, zero2, zero3 or fsdp, not {other:?}"
                        ));
                    }
                },
                tensor: self.tensor_parallel.unwrap_or(1),
                pipeline: self.pipeline_parallel.unwrap_or(1),
                offloads_optimizer: self.offload_optimizer,
            },
            expandable_segments: self.expandable_segments,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(json: &str) -> Result<FitChoices, String> {
        let input: Result<ChoicesInput, _> = serde_json::from_str(json);
        input.map_err(|error| error.to_string())?.choices()
    }

    #[test]
    fn nothing_given_is_the_default_of_the_command() {
        assert_eq!(choices("{}"), Ok(FitChoices::default()));
    }

    #[test]
    fn wrong_words_are_named_with_what_would_be_right() {
        for (json, part) in [
            (r#"{"dtype": "int4"}"#, "dtype must be fp32, bf16 or fp16"),
            (r#"{"optimizer": "adm"}"#, "optimizer must be one of adamw"),
            (r#"{"attention": "ring"}"#, "attention must be sdpa"),
            (r#"{"quantize_bits": 5}"#, "must be 4 or 8"),
            (r#"{"sharding": "zero4"}"#, "sharding must be ddp"),
            (r#"{"new_tokens": 5}"#, "train=False"),
            (r#"{"batchsize": 5}"#, "unknown field"),
            (r#"{"batch_size": -5}"#, "invalid value"),
        ] {
            let error = choices(json).expect_err(json);
            assert!(error.contains(part), "{json}: {error}");
        }
    }
}
