//! A run: its identity and its description (`run.json`).

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ending::Ending;
use crate::limit::Limit;
use crate::provenance::Provenance;
use crate::run_mode::RunMode;

/// The name of a run's folder: sorts by time, safe in a path.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct RunId(String);

/// A run id that cannot be one.
#[derive(Debug, Error)]
#[error("not a run id: {text:?}")]
pub struct BadRunId {
    /// What was given.
    pub text: String,
}

impl RunId {
    /// `20261115-081530-417-name`: UTC time to the millisecond, then a slug of the name.
    pub fn new(unix_nanos: i128, name: &str) -> RunId {
        // A clock beyond the year 9999 is wrong, and any date as good.
        let began = Timestamp::from_nanosecond(unix_nanos).unwrap_or(Timestamp::UNIX_EPOCH);
        let slug = slug(name);
        let dash = if slug.is_empty() { "" } else { "-" };
        let date = began.strftime("%Y%m%d-%H%M%S-%3f");
        RunId(format!("{date}{dash}{slug}"))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RunId {
    type Err = BadRunId;

    fn from_str(text: &str) -> Result<RunId, BadRunId> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let good = !text.is_empty()
            && text.len() <= 128
            && !text.starts_with('.')
            && text.chars().all(allowed);
        if good {
            Ok(RunId(text.to_owned()))
        } else {
            Err(BadRunId {
                text: text.to_owned(),
            })
        }
    }
}

impl TryFrom<String> for RunId {
    type Error = BadRunId;

    fn try_from(text: String) -> Result<RunId, BadRunId> {
        text.parse()
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> String {
        id.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Lower-case letters, digits and dashes, at most 40.
fn slug(name: &str) -> String {
    let mut slug = String::new();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.ends_with('-') && !slug.is_empty() {
            slug.push('-');
        }
        if slug.len() >= 40 {
            break;
        }
    }
    slug.trim_end_matches('-').to_owned()
}

/// `run.json`: what ran, where, when, and how it ended.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct RunDescription {
    /// `nilo.run/1`.
    pub schema: String,
    /// Identity.
    pub id: RunId,
    /// The user's name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The run of the job that this one is a part of; its folder lies in that one's `runs/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
    /// The run that this one continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumes: Option<RunId>,
    /// The job that this run's program was started in, where that was over when the run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_by_job: Option<RunId>,
    /// Where it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    /// The user's tags.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// How it came to be recorded.
    pub mode: RunMode,
    /// The command line.
    #[serde(default)]
    pub command: Vec<String>,
    /// Working directory.
    #[serde(default)]
    pub cwd: String,
    /// The machine's name.
    #[serde(default)]
    pub host: String,
    /// Operating system and release.
    #[serde(default)]
    pub system: String,
    /// The version of nilo that wrote this.
    #[serde(default)]
    pub nilo_version: String,
    /// Start by the wall clock, nanoseconds since 1970.
    pub started_unix_nanos: u64,
    /// Start by the monotonic clock of this boot: the zero of the run's time axis.
    pub started_monotonic_nanos: u64,
    /// Which boot that clock belongs to.
    #[serde(default)]
    pub boot_id: String,
    /// The recorder's PID.
    #[serde(default)]
    pub recorder_pid: u32,
    /// Its start time, so that the PID cannot be mistaken.
    #[serde(default)]
    pub recorder_start_ticks: u64,
    /// The PIDs at the root of the recorded tree.
    #[serde(default)]
    pub root_pids: Vec<u32>,
    /// The asked-for sampling interval.
    #[serde(default)]
    pub interval_nanos: u64,
    /// The Slurm job that it ran in, by its environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm: Option<SlurmJobId>,
    /// The folder that it was meant to be stored in, where that could not be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_dir: Option<String>,
    /// The limit at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// How it ended; absent while it runs and when nobody saw the end.
    #[serde(
        default,
        deserialize_with = "Ending::read",
        serialize_with = "Ending::write",
        skip_serializing_if = "Option::is_none"
    )]
    pub ending: Option<Ending>,
    /// The streams that were there when the ending was written, each with its number of segments: what is not there any more was lost.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub streams: BTreeMap<String, u32>,
    /// The length of `marks.nilo` when the ending was written; it only grows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marks_bytes: Option<u64>,
}

/// A job of Slurm and a step of it, as `SLURM_JOB_ID` and `SLURM_STEP_ID` say.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct SlurmJobId {
    /// The job's number.
    pub job_id: String,
    /// The step: `0`, `batch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<String>,
}

/// The value of [`RunDescription::schema`].
pub const RUN_SCHEMA: &str = "nilo.run/1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_ids_sort_by_time_and_are_safe_in_paths() {
        let early = RunId::new(1_794_729_330_417_000_000, "Train GPT-2 ../../x");
        let late = RunId::new(1_794_729_330_418_000_000, "a");
        assert_eq!(early.as_str(), "20261115-075530-417-train-gpt-2-x");
        assert!(early < late);
        assert!(early.as_str().parse::<RunId>().is_ok());
    }

    #[test]
    fn ids_that_leave_the_folder_are_refused() {
        for text in ["", "..", "../x", "a/b", ".hidden", "a\0b", "/etc"] {
            assert!(text.parse::<RunId>().is_err(), "{text:?}");
        }
    }
}
