//! `run.attach`: a file or bytes stored beside a run's streams.
//!
//! The bytes are copied without the GIL and without the stream's lock: another thread logs meanwhile.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nilo_runfile::{RunFolder, RunfileError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::errors::{sentence, value_error};
use crate::shared::SharedRun;
use crate::trouble::report;

/// What is attached.
#[derive(FromPyObject)]
pub(crate) enum AttachmentSource {
    Bytes(PyBackedBytes),
    File(PathBuf),
}

/// Attaches, or says why not: wrong arguments raise, everything else is a trouble in the loop.
pub(crate) fn attach(
    py: Python<'_>,
    shared: &SharedRun,
    source: &AttachmentSource,
    name: &str,
    media_type: &str,
) -> PyResult<()> {
    let Some(path) = &shared.path else {
        return Ok(());
    };
    if shared.is_finished() {
        return report(
            py,
            "attach: the run is finished; nothing is attached after its end",
        );
    }
    let stored = py.detach(|| -> Result<bool, RunfileError> {
        let folder = RunFolder::open(path)?;
        let stored = match source {
            AttachmentSource::Bytes(bytes) => {
                folder.store_attachment(name, media_type, &mut io::Cursor::new(&**bytes))?
            }
            AttachmentSource::File(file) => {
                folder.store_attachment(name, media_type, &mut open(file)?)?
            }
        };
        let is_told = shared.store(|stream| stream.event(stored.event()));
        if is_told != Some(true) {
            stored.take_back();
        }
        Ok(is_told == Some(true))
    });
    match stored {
        Ok(true) => Ok(()),
        Ok(false) => shared.say_loss(py),
        Err(
            error @ (RunfileError::BadAttachmentName { .. } | RunfileError::BadMediaType { .. }),
        ) => Err(value_error(error.to_string())),
        Err(error) => report(py, &format!("attach: {}", sentence(&error))),
    }
}

/// Opens a regular file. Without blocking: a pipe that nobody writes to would hold up the training for ever.
fn open(path: &Path) -> Result<impl Read + use<>, RunfileError> {
    let opened = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .and_then(|file| match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is not a regular file",
            )),
        });
    opened.map_err(|source| RunfileError::Io {
        action: "read what to attach",
        path: path.to_owned(),
        source,
    })
}
