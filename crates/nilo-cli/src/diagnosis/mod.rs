//! What `nilo oom` and `nilo leak` judge: the resources of a run or of something that runs, or the memories of a file from elsewhere (`file.rs`).

mod file;

use nilo_analysis::assessment::{RanOut, is_warning, ran_out};
use nilo_analysis::tracking::{Resource, ResourceTracker, RiskChange, Verdict};
use nilo_forecast::Forecast;
use nilo_sample::units::to_secs;
use nilo_sample::{Ending, Recording, RunStatus, Subject, TableSpec};
use serde::Serialize;

use crate::args::Judged;
use crate::failure::Failure;
use crate::folder::{find_run, load_where, runs_root};
use crate::live::ResourceFilter;
use crate::settings::Settings;

/// A recording with everything that can be said of what may run out in it.
#[derive(Debug)]
pub(crate) struct Diagnosis {
    /// The run's id, or the file.
    pub(crate) source: Source,
    /// The forecasters at the end.
    pub(crate) tracker: ResourceTracker,
    /// Every change of a risk on the way.
    pub(crate) changes: Vec<RiskChange>,
    /// When the recording ends, on its own clock.
    pub(crate) end_nanos: u64,
    /// What of it is asked about.
    pub(crate) scope: ResourceFilter,
    /// The recording itself, where there is one at hand.
    pub(crate) recording: Option<Recording>,
    /// What it ended of, where that is memory.
    pub(crate) ran_out: Option<RanOut>,
}

/// Where it comes from.
#[derive(Debug)]
pub(crate) enum Source {
    Run {
        id: String,
        name: Option<String>,
        ending: Ending,
    },
    File {
        path: String,
        /// The tool that wrote it.
        tool: &'static str,
    },
    /// Something that was looked at while it ran.
    Live {
        /// In words.
        label: String,
        /// It ended meanwhile.
        is_over: bool,
    },
}

impl Source {
    pub(crate) fn is_file(&self) -> bool {
        matches!(self, Source::File { .. })
    }

    /// Whether there may be more to come.
    pub(crate) fn is_running(&self) -> bool {
        match self {
            Source::Run { ending, .. } => ending.status == RunStatus::Running,
            Source::File { .. } => false,
            Source::Live { is_over, .. } => !is_over,
        }
    }
}

/// What every answer in JSON begins with.
#[derive(Debug, Serialize)]
pub(crate) struct About<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    looked_at: Option<&'a str>,
    running: bool,
    end_secs: f64,
}

/// A time in which a resource's risk was high or worse.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Warned {
    pub(crate) at_nanos: u64,
    /// When the risk fell again; `None` when it stood to the end.
    pub(crate) cleared_nanos: Option<u64>,
    /// What was said first.
    pub(crate) forecast: Forecast,
}

impl Diagnosis {
    /// Reads what the user asked for.
    pub(crate) fn of(judged: &Judged, settings: &Settings) -> Result<Diagnosis, Failure> {
        match &judged.csv {
            Some(path) => file::read(path, judged),
            None => of_run(judged, settings),
        }
    }

    /// For the JSON forms.
    pub(crate) fn about(&self) -> About<'_> {
        let (mut run, mut file, mut looked_at) = (None, None, None);
        match &self.source {
            Source::Run { id, .. } => run = Some(id.as_str()),
            Source::File { path, .. } => file = Some(path.as_str()),
            Source::Live { label, .. } => looked_at = Some(label.as_str()),
        }
        About {
            run,
            file,
            looked_at,
            running: self.source.is_running(),
            end_secs: to_secs(self.end_nanos),
        }
    }

    /// What is to be said of every resource that is asked about, the most dangerous first.
    pub(crate) fn verdicts(&self, least_growth_bytes: Option<f64>) -> Vec<Verdict> {
        let mut verdicts = self.tracker.verdicts(least_growth_bytes);
        verdicts.retain(|verdict| self.scope.holds(&verdict.resource));
        verdicts
    }

    /// What has run out although nothing was measured of it, such as a GPU that only the program's own exception tells of.
    pub(crate) fn unmeasured(&self) -> Option<Verdict> {
        let ran_out = self.ran_out.as_ref()?;
        let measured = self.tracker.verdicts(None);
        let mut each = measured.iter();
        let missing = !each.any(|verdict| verdict.resource == ran_out.resource);
        missing.then(|| Verdict::unmeasured(ran_out.resource.clone()))
    }

    /// The warnings of one resource, by time.
    pub(crate) fn warnings(&self, resource: &Resource) -> Vec<Warned> {
        let mut warnings: Vec<Warned> = Vec::new();
        let of_resource = |change: &&RiskChange| change.resource == *resource;
        for change in self.changes.iter().filter(of_resource) {
            let before = is_warning(change.before);
            let after = is_warning(change.forecast.level);
            if after && !before {
                warnings.push(Warned {
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

fn of_run(judged: &Judged, settings: &Settings) -> Result<Diagnosis, Failure> {
    let folder = find_run(&runs_root(&judged.place, settings), judged.run.as_deref())?;
    let needed = |spec: &TableSpec| {
        !matches!(
            spec.subject,
            Subject::ProcessDetail(_) | Subject::Recorder | Subject::Unknown
        )
    };
    let (recording, ending) = load_where(&folder, &needed)?;
    let (mut tracker, changes) = ResourceTracker::over(&recording);
    let ran_out = ran_out(&recording, &ending, &mut tracker);
    // What ran out is told even where nothing was measured of it.
    if tracker.verdicts(None).is_empty() && ran_out.is_none() {
        return Err(Failure::new("no memory samples to analyse")
            .hint("record one with `nilo run -- COMMAND`"));
    }
    let end_nanos = ending.time_nanos;
    Ok(Diagnosis {
        source: Source::Run {
            id: recording.description.id.to_string(),
            name: recording.description.name.clone(),
            ending,
        },
        tracker,
        changes,
        end_nanos,
        scope: ResourceFilter::default(),
        ran_out,
        recording: Some(recording),
    })
}
