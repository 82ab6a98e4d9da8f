//! The model, and where the memory of a step goes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A model with its optimizer. Bytes are at the peak of a step.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelFacts {
    /// Whether it lies on a GPU; where it is not told, it is taken to.
    pub on_gpu: Option<bool>,
    /// Parameters.
    pub parameters: Option<u64>,
    /// Bytes of parameters and buffers.
    pub weight_bytes: Option<f64>,
    /// Bytes of gradients.
    pub gradient_bytes: Option<f64>,
    /// Bytes of the optimizer's state.
    pub optimizer_state_bytes: Option<f64>,
    /// The optimizer's class.
    pub optimizer: Option<String>,
    /// Bytes that autograd keeps for the backward pass.
    pub activation_bytes: Option<f64>,
    /// Bytes of logits and their gradient.
    pub logits_bytes: Option<f64>,
    /// Bytes of attention scores: tensors that are quadratic in the sequence length.
    pub attention_score_bytes: Option<f64>,
    /// Everything that a step holds at its peak.
    pub peak_bytes: Option<f64>,
    /// What it may hold.
    pub budget_bytes: Option<f64>,
    /// Blocks that repeat.
    pub repeated_blocks: Option<u64>,
    /// Blocks that are checkpointed.
    pub checkpointed_blocks: Option<u64>,
    /// Whether checkpoints put the random state back.
    pub preserves_random_state: Option<bool>,
    /// The largest dropout probability.
    pub dropout: Option<f64>,
    /// Whether the step runs under autocast, or the weights are in 16 bits.
    pub uses_half_precision: Option<bool>,
    /// Bytes of a second copy of weights that should be tied.
    pub untied_bytes: Option<f64>,
    /// Bytes of parameters that are not trained but have gradients.
    pub frozen_gradient_bytes: Option<f64>,
    /// Bytes of gradients that hold zeros between steps (`zero_grad(set_to_none=False)`).
    pub zeroed_gradient_bytes: Option<f64>,
    /// Names of rules whose change was made in this run, measured on a sample and taken back: they are silent.
    pub not_worth_it: Vec<String>,
}
