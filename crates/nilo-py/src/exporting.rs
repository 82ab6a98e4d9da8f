//! A run as a file for other programs, written whole or not at all.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use nilo_export::{
    ExportError, Format, write_csv_long, write_json, write_parquet, write_tensorboard_folder,
};
use nilo_sample::Recording;

/// Writes a recording to a file, or for TensorBoard into a folder; gives the path of what was written.
/// CSV is the long form: a row for every value, metrics among them.
pub(crate) fn export(
    recording: &Recording,
    format: Format,
    path: &Path,
) -> Result<PathBuf, ExportError> {
    if format == Format::TensorBoard {
        return write_tensorboard_folder(recording, path);
    }
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}.tmp", std::process::id()));
    let unfinished = PathBuf::from(unfinished);
    let outcome =
        write(recording, format, &unfinished).and_then(|()| Ok(fs::rename(&unfinished, path)?));
    if outcome.is_err() {
        fs::remove_file(&unfinished).ok();
    }
    outcome.map(|()| path.to_owned())
}

fn write(recording: &Recording, format: Format, path: &Path) -> Result<(), ExportError> {
    let mut file = BufWriter::new(File::create(path)?);
    match format {
        Format::Csv => write_csv_long(recording, &mut file)?,
        Format::Json => write_json(recording, &mut file)?,
        Format::Parquet => write_parquet(recording, &mut file)?,
        Format::TensorBoard => {}
    }
    file.flush()?;
    Ok(())
}
