//! Where encoding and decoding read from and write to: files or the standard streams.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::failure::Failure;

/// Says before anything is read that the result would take the place of what it is made of.
pub(super) fn check_apart(input: &Path, output: Option<&Path>) -> Result<(), Failure> {
    let same = output.is_some_and(|output| {
        let places = (input.canonicalize(), output.canonicalize());
        matches!(places, (Ok(input), Ok(output)) if input == output && input.is_file())
    });
    match same {
        true => Err(Failure::new(format!(
            "{} is both what is read and what would be written",
            input.display()
        ))
        .hint("name another file with --output")),
        false => Ok(()),
    }
}

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

/// A file that is there whole or not at all; what is no file (a device, a pipe), as it is; or standard output.
pub(super) enum Output {
    File(BufWriter<NamedTempFile>, PathBuf),
    Other(BufWriter<File>, PathBuf),
    Standard(BufWriter<io::StdoutLock<'static>>),
}

impl Output {
    pub(super) fn open(path: Option<&Path>) -> Result<Output, Failure> {
        let Some(path) = path else {
            return Ok(Output::Standard(BufWriter::new(io::stdout().lock())));
        };
        // A link stays a link: what it leads to is written.
        let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if target
            .metadata()
            .is_ok_and(|there| !there.is_file() && !there.is_dir())
        {
            let file = File::options().write(true).open(&target);
            let file = file.map_err(|error| refused(path, &error))?;
            return Ok(Output::Other(BufWriter::new(file), path.to_owned()));
        }
        let folder = match target.parent() {
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
            target,
        ))
    }

    /// Everything is written: the file appears under its name.
    pub(super) fn finish(self) -> Result<(), Failure> {
        match self {
            Output::Standard(mut output) => Ok(output.flush()?),
            Output::Other(mut output, path) => {
                output.flush().map_err(|error| refused(&path, &error))
            }
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
            Output::Other(output, _) => output.write(bytes),
            Output::Standard(output) => output.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::File(output, _) => output.flush(),
            Output::Other(output, _) => output.flush(),
            Output::Standard(output) => output.flush(),
        }
    }
}
