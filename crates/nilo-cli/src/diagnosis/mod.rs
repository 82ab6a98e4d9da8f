//! Reads what `nilo oom` and `nilo leak` judge: a run, or a file that another tool wrote (`file.rs`).

mod file;

use nilo_analysis::assessment::ran_out;
use nilo_analysis::tracking::ResourceTracker;
use nilo_answer::diagnosis::{Diagnosis, DiagnosisSource};
use nilo_answer::resource_filter::ResourceFilter;
use nilo_sample::{Subject, TableSpec};

use crate::args::DiagnosisInput;
use crate::damaged_run::warn_of_damage;
use crate::failure::Failure;
use crate::folder::{existing_root, find_run, load_where};
use crate::settings::Settings;

/// Reads what the user asked for.
pub(crate) fn diagnose(judged: &DiagnosisInput, settings: &Settings) -> Result<Diagnosis, Failure> {
    match &judged.csv {
        Some(path) => file::read(path, judged),
        None => of_run(judged, settings),
    }
}

fn of_run(judged: &DiagnosisInput, settings: &Settings) -> Result<Diagnosis, Failure> {
    let folder = find_run(
        &existing_root(&judged.place, settings)?,
        judged.run.as_deref(),
    )?;
    let needed = |spec: &TableSpec| !matches!(spec.subject, Subject::Recorder | Subject::Unknown);
    let (recording, ending) = load_where(&folder, &needed)?;
    warn_of_damage(&recording, &folder, settings);
    let (mut tracker, changes) =
        ResourceTracker::over_with_limit(&recording, Some(&ending), judged.limit);
    let ran_out = ran_out(&recording, &ending, &mut tracker);
    // What ran out is told even where nothing was measured of it.
    if tracker.verdicts(None).is_empty() && ran_out.is_none() {
        return Err(Failure::new("no memory samples to analyse")
            .hint("record one with `nilo run -- COMMAND`"));
    }
    let end_nanos = ending.time_nanos;
    Ok(Diagnosis {
        source: DiagnosisSource::Run {
            id: recording.description.id.to_string(),
            name: recording.description.name.clone(),
            ending: Box::new(ending),
        },
        tracker,
        changes,
        end_nanos,
        scope: ResourceFilter::default(),
        ran_out,
        recording: Some(recording),
    })
}
