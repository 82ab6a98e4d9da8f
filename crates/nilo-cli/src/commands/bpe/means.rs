//! The means that the user gave, or those that this machine has.

use nilo_source::{Roots, usual_budget};
use nilo_tokenizer::Allowance;

use crate::args::Means;

/// The program itself, its recorder, what the system adds.
const PROGRAM_BYTES: u64 = 12 << 20;

impl Means {
    /// With what means the stages work.
    pub(super) fn allowance(&self) -> Allowance {
        let threads = self.threads.map(usize::from);
        let budget_bytes = self
            .memory_budget
            .or_else(|| usual_budget(&Roots::default()));
        Allowance::new(threads, budget_bytes, PROGRAM_BYTES)
    }
}

/// What the whole program will take, if a stage takes this much.
pub(super) fn with_program(stage_bytes: u64) -> u64 {
    stage_bytes + PROGRAM_BYTES
}
