//! Files that are written beside the run's own, opened before the job begins.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use nilo_export::CsvLog;

use crate::failure::Failure;
use crate::output_file::refuse_stdout;

/// Opens the memory log, where one is asked for.
pub(crate) fn open_log(path: Option<&Path>) -> Result<Option<CsvLog<File>>, Failure> {
    let Some(path) = path else { return Ok(None) };
    refuse_stdout(path, "memory log", "name a file: --memory-log memory.csv")?;
    let about = |error: std::io::Error| {
        Failure::new(format!(
            "cannot write the memory log {}: {error}",
            path.display()
        ))
        .hint("check that its folder exists and that you can write to it")
    };
    let file = File::create(path).map_err(about)?;
    CsvLog::create(file).map(Some).map_err(about)
}

/// Says before the job, not after it, that what comes of it could not be written.
pub(crate) fn check_writable(json: Option<&Path>, what: &str) -> Result<(), Failure> {
    let Some(path) = json else { return Ok(()) };
    let hint = match what {
        "summary" => "name a file; `nilo show --format json` prints it afterwards",
        _ => "name a file; --format json prints it to standard output",
    };
    refuse_stdout(path, what, hint)?;
    // Nothing is left of a file that was not there; what is there, a link too, is opened as it is.
    let tried = match File::create_new(path) {
        Ok(_) => std::fs::remove_file(path),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let mut options = File::options();
            options.create(true).append(true).open(path).map(drop)
        }
        Err(error) => Err(error),
    };
    tried.map_err(|error| {
        Failure::new(format!(
            "cannot write the {what} {}: {error}",
            path.display()
        ))
        .hint("check that its folder exists and that you can write to it")
    })
}
