//! What `nilo runs` answers: one entry for each recorded run.

use std::collections::BTreeMap;

use nilo_analysis::RunOutline;
use nilo_analysis::exceptions::ExceptionSummary;
use nilo_analysis::oom_summary::OomSummary;
use nilo_analysis::peak::PeakKind;
use nilo_analysis::summary::notable_charge;
use nilo_sample::{LimitCounts, RecorderDeath, Recording, RunStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The value of [`RunsAnswer::schema`].
pub const RUNS_SCHEMA: &str = "nilo.runs/1";

/// The recorded runs, oldest first; those inside a job follow it.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct RunsAnswer {
    /// `nilo.runs/1`.
    #[schemars(extend("const" = RUNS_SCHEMA))]
    pub schema: &'static str,
    /// One entry for each run.
    pub runs: Vec<ListedRun>,
}

/// A run of the list.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ListedRun {
    /// Run id.
    pub run: String,
    /// The name of its folder, where that is not its id: in a copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The user's name for it.
    pub name: Option<String>,
    /// The job that it lies in.
    pub parent: Option<String>,
    /// The run that it continues.
    pub resumes: Option<String>,
    /// The user's tags.
    pub tags: BTreeMap<String, String>,
    /// The command line.
    pub command: Vec<String>,
    /// How it ended, or that it has not.
    pub status: RunStatus,
    /// The command's exit code.
    pub exit_code: Option<i32>,
    /// The recorder died before the run was over, where that is why nobody saw its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorder_death: Option<RecorderDeath>,
    /// Memory ran out, or may have.
    pub oom: Option<OomSummary>,
    /// The unhandled exception that ended the program.
    pub exception: Option<ExceptionSummary>,
    /// Nanoseconds since 1970.
    pub started_unix_nanos: u64,
    /// From start to end.
    pub duration_secs: f64,
    /// The largest level of memory of the process tree.
    pub peak_bytes: Option<u64>,
    /// Where that figure comes from.
    pub peak_kind: Option<PeakKind>,
    /// The limit in force.
    pub limit_bytes: Option<u64>,
    /// What counts against it: `limit_used_bytes` is this.
    pub limit_counts: Option<LimitCounts>,
    /// The most of it that was used: of a cgroup's limit what was charged to the cgroup, files in tmpfs included and page cache left out.
    pub limit_used_bytes: Option<u64>,
    /// Mean memory over time.
    pub mean_bytes: Option<u64>,
    /// Whether files of the recording are damaged, so that figures may be missing or too small; `nilo verify` tells more.
    pub damaged: bool,
}

impl RunsAnswer {
    /// The answer for runs in the order in which they are to be listed.
    pub fn of(runs: impl IntoIterator<Item = ListedRun>) -> RunsAnswer {
        RunsAnswer {
            schema: RUNS_SCHEMA,
            runs: runs.into_iter().collect(),
        }
    }
}

impl ListedRun {
    /// What commands find it by: its id, or the name of its folder.
    pub fn label(&self) -> &str {
        self.folder.as_deref().unwrap_or(&self.run)
    }

    /// What was charged against the limit, where that is notably more or less than the peak of the tree.
    pub fn charged_bytes(&self) -> Option<u64> {
        let is_of_memory = self.limit_counts == Some(LimitCounts::Memory);
        let used_bytes = self.limit_used_bytes.filter(|_| is_of_memory);
        notable_charge(self.limit_bytes, used_bytes, self.peak_bytes)
    }

    /// The entry of a recording.
    pub fn of(recording: &Recording, outline: &RunOutline) -> ListedRun {
        let description = &recording.description;
        let memory = &outline.memory;
        ListedRun {
            run: description.id.to_string(),
            folder: None,
            name: description.name.clone(),
            parent: description.parent.as_ref().map(ToString::to_string),
            resumes: description.resumes.as_ref().map(ToString::to_string),
            tags: description.tags.clone(),
            command: description.command.clone(),
            status: outline.status,
            exit_code: outline.exit_code,
            recorder_death: outline.recorder_death.clone(),
            oom: outline.oom.clone(),
            exception: outline.exception.clone(),
            started_unix_nanos: description.started_unix_nanos,
            duration_secs: outline.duration_secs,
            peak_bytes: memory.peak_bytes,
            peak_kind: memory.peak_kind,
            limit_bytes: memory.limit_bytes,
            limit_counts: memory.limit_counts,
            limit_used_bytes: memory.limit_used_bytes,
            mean_bytes: memory.mean_bytes,
            damaged: !nilo_analysis::damage(recording).is_empty(),
        }
    }
}
