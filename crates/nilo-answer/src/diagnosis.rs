//! What `nilo oom` and `nilo leak` judge: the resources of a run, of something that runs, or of a file from elsewhere.

use nilo_analysis::assessment::{RanOut, is_warning};
use nilo_analysis::damage;
use nilo_analysis::findings::memory_ends_early;
use nilo_analysis::tracking::{Resource, ResourceTracker, ResourceVerdict, RiskChange};
use nilo_analysis::{HandledGpuFailures, handled_gpu_failures};
use nilo_forecast::Forecast;
use nilo_sample::units::to_secs;
use nilo_sample::{Ending, RecorderDeath, Recording, RunStatus};
use schemars::JsonSchema;
use serde::Serialize;

use crate::resource_filter::ResourceFilter;

/// A recording with everything that can be said of what may run out in it.
#[derive(Debug)]
pub struct Diagnosis {
    /// Where it comes from.
    pub source: DiagnosisSource,
    /// The forecasters at the end.
    pub tracker: ResourceTracker,
    /// Every change of a risk on the way.
    pub changes: Vec<RiskChange>,
    /// When the recording ends, on its own clock.
    pub end_nanos: u64,
    /// What of it is asked about.
    pub scope: ResourceFilter,
    /// The recording itself, where there is one at hand.
    pub recording: Option<Recording>,
    /// What it ended of, where that is memory.
    pub ran_out: Option<RanOut>,
}

/// Where a diagnosis comes from.
#[derive(Debug)]
pub enum DiagnosisSource {
    /// A recorded run.
    Run {
        /// Its id.
        id: String,
        /// The user's name for it.
        name: Option<String>,
        /// How it ended.
        ending: Box<Ending>,
    },
    /// A file that another tool wrote.
    File {
        /// Which.
        path: String,
        /// The tool.
        tool: &'static str,
    },
    /// Something that was monitored while it ran.
    Live {
        /// In words.
        label: String,
        /// It ended meanwhile.
        is_over: bool,
    },
}

impl DiagnosisSource {
    /// Whether it is a file of another tool.
    pub fn is_file(&self) -> bool {
        matches!(self, DiagnosisSource::File { .. })
    }

    /// Whether there may be more to come.
    pub fn is_running(&self) -> bool {
        match self {
            DiagnosisSource::Run { ending, .. } => ending.status == RunStatus::Running,
            DiagnosisSource::File { .. } => false,
            DiagnosisSource::Live { is_over, .. } => !is_over,
        }
    }
}

/// What was judged: the keys that every diagnosis begins with. One of the first three is there.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct DiagnosedSource {
    /// Run id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The file of another tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// What was monitored, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub looked_at: Option<String>,
    /// Whether there may be more to come.
    pub running: bool,
    /// When the recording ends, from its start.
    pub end_secs: f64,
    /// Whether files of the recording are damaged, so that figures may be missing or too small; `nilo verify` tells more.
    pub damaged: bool,
    /// When the last sample of memory was taken, where the run went on after that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_until_secs: Option<f64>,
    /// The recorder died before the run was over, where that is why the recording ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorder_death: Option<RecorderDeath>,
}

/// A time in which a resource's risk was a warning.
#[derive(Debug, Clone, PartialEq)]
pub struct PastWarning {
    /// When it began.
    pub at_nanos: u64,
    /// When the risk fell again; `None` when it stood to the end.
    pub cleared_nanos: Option<u64>,
    /// What was said first.
    pub forecast: Forecast,
}

impl Diagnosis {
    /// What is judged, for the JSON forms.
    pub fn about(&self) -> DiagnosedSource {
        let mut about = DiagnosedSource {
            run: None,
            file: None,
            looked_at: None,
            running: self.source.is_running(),
            end_secs: to_secs(self.end_nanos),
            damaged: self
                .recording
                .as_ref()
                .is_some_and(|recording| !damage(recording).is_empty()),
            memory_until_secs: self.memory_until_nanos().map(to_secs),
            recorder_death: None,
        };
        match &self.source {
            DiagnosisSource::Run { id, ending, .. } => {
                about.run = Some(id.clone());
                about.recorder_death = ending.recorder_death.clone();
            }
            DiagnosisSource::File { path, .. } => about.file = Some(path.clone()),
            DiagnosisSource::Live { label, .. } => about.looked_at = Some(label.clone()),
        }
        about
    }

    /// When the last sample of memory was taken, where the run went on after that: nothing is known of its end.
    pub fn memory_until_nanos(&self) -> Option<u64> {
        let recording = self.recording.as_ref()?;
        let early = memory_ends_early(recording).filter(|_| !self.source.is_running())?;
        Some(early.recorded_nanos)
    }

    /// Up to when a warning could help: until memory ran out where it did, or else the end.
    pub fn decisive_nanos(&self) -> u64 {
        match (&self.source, &self.ran_out) {
            (DiagnosisSource::Run { ending, .. }, Some(ran_out)) => ran_out.decisive_nanos(ending),
            (DiagnosisSource::Run { ending, .. }, None) => ending.decisive_nanos(),
            (DiagnosisSource::File { .. } | DiagnosisSource::Live { .. }, _) => self.end_nanos,
        }
    }

    /// What is to be said of every resource that is asked about, the most dangerous first.
    pub fn verdicts(&self, least_growth_bytes: Option<f64>) -> Vec<ResourceVerdict> {
        let mut verdicts = self.tracker.verdicts(least_growth_bytes);
        verdicts.retain(|verdict| self.scope.holds(&verdict.resource));
        verdicts
    }

    /// What has run out although nothing was measured of it, such as a GPU that only the program's own exception tells of.
    pub fn unmeasured(&self) -> Option<ResourceVerdict> {
        let ran_out = self.ran_out.as_ref()?;
        let measured = self.tracker.verdicts(None);
        let mut each = measured.iter();
        let missing = !each.any(|verdict| verdict.resource == ran_out.resource);
        missing.then(|| ResourceVerdict::unmeasured(ran_out.resource.clone()))
    }

    /// Allocations on a GPU that is asked about that failed while the program went on.
    pub fn handled_gpu_failures(&self) -> Option<HandledGpuFailures> {
        let (DiagnosisSource::Run { ending, .. }, Some(recording)) =
            (&self.source, &self.recording)
        else {
            return None;
        };
        handled_gpu_failures(recording, ending, |device| {
            self.scope.holds(&match device {
                Some(index) => Resource::Gpu { index },
                None => Resource::UnnamedGpu,
            })
        })
    }

    /// The warnings of one resource, by time.
    pub fn warnings(&self, resource: &Resource) -> Vec<PastWarning> {
        let mut warnings: Vec<PastWarning> = Vec::new();
        let of_resource = |change: &&RiskChange| change.resource == *resource;
        for change in self.changes.iter().filter(of_resource) {
            let before = is_warning(change.before);
            let after = is_warning(change.forecast.level);
            if after && !before {
                warnings.push(PastWarning {
                    at_nanos: change.time_nanos,
                    cleared_nanos: None,
                    forecast: change.forecast,
                });
            } else if let (true, false, Some(last)) = (before, after, warnings.last_mut()) {
                last.cleared_nanos = Some(change.time_nanos);
            }
        }
        warnings
    }
}
