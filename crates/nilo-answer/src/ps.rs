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
    /// The largest first; with `--gpu` by GPU memory.
    pub processes: Vec<WatchableProcess>,
    /// With `--gpu`: memory of processes that cannot be looked at, or that cannot be told apart from the driver's PIDs, as in containers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unmatched_gpus: Vec<UnmatchedGpuHolding>,
    /// What is not known, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
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
    /// With `--gpu`: what it holds on each GPU, the most first; empty where the driver does not tell on which.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<Vec<GpuHolding>>,
}

/// What a process holds on one GPU.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct GpuHolding {
    /// The driver's index of the GPU.
    pub index: u32,
    /// GPU memory of the process, its CUDA context included; absent where the driver does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
}

/// What a process that is not in the list holds on one GPU.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct UnmatchedGpuHolding {
    /// The driver's index of the GPU.
    pub index: u32,
    /// PID, where the driver's numbers are those of this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// GPU memory of the process; absent where the driver does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
}

impl WatchableProcess {
    /// GPU memory in all, as far as it is known.
    pub fn gpu_bytes(&self) -> Option<u64> {
        let known = self.gpus.iter().flatten().filter_map(|gpu| gpu.used_bytes);
        known.reduce(u64::saturating_add)
    }
}

impl PsAnswer {
    /// The answer.
    pub fn new(processes: Vec<WatchableProcess>) -> PsAnswer {
        PsAnswer {
            schema: PS_SCHEMA,
            processes,
            unmatched_gpus: Vec::new(),
            notes: Vec::new(),
        }
    }
}
