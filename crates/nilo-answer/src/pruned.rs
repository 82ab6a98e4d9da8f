//! What `nilo prune` answers: the old runs that were deleted, or would be.

use schemars::JsonSchema;
use serde::Serialize;

use crate::removed::RemovedRun;

/// The value of [`PrunedAnswer::schema`].
pub const PRUNED_SCHEMA: &str = "nilo.prune/1";

/// The old runs that were deleted, or would be.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct PrunedAnswer {
    /// `nilo.prune/1`.
    #[schemars(extend("const" = PRUNED_SCHEMA))]
    pub schema: &'static str,
    /// Nothing was deleted: these are the runs that would be.
    pub dry_run: bool,
    /// Oldest first.
    pub removed: Vec<RemovedRun>,
    /// How large the files of all of them were.
    pub freed_bytes: u64,
    /// How many runs stay.
    pub kept: usize,
}

impl PrunedAnswer {
    /// The answer for a folder that had `runs` runs.
    pub fn new(removed: Vec<RemovedRun>, runs: usize, dry_run: bool) -> PrunedAnswer {
        PrunedAnswer {
            schema: PRUNED_SCHEMA,
            dry_run,
            freed_bytes: removed.iter().map(|run| run.freed_bytes).sum(),
            kept: runs.saturating_sub(removed.len()),
            removed,
        }
    }
}
