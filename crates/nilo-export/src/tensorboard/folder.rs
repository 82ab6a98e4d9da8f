//! The folder that TensorBoard is pointed at: one event file, there whole or not at all.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use nilo_sample::Recording;

use super::scalars::write_tensorboard;
use crate::ExportError;

/// TensorBoard reads every file with this in its name.
const READ_BY_TENSORBOARD: &str = "tfevents";

/// Writes the event file into a folder, which is made when it is not there; returns the file's path.
///
/// A folder that already has events is refused: TensorBoard would draw both files as one run.
pub fn write_tensorboard_folder(
    recording: &Recording,
    folder: &Path,
) -> Result<PathBuf, ExportError> {
    fs::create_dir_all(folder)?;
    if let Some(taken) = event_file_in(folder)? {
        return Err(ExportError::AlreadyThere { path: taken });
    }
    let path = folder.join(event_file_name(recording));
    let unfinished = folder.join(format!(".nilo-export-{}.tmp", std::process::id()));
    let written = File::create(&unfinished).map_err(ExportError::from);
    let written = written.and_then(|file| {
        write_tensorboard(recording, &file)?;
        file.sync_all()?;
        fs::rename(&unfinished, &path)?;
        Ok(path)
    });
    if written.is_err() {
        fs::remove_file(&unfinished).ok();
    }
    written
}

fn event_file_in(folder: &Path) -> Result<Option<PathBuf>, ExportError> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry
            .file_name()
            .to_string_lossy()
            .contains(READ_BY_TENSORBOARD)
        {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

/// `events.out.tfevents.1794729330.node-7.4711.0`: start, host, the recorder's PID, a number.
fn event_file_name(recording: &Recording) -> String {
    let description = &recording.description;
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let host: String = description.host.chars().take(64).collect();
    let host = host.replace(|c| !allowed(c), "-");
    let host = if host.is_empty() { "host" } else { &host };
    format!(
        "events.out.{READ_BY_TENSORBOARD}.{:010}.{host}.{}.0",
        description.started_unix_nanos / 1_000_000_000,
        description.recorder_pid,
    )
}
