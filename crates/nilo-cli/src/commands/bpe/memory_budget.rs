//! The means that the user gave, or those that this machine has.

use nilo_source::{Roots, usual_budget};
use nilo_tokenizer::{CountSettings, Pattern, ResourceLimits};

use super::texts::count_failure;
use crate::args::MemoryBudget;
use crate::failure::Failure;

/// The program itself, its recorder, what the system adds.
const PROGRAM_BYTES: u64 = 12 << 20;

impl MemoryBudget {
    /// With what means the stages work.
    pub(super) fn allowance(&self) -> ResourceLimits {
        let threads = self.threads.map(usize::from);
        let budget_bytes = self
            .memory_budget
            .or_else(|| usual_budget(&Roots::default()));
        ResourceLimits::new(threads, budget_bytes, PROGRAM_BYTES)
    }

    /// How to count with them; an error if the folder for what does not fit cannot be written into.
    pub(super) fn count_settings(&self, pattern: Pattern) -> Result<CountSettings, Failure> {
        let allowance = self.allowance();
        let settings = CountSettings {
            pattern,
            threads: allowance.threads,
            memory_budget_bytes: allowance.for_counting(),
            spill_folder: self.temp_dir.clone(),
            ..CountSettings::default()
        };
        settings.check_spill_folder().map_err(count_failure)?;
        Ok(settings)
    }
}

/// What the whole program will take, if a stage takes this much.
pub(super) fn with_program(stage_bytes: u64) -> u64 {
    stage_bytes + PROGRAM_BYTES
}
