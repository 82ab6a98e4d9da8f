//! How a run ended, and how sure we are.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::gpu_failure::GpuAllocationFailure;
use crate::limit::Limit;

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunStatus {
    /// The recorder is at work.
    Running,
    /// The command ended by itself, with the exit code that is told beside it.
    Exited,
    /// It is over, and its exit code is not known: only its parent can read it.
    Ended,
    /// A signal ended it.
    Killed,
    /// The kernel killed it, or a process of its tree, for lack of memory.
    OomKilled,
    /// An allocation on a GPU failed, and nobody caught the exception.
    GpuOutOfMemory,
    /// Nobody saw the end: the recorder died or its file stops.
    Lost,
    /// Watching ended while the processes went on.
    Detached,
}

impl RunStatus {
    /// The word used on the screen and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            RunStatus::Running => "running",
            RunStatus::Exited => "exited",
            RunStatus::Ended => "ended",
            RunStatus::Killed => "killed",
            RunStatus::OomKilled => "oom-killed",
            RunStatus::GpuOutOfMemory => "gpu-out-of-memory",
            RunStatus::Lost => "lost",
            RunStatus::Detached => "detached",
        }
    }
}

/// How far the evidence carries.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Certainty {
    /// Several causes fit.
    Possible,
    /// One cause fits far better than the others.
    Likely,
    /// The kernel said so.
    Certain,
}

/// An OOM kill.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct OomKill {
    /// How sure we are.
    pub certainty: Certainty,
    /// The limit that was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// When, in nanoseconds since the run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_nanos: Option<u64>,
    /// The killed process, when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim_pid: Option<u32>,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim_name: Option<String>,
    /// Number of kills counted by the kernel during the run.
    #[serde(default)]
    pub kills: u64,
    /// What the verdict rests on, one sentence each.
    pub evidence: Vec<String>,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Ending {
    /// In one word.
    pub status: RunStatus,
    /// The command's own exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// When, in nanoseconds since the run began.
    pub time_nanos: u64,
    /// The OOM kill, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom: Option<OomKill>,
    /// Processes of the tree that went on after the command ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_running: Vec<u32>,
    /// The recorder died before the run was over, where that is why nobody saw its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorder_death: Option<RecorderDeath>,
    /// The rank that ended without a word before the others were stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_rank: Option<LostRank>,
    /// The allocation on a GPU that failed, where that is how it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_out_of_memory: Option<GpuAllocationFailure>,
}

/// A rank of a distributed run that ended without a word, as when it is killed; the launcher then stopped the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct LostRank {
    /// Which one.
    pub rank: u32,
    /// When it was gone, as far as that was seen, in nanoseconds since the run began.
    pub time_nanos: u64,
}

/// The status of a process that has ended, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessStatus {
    /// The code that it exited with.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

impl ProcessStatus {
    /// The state of a run that ended so.
    pub fn run_status(self) -> RunStatus {
        match (self.exit_code, self.signal) {
            (Some(_), _) => RunStatus::Exited,
            (None, Some(_)) => RunStatus::Killed,
            (None, None) => RunStatus::Ended,
        }
    }

    /// As Python's `subprocess` has it: -2 is an end by signal 2.
    pub fn from_return_code(code: Option<i32>) -> ProcessStatus {
        ProcessStatus {
            exit_code: code.filter(|code| *code >= 0),
            signal: code.filter(|code| *code < 0).map(i32::wrapping_neg),
        }
    }
}

/// The recorder, `nilo` itself, died before the run was over: what came after is not recorded.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct RecorderDeath {
    /// PID of the recorder.
    pub pid: u32,
    /// The time of the last record, in nanoseconds since the run began. The recorder died then or later.
    pub recorded_until_nanos: u64,
    /// Whether the kernel's log says that the kernel killed the recorder for lack of memory; `null` where the log is not there to be read.
    pub oom_killed: Option<bool>,
}

impl Ending {
    /// Writes the ending into a run's description. Earlier versions do not know a status that came later, and read how the process ended.
    pub(crate) fn write<S: Serializer>(ending: &Option<Ending>, to: S) -> Result<S::Ok, S::Error> {
        let known = ending.as_ref().map(|ending| match ending.status {
            RunStatus::GpuOutOfMemory => Ending {
                status: ending.process_status().run_status(),
                ..ending.clone()
            },
            _ => ending.clone(),
        });
        known.serialize(to)
    }

    /// How the process itself ended.
    pub fn process_status(&self) -> ProcessStatus {
        ProcessStatus {
            exit_code: self.exit_code,
            signal: self.signal,
        }
    }

    /// Reads the ending in a run's description. Earlier versions wrote `exited` also where the code is not known.
    pub(crate) fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Ending>, D::Error> {
        let ending: Option<Ending> = Option::deserialize(from)?;
        Ok(
            ending.map(|ending| match (ending.status, ending.exit_code) {
                _ if ending.gpu_out_of_memory.is_some() => Ending {
                    status: RunStatus::GpuOutOfMemory,
                    ..ending
                },
                (RunStatus::Exited, None) => Ending {
                    status: RunStatus::Ended,
                    ..ending
                },
                _ => ending,
            }),
        )
    }

    /// When the run was over for the job: at the kernel's kill where one ended it, which the recorder sees the end of a moment later.
    pub fn decisive_nanos(&self) -> u64 {
        self.kill_nanos().unwrap_or(self.time_nanos)
    }

    /// When the kernel killed for lack of memory, where that is how the run ended. The job may have gone on for long after it.
    pub fn kill_nanos(&self) -> Option<u64> {
        let kill = self.oom.as_ref().and_then(|oom| oom.time_nanos);
        kill.filter(|_| self.status == RunStatus::OomKilled)
    }
}
