//! `nilo export`: a run for other programs.

use std::io::{BufWriter, Write};
use std::path::Path;

use nilo_export::{
    CsvColumns, ExportError, write_csv, write_csv_long, write_json, write_parquet,
    write_tensorboard, write_tensorboard_folder,
};
use nilo_sample::{RecordedTable, Recording, Subject};

use crate::args::{ExportArgs, ExportFormat};
use crate::damaged_run::warn_of_damage;
use crate::failure::{Failure, note};
use crate::folder::{existing_root, find_run, load};
use crate::output_file::{is_stdout, refuse_overwriting, refuse_terminal, write_file};
use crate::settings::Settings;

pub(crate) fn run(args: ExportArgs, settings: &Settings) -> Result<u8, Failure> {
    let format = match args.format {
        Some(format) => format,
        None => format_of(args.output.as_deref())?,
    };
    let folder = find_run(&existing_root(&args.place, settings)?, args.run.as_deref())?;
    if let Some(output) = &args.output {
        let files = folder.files();
        refuse_overwriting(output, files.iter().map(|file| &**file), "-o")?;
    }
    let (mut recording, ending) = load(&folder)?;
    warn_of_damage(&recording, &folder, settings);
    recording.description.ending = Some(ending);
    if format == ExportFormat::Csv && !args.long {
        say_what_is_missing(&recording);
    }
    match args.output.filter(|path| !is_stdout(path)) {
        Some(folder) if format == ExportFormat::TensorBoard => {
            let path = write_tensorboard_folder(&recording, &folder).map_err(|error| {
                let taken = matches!(error, ExportError::AlreadyThere { .. });
                let failure = Failure::from(error);
                match taken {
                    true => failure
                        .hint("name another folder with -o; TensorBoard would mix the two runs"),
                    false => failure,
                }
            })?;
            note(&format!("wrote {}", path.display()));
        }
        None if format == ExportFormat::TensorBoard => {
            return Err(Failure::new(
                "TensorBoard events are written to a folder, not to standard output",
            )
            .hint("name a folder, such as -o logs/run"));
        }
        Some(path) => {
            write_file(&path, |mut out| {
                write(&recording, format, args.long, &mut out)
            })?;
        }
        None => {
            if format == ExportFormat::Parquet {
                refuse_terminal("Parquet")?;
            }
            let mut out = BufWriter::new(std::io::stdout());
            write(&recording, format, args.long, &mut out)?;
            out.flush()?;
        }
    }
    Ok(0)
}

/// The table has a row for each sample of memory: without samples it is empty, and metrics are never in it.
fn say_what_is_missing(recording: &Recording) {
    let has_rows = |subject: &Subject| {
        let table = recording.table(subject);
        table.is_some_and(|table| !table.times.is_empty())
    };
    let has_metrics = |table: &RecordedTable| {
        matches!(table.spec.subject, Subject::Metrics { .. }) && !table.times.is_empty()
    };
    let has_others = recording.tables.iter().any(|table| !table.times.is_empty());
    if !has_rows(&Subject::Tree) && has_others {
        note("no memory was sampled in this run; --long writes everything else");
    } else if recording.tables.iter().any(has_metrics) {
        note("this CSV has the samples of memory only; --long writes the metrics too");
    }
}

/// What the file's name says; CSV where it has no extension.
fn format_of(output: Option<&Path>) -> Result<ExportFormat, Failure> {
    let output = output.filter(|path| !is_stdout(path));
    let Some((path, extension)) = output.and_then(|path| Some((path, path.extension()?))) else {
        return Ok(ExportFormat::Csv);
    };
    match extension.to_string_lossy().to_ascii_lowercase().as_str() {
        "csv" => Ok(ExportFormat::Csv),
        "json" => Ok(ExportFormat::Json),
        "parquet" | "pq" => Ok(ExportFormat::Parquet),
        _ => Err(
            Failure::new(format!("cannot tell the format of {}", path.display())).hint(
                "use a name that ends in .csv, .json or .parquet, or choose one with --format",
            ),
        ),
    }
}

fn write(
    recording: &Recording,
    format: ExportFormat,
    long: bool,
    out: &mut (impl Write + Send),
) -> Result<(), Failure> {
    match format {
        ExportFormat::Csv if long => write_csv_long(recording, out)?,
        ExportFormat::Csv => write_csv(recording, CsvColumns::Full, out)?,
        ExportFormat::Json => write_json(recording, out)?,
        ExportFormat::Parquet => write_parquet(recording, out)?,
        ExportFormat::TensorBoard => write_tensorboard(recording, out)?,
    }
    Ok(())
}
