//! What `nilo oom` and `nilo leak` judge: the resources of a run or of something that runs, or the memories of a file from elsewhere.

use std::path::Path;

use nilo_analysis::forecast::{Forecast, Reading, RiskLevel};
use nilo_analysis::lookout::{Change, Lookout, Resource, Verdict};
use nilo_import::{ImportError, Options, Track};
use nilo_sample::units::to_secs;
use nilo_sample::{Recording, RunStatus, Subject, TableSpec, is_absent};
use serde::Serialize;

use crate::args::Judged;
use crate::failure::{Failure, warn};
use crate::folder::{find_run, load_where, runs_root};
use crate::live::Scope;
use crate::settings::Settings;

/// A column with a larger share of rows without a number is worth a word.
const MANY_MISSING: f64 = 0.1;

/// A recording with everything that can be said of what may run out in it.
#[derive(Debug)]
pub(crate) struct Outlook {
    /// The run's id, or the file.
    pub(crate) source: Source,
    /// The forecasters at the end.
    pub(crate) lookout: Lookout,
    /// Every change of a risk on the way.
    pub(crate) changes: Vec<Change>,
    /// When the recording ends, on its own clock.
    pub(crate) end_nanos: u64,
    /// What of it is asked about.
    pub(crate) scope: Scope,
    /// The recording itself, where there is one at hand.
    pub(crate) recording: Option<Recording>,
}

/// Where it comes from.
#[derive(Debug)]
pub(crate) enum Source {
    Run {
        id: String,
        name: Option<String>,
        status: RunStatus,
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
            Source::Run { status, .. } => *status == RunStatus::Running,
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

impl Outlook {
    /// Reads what the user asked for.
    pub(crate) fn of(judged: &Judged, settings: &Settings) -> Result<Outlook, Failure> {
        match &judged.csv {
            Some(path) => of_file(path, judged),
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
        let mut verdicts = self.lookout.verdicts(least_growth_bytes);
        verdicts.retain(|verdict| self.scope.holds(&verdict.resource));
        verdicts
    }

    /// The warnings of one resource, by time.
    pub(crate) fn warnings(&self, resource: &Resource) -> Vec<Warned> {
        let mut warnings: Vec<Warned> = Vec::new();
        let of_resource = |change: &&Change| change.resource == *resource;
        for change in self.changes.iter().filter(of_resource) {
            let before = change.before >= RiskLevel::High;
            let after = change.forecast.level >= RiskLevel::High;
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

fn of_run(judged: &Judged, settings: &Settings) -> Result<Outlook, Failure> {
    let folder = find_run(&runs_root(&judged.place, settings), judged.run.as_deref())?;
    let needed = |spec: &TableSpec| {
        !matches!(
            spec.subject,
            Subject::ProcessDetail(_) | Subject::Recorder | Subject::Unknown
        )
    };
    let (recording, ending) = load_where(&folder, &needed)?;
    let (lookout, changes) = Lookout::over(&recording);
    if lookout.verdicts(None).is_empty() {
        return Err(
            Failure::new("this run has no memory in it that could be judged")
                .hint("record one with `nilo run -- COMMAND`"),
        );
    }
    Ok(Outlook {
        source: Source::Run {
            id: recording.description.id.to_string(),
            name: recording.description.name.clone(),
            status: ending.status,
        },
        lookout,
        changes,
        end_nanos: ending.time_nanos,
        scope: Scope::default(),
        recording: Some(recording),
    })
}

fn of_file(path: &Path, judged: &Judged) -> Result<Outlook, Failure> {
    let options = Options {
        columns: judged.columns.clone(),
        unit: judged.unit,
        total_bytes: judged.limit,
        ..Options::default()
    };
    let import =
        nilo_import::read_file(path, &options).map_err(|error| import_failure(error, path))?;
    for warning in &import.warnings {
        warn(warning);
    }
    let limit_bytes = judged.limit.map(|bytes| bytes as f64);
    let mut lookout = Lookout::default();
    let mut changes = Vec::new();
    let (mut end_nanos, mut empty) = (0, Vec::new());
    for track in import.tracks() {
        let resource = Resource::Track {
            name: track.name.clone(),
        };
        let mut usable = 0;
        for reading in readings(&track, limit_bytes) {
            usable += 1;
            end_nanos = end_nanos.max(reading.time_nanos);
            changes.extend(lookout.observe(resource.clone(), reading));
        }
        let rows = track.used.times.len();
        if usable == 0 {
            empty.push(track.name);
        } else if (rows - usable) as f64 > MANY_MISSING * rows as f64 {
            warn(&format!(
                "{} of {rows} rows have no amount of memory in {}",
                rows - usable,
                track.name
            ));
        }
    }
    if lookout.verdicts(None).is_empty() {
        let what = format!(
            "{} has no amounts of memory in {}",
            path.display(),
            empty.join(", ")
        );
        return Err(Failure::new(what).hint("amounts are numbers from zero up to what a machine can have; --column names another column, --unit the unit"));
    }
    for name in empty {
        warn(&format!(
            "{name} has no amounts of memory, so nothing is said of it"
        ));
    }
    Ok(Outlook {
        source: Source::File {
            path: path.display().to_string(),
            tool: import.format.name(),
        },
        lookout,
        changes,
        end_nanos,
        scope: Scope::default(),
        recording: None,
    })
}

/// The rows of a track that can be used.
fn readings<'a>(
    track: &'a Track<'a>,
    limit_bytes: Option<f64>,
) -> impl Iterator<Item = Reading> + 'a {
    let usable = |value: f64| !is_absent(value) && value.is_finite() && value >= 0.0;
    let mut limit = limit_bytes;
    (0..track.used.times.len()).filter_map(move |row| {
        if let (None, Some(limits)) = (limit_bytes, track.limit) {
            limit = Some(limits.values[row])
                .filter(|value| usable(*value))
                .or(limit);
        }
        let held = track.held.map(|held| held.values[row]);
        // A row without the part that is held would look like a jump.
        let sound = usable(track.used.values[row]) && held.is_none_or(usable);
        sound.then(|| Reading {
            time_nanos: track.used.times[row],
            used_bytes: track.used.values[row],
            held_bytes: held,
            limit_bytes: limit,
            step: track.table.step(row),
            ..Reading::default()
        })
    })
}

fn import_failure(error: ImportError, path: &Path) -> Failure {
    let hint = match &error {
        ImportError::PercentOfWhat { .. } => Some("say it with --limit"),
        ImportError::UnknownColumn { .. } => Some("--column takes one of these"),
        ImportError::NotANumber { .. } => Some("choose columns with --column"),
        ImportError::FixedColumns { .. } => Some("leave --column out"),
        ImportError::Open { .. } | ImportError::Read { line: 0, .. } => Some("--csv takes a file"),
        ImportError::TimeIsNoMemory { .. } => Some("--column takes a column of memory"),
        ImportError::Empty | ImportError::NoRows { .. } => {
            Some("a recording has a header and rows such as t_s,rss_bytes")
        }
        other => other.hint(),
    };
    let sentence = match &error {
        ImportError::Open { source, .. } | ImportError::Read { line: 0, source } => {
            format!("cannot read {}: {source}", path.display())
        }
        ImportError::Read { source, .. } => format!("{}: {error}: {source}", path.display()),
        _ => format!("{}: {error}", path.display()),
    };
    let failure = Failure::new(sentence);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
