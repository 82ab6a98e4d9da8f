//! How many threads, and how much memory for which stage, as `nilo bpe train` has it.
//!
//! A budget is for the training alone: what the program holds besides is its own affair.

use nilo_sample::units::parse_bytes;
use nilo_source::{Roots, free_memory};
use pyo3::prelude::*;

use super::failure::Failure;

/// Buffers of a thread that counts: its chunk of text and its table of frequent words.
const THREAD_BYTES: u64 = 4 << 20;
/// Without a budget of the user's, this share of the free memory is one.
const SHARE_OF_FREE: f64 = 0.8;
/// A stage gets no less than this; what it needs beyond, it says itself.
const LEAST_BYTES: u64 = 1 << 20;

/// A number of bytes, or a text such as `2GiB`.
#[derive(FromPyObject)]
pub(super) enum Budget {
    #[pyo3(transparent)]
    Bytes(u64),
    #[pyo3(transparent)]
    Text(String),
}

/// With what means the stages work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Means {
    pub(super) threads: usize,
    pub(super) budget_bytes: Option<u64>,
}

impl Means {
    pub(super) fn new(threads: Option<usize>, budget: Option<&Budget>) -> Result<Means, Failure> {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let budget_bytes = match budget {
            None => share_of_free(),
            Some(Budget::Bytes(bytes)) => Some(*bytes),
            Some(Budget::Text(text)) => {
                let bytes = parse_bytes(text);
                Some(bytes.map_err(|error| Failure::value(error.to_string(), None))?)
            }
        };
        Ok(Means {
            threads: threads.unwrap_or_else(cores),
            budget_bytes,
        })
    }

    /// For the words of the counting stage.
    pub(super) fn for_counting(&self) -> Option<u64> {
        let buffers = THREAD_BYTES * self.threads as u64;
        Some(self.budget_bytes?.saturating_sub(buffers).max(LEAST_BYTES))
    }
}

/// A share of what this process may still take before something is killed.
fn share_of_free() -> Option<u64> {
    let free = free_memory(&Roots::default())?;
    Some((free as f64 * SHARE_OF_FREE) as u64)
}
