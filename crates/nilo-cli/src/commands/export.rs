//! `nilo export`: a run for other programs.

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::Path;

use nilo_export::{CsvColumns, write_csv, write_csv_long, write_json, write_parquet};
use nilo_sample::Recording;

use crate::args::{ExportArgs, ExportFormat};
use crate::failure::Failure;
use crate::folder::{find_run, load, runs_root};
use crate::settings::Settings;

pub(crate) fn run(args: ExportArgs, settings: &Settings) -> Result<u8, Failure> {
    let format = args
        .format
        .or_else(|| by_ending(args.output.as_deref()?))
        .unwrap_or(ExportFormat::Csv);
    let folder = find_run(&runs_root(&args.place, settings), args.run.as_deref())?;
    let (mut recording, ending) = load(&folder)?;
    recording.description.ending.get_or_insert(ending);
    match args.output {
        Some(path) => {
            let about = |error: std::io::Error| {
                Failure::new(format!("cannot write {}: {error}", path.display()))
            };
            let mut file = BufWriter::new(File::create(&path).map_err(about)?);
            write(&recording, format, args.long, &mut file)?;
            file.flush().map_err(about)?;
        }
        None if format == ExportFormat::Parquet && std::io::stdout().is_terminal() => {
            return Err(Failure::new("Parquet is binary and this is a terminal")
                .hint("name a file with -o"));
        }
        None => {
            let mut out = BufWriter::new(std::io::stdout());
            write(&recording, format, args.long, &mut out)?;
            out.flush()?;
        }
    }
    Ok(0)
}

fn by_ending(path: &Path) -> Option<ExportFormat> {
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "csv" => Some(ExportFormat::Csv),
        "json" => Some(ExportFormat::Json),
        "parquet" | "pq" => Some(ExportFormat::Parquet),
        _ => None,
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
    }
    Ok(())
}
