//! What `nilo rm` answers: the runs that were deleted.

use schemars::JsonSchema;
use serde::Serialize;

/// The value of [`RemovedAnswer::schema`].
pub const REMOVED_SCHEMA: &str = "nilo.rm/1";

/// The runs that were deleted.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct RemovedAnswer {
    /// `nilo.rm/1`.
    #[schemars(extend("const" = REMOVED_SCHEMA))]
    pub schema: &'static str,
    /// In the order in which they were named.
    pub removed: Vec<RemovedRun>,
}

/// A run that was deleted.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct RemovedRun {
    /// Run id.
    pub run: String,
    /// Where it was.
    pub path: String,
    /// How large its files were.
    pub freed_bytes: u64,
}

impl RemovedAnswer {
    /// The answer.
    pub fn new(removed: Vec<RemovedRun>) -> RemovedAnswer {
        RemovedAnswer {
            schema: REMOVED_SCHEMA,
            removed,
        }
    }
}
