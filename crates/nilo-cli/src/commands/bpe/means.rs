//! How many threads, and how much memory for which stage.

use nilo_source::{Roots, free_memory};

use crate::args::Means;

/// The program itself, its recorder, what the system adds.
const PROGRAM_BYTES: u64 = 12 << 20;
/// Buffers of a thread that counts: its chunk of text and its table of frequent words.
const THREAD_BYTES: u64 = 4 << 20;
/// Without a budget of the user's, this share of the free memory is one.
const SHARE_OF_FREE: f64 = 0.8;
/// A stage gets no less than this; what it needs beyond, it says itself.
const LEAST_BYTES: u64 = 1 << 20;

/// With what means the stages work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowance {
    pub(super) threads: usize,
    budget_bytes: Option<u64>,
}

impl Allowance {
    pub(super) fn new(means: &Means) -> Allowance {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        Allowance {
            threads: means.threads.map_or_else(cores, usize::from),
            budget_bytes: means.memory_budget.or_else(share_of_free),
        }
    }

    /// For the words of the counting stage.
    pub(super) fn for_counting(&self) -> Option<u64> {
        let buffers = THREAD_BYTES * self.threads as u64;
        self.rest(PROGRAM_BYTES + buffers)
    }

    /// For everything of the merging stage.
    pub(super) fn for_merging(&self) -> Option<u64> {
        self.rest(PROGRAM_BYTES)
    }

    /// What the whole program will take, if a stage takes this much.
    pub(super) fn with_program(stage_bytes: u64) -> u64 {
        stage_bytes + PROGRAM_BYTES
    }

    fn rest(&self, taken: u64) -> Option<u64> {
        let left = self.budget_bytes?.saturating_sub(taken);
        Some(left.max(LEAST_BYTES))
    }
}

/// A share of what this process may still take before something is killed.
fn share_of_free() -> Option<u64> {
    let free = free_memory(&Roots::default())?;
    Some((free as f64 * SHARE_OF_FREE) as u64)
}
