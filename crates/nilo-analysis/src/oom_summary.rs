//! Running out of memory as `nilo show` and `nilo runs` have it in JSON: the kernel killed, or the program died of an exception that says so.

use nilo_sample::{Certainty, GpuAllocationFailure, Limit, OomKill};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::assessment::{RanOut, RanOutKind};
use crate::gpu_oom::GpuOomCause;
use crate::limit_use::LimitUse;
use crate::tracking::Resource;
use nilo_forecast::Growth;

/// Memory ran out, or may have.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct OomSummary {
    /// How it showed.
    pub kind: RanOutKind,
    /// How sure that is. What is only possible is not taken for the end of the run.
    pub certainty: Certainty,
    /// What ran out; absent where it is only possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<Resource>,
    /// The limit that the kernel keeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// The most that was held; of a cgroup's limit, all that was charged to the cgroup.
    pub peak_bytes: Option<u64>,
    /// What was asked for and held, where an allocation on a GPU failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuAllocationFailure>,
    /// Why that allocation failed, where it can be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_cause: Option<GpuOomCause>,
    /// What filled the limit, where it is a cgroup's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_use: Option<LimitUse>,
    /// When, in nanoseconds since the run began; absent where the recorder died before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_nanos: Option<u64>,
    /// The process that was killed or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub victim_pid: Option<u32>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub victim_name: Option<String>,
    /// Number of kills counted by the kernel during the run.
    pub kills: u64,
    /// The growth that led there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub growth: Option<Growth>,
    /// What this rests on, one sentence each.
    pub evidence: Vec<String>,
}

impl OomSummary {
    /// What ran out, with the kernel's kill where there was one.
    pub(crate) fn of(ran_out: Option<&RanOut>, kill: Option<&OomKill>) -> Option<OomSummary> {
        match (ran_out, kill) {
            (Some(ran_out), _) => Some(OomSummary {
                kind: ran_out.kind,
                certainty: ran_out.certainty,
                resource: Some(ran_out.resource.clone()),
                limit: kill
                    .filter(|_| ran_out.kind == RanOutKind::OomKill)
                    .and_then(|kill| kill.limit.clone()),
                peak_bytes: ran_out.peak_bytes,
                gpu: ran_out.gpu.clone(),
                gpu_cause: ran_out.gpu_cause.clone(),
                limit_use: ran_out.limit_use,
                time_nanos: ran_out.time_nanos,
                victim_pid: ran_out.pid,
                victim_name: ran_out.name.clone(),
                kills: kill.map_or(0, |kill| kill.kills),
                growth: ran_out.growth,
                evidence: ran_out.evidence.clone(),
            }),
            (None, Some(kill)) => Some(OomSummary {
                kind: RanOutKind::OomKill,
                certainty: kill.certainty,
                resource: None,
                limit: kill.limit.clone(),
                peak_bytes: None,
                gpu: None,
                gpu_cause: None,
                limit_use: None,
                time_nanos: kill.time_nanos,
                victim_pid: kill.victim_pid,
                victim_name: kill.victim_name.clone(),
                kills: kill.kills,
                growth: None,
                evidence: kill.evidence.clone(),
            }),
            (None, None) => None,
        }
    }
}
