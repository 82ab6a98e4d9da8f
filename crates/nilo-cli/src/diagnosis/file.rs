//! The memories of a file that another tool wrote, judged column by column.

use std::path::Path;

use nilo_analysis::tracking::{Resource, ResourceTracker, last_fall_began};
use nilo_answer::diagnosis::{Diagnosis, DiagnosisSource};
use nilo_answer::resource_filter::ResourceFilter;
use nilo_forecast::Reading;
use nilo_import::{Import, ImportError, ImportOptions, JobEnd, MemorySeries};
use nilo_sample::is_absent;

use crate::args::DiagnosisInput;
use crate::failure::{Failure, warn};

/// A column with a larger share of rows without a number is worth a word.
const MANY_MISSING: f64 = 0.1;

pub(super) fn read(path: &Path, judged: &DiagnosisInput) -> Result<Diagnosis, Failure> {
    let options = ImportOptions {
        columns: judged.columns.clone(),
        unit: judged.unit,
        total_bytes: judged.limit,
        ..ImportOptions::default()
    };
    let import =
        nilo_import::read_file(path, &options).map_err(|error| import_failure(error, path))?;
    for warning in &import.warnings {
        // The importer knows nothing of options.
        warn(&warning.replace(
            "its unit can be given",
            "set it with --unit, such as --unit mb",
        ));
    }
    let limit_bytes = judged.limit.map(|bytes| bytes as f64);
    let mut tracker = ResourceTracker::of_file(judged.limit);
    let mut changes = Vec::new();
    let (mut end_nanos, mut empty) = (0, Vec::new());
    let judged_until = ending_from(&import).unwrap_or(u64::MAX);
    for track in import.tracks() {
        let resource = Resource::Track {
            name: track.name.clone(),
        };
        let mut usable = 0;
        for reading in readings(&track, limit_bytes) {
            usable += 1;
            end_nanos = end_nanos.max(reading.time_nanos);
            if reading.time_nanos >= judged_until {
                continue;
            }
            changes.extend(tracker.observe(resource.clone(), reading));
        }
        let rows = track.used.times.len();
        if usable == 0 {
            empty.push(track.name);
        } else if (rows - usable) as f64 > MANY_MISSING * rows as f64 {
            warn(&format!(
                "{} of {rows} rows have no memory value in {}",
                rows - usable,
                track.name
            ));
        }
    }
    if tracker.verdicts(None).is_empty() {
        let what = format!(
            "{} has no memory values in {}",
            path.display(),
            empty.join(", ")
        );
        return Err(Failure::new(what).hint("values must be numbers of zero or more; choose another column with --column, or set its unit with --unit"));
    }
    for name in empty {
        warn(&format!("{name} has no memory values and is skipped"));
    }
    Ok(Diagnosis {
        source: DiagnosisSource::File {
            path: path.display().to_string(),
            tool: import.format.name(),
        },
        tracker,
        changes,
        end_nanos,
        scope: ResourceFilter::default(),
        recording: None,
        ran_out: None,
    })
}

/// The time from which on the job was ending, in recordings of ours: judged as the run itself is, from which they come.
fn ending_from(import: &Import) -> Option<u64> {
    match import.job_end {
        JobEnd::NotTold => None,
        JobEnd::Marked(from_nanos) => from_nanos,
        JobEnd::WithFile => {
            let tracks = import.tracks();
            let job = tracks.iter().find(|track| track.name == "memory_mb");
            let levels = job.or(tracks.first())?.used.present();
            last_fall_began(&levels.collect::<Vec<_>>())
        }
    }
}

/// The rows of a track that can be used.
fn readings<'a>(
    track: &'a MemorySeries<'a>,
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
        ImportError::PercentOfWhat { .. } => Some("set the total with --limit"),
        ImportError::UnknownColumn { .. } => Some("--column takes one of these"),
        ImportError::NotANumber { .. } => Some("choose columns with --column"),
        ImportError::FixedColumns { .. } => Some("omit --column"),
        ImportError::Open { .. } | ImportError::Read { line: 0, .. } => {
            Some("check the path; --csv takes a file")
        }
        ImportError::TimeIsNoMemory { .. } => Some("--column takes a column of memory"),
        ImportError::Empty | ImportError::NoRows { .. } => {
            Some("the file needs a header such as t_s,rss_bytes and rows of numbers")
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
