//! Where encoding and decoding read from and write to: files or the standard streams.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use nilo_tokenizer::WholeFile;

use super::{INTERRUPTED, stop};
use crate::failure::Failure;
use crate::output_file::is_stdout;

const BUFFER_BYTES: usize = 1 << 16;

/// Opens a file; `-` is standard input. Reading fails when the user asks to stop.
pub(super) fn reader(path: &Path) -> Result<impl Read + use<>, Failure> {
    let input: Box<dyn Read> = match path.as_os_str() == "-" {
        true => Box::new(io::stdin().lock()),
        false => Box::new(open(path).map_err(|error| unreadable(path, &error))?),
    };
    Ok(InterruptibleReader(input))
}

fn open(path: &Path) -> io::Result<impl Read + use<>> {
    let file = File::open(path)?;
    match file.metadata()?.is_dir() {
        true => Err(io::ErrorKind::IsADirectory.into()),
        false => Ok(BufReader::with_capacity(BUFFER_BYTES, file)),
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "check the spelling of the path",
        io::ErrorKind::IsADirectory => "name one file, or pipe several: cat FILES | nilo bpe …",
        _ => "check its permissions",
    };
    Failure::new(format!("cannot read {}: {error}", path.display())).hint(hint)
}

/// A reader that fails once the user has asked to stop.
struct InterruptibleReader<R>(R);

impl<R: Read> Read for InterruptibleReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(buffer);
        match stop::is_asked() {
            true => Err(io::Error::other("interrupted")),
            false => read,
        }
    }
}

/// A file that is there whole or not at all; what is no file (a device, a pipe), as it is; or standard output.
pub(super) enum OutputStream {
    File(BufWriter<WholeFile>, PathBuf),
    Other(BufWriter<File>, PathBuf),
    Standard(BufWriter<io::StdoutLock<'static>>),
}

impl OutputStream {
    pub(super) fn open(path: Option<&Path>) -> Result<OutputStream, Failure> {
        let Some(path) = path.filter(|path| !is_stdout(path)) else {
            return Ok(OutputStream::Standard(BufWriter::new(io::stdout().lock())));
        };
        let name = path.to_owned();
        let is_other = |there: std::fs::Metadata| !there.is_file() && !there.is_dir();
        if path.metadata().is_ok_and(is_other) {
            let file = File::options().write(true).open(path);
            let file = file.map_err(|error| refused(path, &error))?;
            return Ok(OutputStream::Other(BufWriter::new(file), name));
        }
        let file = WholeFile::create(path).map_err(|error| refused(path, &error))?;
        let output = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(OutputStream::File(output, name))
    }

    /// What there is to say if the user stops the work before its end.
    pub(super) fn when_stopped(&self) -> &'static str {
        match self {
            OutputStream::File(..) => "interrupted; nothing was written",
            OutputStream::Other(..) | OutputStream::Standard(_) => {
                "interrupted; the output is incomplete"
            }
        }
    }

    /// Everything is written: the file appears under its name.
    pub(super) fn finish(self) -> Result<(), Failure> {
        match self {
            OutputStream::Standard(mut output) => Ok(output.flush()?),
            OutputStream::Other(mut output, path) => {
                output.flush().map_err(|error| refused(&path, &error))
            }
            OutputStream::File(output, path) => {
                let file = output
                    .into_inner()
                    .map_err(|error| refused(&path, error.error()))?;
                file.keep().map_err(|error| refused(&path, &error))
            }
        }
    }
}

/// The exit status of work that the user may have stopped; `when_stopped` is what is said then.
pub(super) fn status_of(done: Result<(), Failure>, when_stopped: &str) -> Result<u8, Failure> {
    match done {
        Err(_) if stop::is_asked() => Err(Failure::new(when_stopped).code(INTERRUPTED)),
        done => done.map(|()| 0),
    }
}

fn refused(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot write {}: {error}", path.display()))
        .hint("check that its folder exists and that you can write to it")
}

/// Says which file could not be written. A closed pipe stays one.
fn about(path: &Path) -> impl FnOnce(io::Error) -> io::Error + '_ {
    move |error| {
        let sentence = format!("cannot write {}: {error}", path.display());
        io::Error::new(error.kind(), sentence)
    }
}

impl Write for OutputStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            OutputStream::File(output, path) => output.write(bytes).map_err(about(path)),
            OutputStream::Other(output, path) => output.write(bytes).map_err(about(path)),
            OutputStream::Standard(output) => output.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            OutputStream::File(output, _) => output.flush(),
            OutputStream::Other(output, _) => output.flush(),
            OutputStream::Standard(output) => output.flush(),
        }
    }
}
