//! A run as a file for other programs, written whole or not at all.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use nilo_export::{
    ExportError, Format, write_csv_long, write_json, write_parquet, write_tensorboard_folder,
};
use nilo_sample::Recording;
use nilo_tokenizer::WholeFile;

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
    match whole_file(path)? {
        Some(file) => write(recording, format, file)?.keep()?,
        None => drop(write(recording, format, File::create(path)?)?),
    }
    Ok(path.to_owned())
}

/// As of the command: nothing for what is written as it is, a device, a pipe, or a file that may be written in a folder that may not.
fn whole_file(path: &Path) -> io::Result<Option<WholeFile>> {
    let there = path.metadata().ok();
    let is_there = there.is_some();
    if there.is_some_and(|there| !there.is_file() && !there.is_dir()) {
        return Ok(None);
    }
    match WholeFile::create(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && is_there => Ok(None),
        created => created.map(Some),
    }
}

fn write<W: Write + Send>(
    recording: &Recording,
    format: Format,
    file: W,
) -> Result<W, ExportError> {
    let mut file = BufWriter::new(file);
    match format {
        Format::Csv => write_csv_long(recording, &mut file)?,
        Format::Json => write_json(recording, &mut file)?,
        Format::Parquet => write_parquet(recording, &mut file)?,
        Format::TensorBoard => {}
    }
    Ok(file.into_inner().map_err(|error| error.into_error())?)
}
