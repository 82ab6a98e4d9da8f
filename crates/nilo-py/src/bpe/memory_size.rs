//! The means that the user gave, or those that this machine has, as `nilo bpe train` has it.
//!
//! A budget is for the training alone: what the program holds besides is its own affair.

use nilo_sample::units::parse_bytes;
use nilo_source::{Roots, usual_budget};
use nilo_tokenizer::ResourceLimits;
use pyo3::prelude::*;

use super::failure::BpeFailure;

/// A number of bytes, or a text such as `2GiB`.
#[derive(FromPyObject)]
pub(super) enum MemorySize {
    #[pyo3(transparent)]
    Bytes(u64),
    #[pyo3(transparent)]
    Text(String),
}

/// With what means the stages work.
pub(super) fn allowance(
    threads: Option<usize>,
    budget: Option<&MemorySize>,
) -> Result<ResourceLimits, BpeFailure> {
    let budget_bytes = match budget {
        None => usual_budget(&Roots::default()),
        Some(MemorySize::Bytes(bytes)) => Some(*bytes),
        Some(MemorySize::Text(text)) => {
            let bytes = parse_bytes(text);
            Some(bytes.map_err(|error| BpeFailure::value(error.to_string(), None))?)
        }
    };
    Ok(ResourceLimits::new(threads, budget_bytes, 0))
}
