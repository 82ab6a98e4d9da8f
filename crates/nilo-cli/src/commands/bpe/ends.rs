//! Where encoding and decoding read from and write to: files or the standard streams.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::failure::Failure;

/// Opens a file; `-` is standard input.
pub(super) fn reader(path: &Path) -> Result<Box<dyn Read>, Failure> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = File::open(path).and_then(|file| match file.metadata()?.is_dir() {
        true => Err(io::ErrorKind::IsADirectory.into()),
        false => Ok(file),
    });
    let file =
        file.map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))?;
    Ok(Box::new(BufReader::with_capacity(1 << 16, file)))
}

/// A file that is there whole or not at all, or standard output.
pub(super) enum Output {
    File(BufWriter<NamedTempFile>, PathBuf),
    Standard(BufWriter<io::StdoutLock<'static>>),
}

impl Output {
    pub(super) fn open(path: Option<&Path>) -> Result<Output, Failure> {
        let Some(path) = path else {
            return Ok(Output::Standard(BufWriter::new(io::stdout().lock())));
        };
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".nilo-");
        // The permissions of any other file: the user's mask takes away from them.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder
            .tempfile_in(folder)
            .map_err(|error| refused(path, &error))?;
        Ok(Output::File(
            BufWriter::with_capacity(1 << 16, file),
            path.to_owned(),
        ))
    }

    /// Everything is written: the file appears under its name.
    pub(super) fn finish(self) -> Result<(), Failure> {
        match self {
            Output::Standard(mut output) => Ok(output.flush()?),
            Output::File(output, path) => {
                let file = output
                    .into_inner()
                    .map_err(|error| refused(&path, error.error()))?;
                file.persist(&path)
                    .map_err(|error| refused(&path, &error.error))?;
                Ok(())
            }
        }
    }
}

fn refused(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot write {}: {error}", path.display()))
        .hint("does its folder exist, and may you write there?")
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::File(output, _) => output.write(bytes),
            Output::Standard(output) => output.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::File(output, _) => output.flush(),
            Output::Standard(output) => output.flush(),
        }
    }
}
