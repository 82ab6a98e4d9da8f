//! Things that happen once: a process appears, the user sets a mark, samples are lost.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::alert::Alert;
use crate::exception::UnhandledException;
use crate::gpu_failure::GpuAllocationFailure;
use crate::limit::Limit;
use crate::optimization::Optimization;
use crate::process::{ProcessId, ProcessInfo};
use crate::usage::ResourceUsage;

/// Something that happened at one moment.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// A process joined the tree.
    ProcessStarted {
        /// Who.
        id: ProcessId,
        /// What is known of it.
        info: ProcessInfo,
    },
    /// A process changed its name or command line (`exec`).
    ProcessRenamed {
        /// Who.
        id: ProcessId,
        /// What is known of it.
        info: ProcessInfo,
    },
    /// A process left the tree.
    ProcessEnded {
        /// Who.
        id: ProcessId,
        /// The kernel's final high-water mark, where it could still be read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        peak_rss_bytes: Option<u64>,
        /// Exit code, where we are the one who waited for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// Signal that killed it, likewise.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
    },
    /// A process that begins or leaves a run inside a job tells its high-water mark: a rise in between is the run's.
    /// Of a run between two samples of the job this is all that is known.
    HighWater {
        /// Who.
        id: ProcessId,
        /// The kernel's mark at this moment (`VmHWM`).
        rss_bytes: u64,
        /// What is resident at this moment (`VmRSS`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resident_bytes: Option<u64>,
    },
    /// The recording came to its end: the command ended, by the word of the one who waited for it, or watching stopped.
    /// A finished run without this event has lost its tail.
    CommandEnded {
        /// CPU time of it and of everything that it waited for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cpu_nanos: Option<u64>,
        /// Its exit code.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// The signal that killed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
        /// The most memory that the recorder saw, also where its samples could not be stored.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        peak_bytes: Option<u64>,
    },
    /// A rank of a distributed run failed, by its own account.
    RankEnded {
        /// Which one.
        rank: u32,
        /// Its exit code.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// The signal that ended it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
    },
    /// What the command used up to its end, with everything that it waited for.
    ResourceUsage(ResourceUsage),
    /// A word from the user: `nilo mark "epoch 3"`.
    Mark {
        /// The word.
        text: String,
    },
    /// The program's settings (hyperparameters), by name; a later event adds to them.
    Config {
        /// Numbers, texts, truth values, lists.
        values: BTreeMap<String, serde_json::Value>,
        /// The rank of the process that told them, in a distributed run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rank: Option<u32>,
    },
    /// The limit was resolved anew and is another one.
    LimitChanged {
        /// The one in force from here on.
        limit: Option<Limit>,
    },
    /// A GPU is recorded from here on; its table has the same index.
    GpuFound {
        /// As in [`crate::Subject::Gpu`].
        index: u32,
        /// What its maker calls it.
        name: String,
        /// Which one it is, on every machine and after every restart: `GPU-…`, or `MIG-…` for a part of one.
        uuid: String,
        /// All its memory.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total_bytes: Option<u64>,
        /// What the driver keeps for itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reserved_bytes: Option<u64>,
        /// The index of the divided GPU (MIG) that this is a part of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        part_of: Option<u32>,
    },
    /// The kernel counted an OOM kill.
    OomKill {
        /// The cgroup whose counter rose; `None` for the machine's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cgroup: Option<String>,
        /// The counter's value.
        kills: u64,
    },
    /// The kernel's OOM handler was entered: the kill is about to come.
    OomNotice {
        /// The cgroup that ran out.
        cgroup: String,
    },
    /// Nothing was sampled between then and here.
    Gap {
        /// How long the silence was.
        nanos: u64,
        /// Why.
        reason: String,
    },
    /// The wall clock was set (or the machine slept): seconds it moved against the monotonic clock.
    ClockJump {
        /// Positive: forward.
        seconds: f64,
    },
    /// Rows that could not be stored.
    Lost {
        /// How many.
        rows: u64,
        /// Why.
        reason: String,
    },
    /// The recorder changed its pace.
    Interval {
        /// The interval from here on.
        nanos: u64,
        /// Why.
        reason: String,
    },
    /// Something that could not be seen, said once.
    Blind {
        /// What and why.
        text: String,
    },
    /// An alert was raised, or one that was raised is over.
    Alert(Box<Alert>),
    /// Alerts that did not reach the alert command or the webhook.
    AlertsNotDelivered {
        /// How many.
        alerts: u64,
        /// Why.
        reason: String,
    },
    /// A file was attached to the run and lies whole in its `attachments` folder.
    Attachment {
        /// Its name there.
        name: String,
        /// Its length.
        bytes: u64,
        /// Its CRC32C.
        crc32c: u32,
        /// What it is, such as `image/png`.
        media_type: String,
    },
    /// A program raised an exception that nobody caught.
    Exception(Box<UnhandledException>),
    /// An allocation on a GPU failed. The program may have caught the exception and gone on.
    GpuAllocationFailed(Box<GpuAllocationFailure>),
    /// What a program measured of itself, by subject; a later event of the same process adds to it.
    Facts {
        /// As `nilo-advice` has them.
        values: BTreeMap<String, serde_json::Value>,
        /// The rank of the process, in a distributed run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rank: Option<u32>,
    },
    /// An optimization was tried on the program: what it changed by measurement.
    Optimization(Box<Optimization>),
    /// Something that a later version knows.
    #[serde(other)]
    Unknown,
}

/// An event with its time.
#[derive(Debug, Clone, PartialEq)]
pub struct TimedEvent {
    /// Nanoseconds since the run began.
    pub time_nanos: u64,
    /// What happened.
    pub event: Event,
}
