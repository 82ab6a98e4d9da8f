//! What `nilo ps` answers: processes that could be watched.

use schemars::JsonSchema;
use serde::Serialize;

/// The value of [`PsAnswer::schema`].
pub const PS_SCHEMA: &str = "nilo.ps/1";

/// Processes that could be watched.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct PsAnswer {
    /// `nilo.ps/1`.
    #[schemars(extend("const" = PS_SCHEMA))]
    pub schema: &'static str,
    /// The largest first.
    pub processes: Vec<WatchableProcess>,
}

/// A process that could be watched.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct WatchableProcess {
    /// PID.
    pub pid: u32,
    /// Its parent's PID.
    pub parent: u32,
    /// Whose it is.
    pub user: Option<String>,
    /// Resident memory.
    pub rss_bytes: u64,
    /// Percent of one core, over a fifth of a second.
    pub cpu_percent: f64,
    /// Recognisable name.
    pub name: String,
    /// Command line.
    pub command: String,
    /// Working directory.
    pub cwd: Option<String>,
    /// Whether it is a Python program.
    pub python: bool,
}

impl PsAnswer {
    /// The answer.
    pub fn new(processes: Vec<WatchableProcess>) -> PsAnswer {
        PsAnswer {
            schema: PS_SCHEMA,
            processes,
        }
    }
}
