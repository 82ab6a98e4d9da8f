//! Operations: what each allocates, what it keeps for backward, and what backward allocates.
//!
//! An operation keeps its inputs before it allocates its result, and its result afterwards, as PyTorch does: the order decides where a checkpoint's second run ends.

pub(crate) mod attention;
pub(crate) mod attention_steps;
pub(crate) mod convolution;
pub(crate) mod elementwise;
pub(crate) mod experts;
pub(crate) mod layout;
pub(crate) mod linear;
mod lookup;
mod loss;
mod normalization;
mod scale_norm;
mod shapes;

pub use attention::{AttentionKernel, AttentionShape};
pub use linear::LinearLayer;
