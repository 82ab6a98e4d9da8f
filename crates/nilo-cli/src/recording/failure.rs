//! Why recording failed, with what to do about it.

use std::io::ErrorKind;
use std::path::Path;

use nilo_recorder::{LaunchError, RecorderError};

use crate::failure::Failure;

/// `ENOEXEC`: no program, and no script with a `#!` line.
const EXEC_FORMAT: i32 = 8;

/// Turns the recorder's error into one with a hint.
pub(crate) fn explain(error: RecorderError) -> Failure {
    match &error {
        RecorderError::Launch(launch) => {
            let code = launch.exit_code() as u8;
            let failure = Failure::new(launch).code(code);
            match launch_hint(launch) {
                Some(hint) => failure.hint(hint),
                None => failure,
            }
        }
        RecorderError::Source(nilo_source::SourceError::NoSuchProcess { .. }) => {
            Failure::new(&error).hint("`nilo ps` lists processes that can be watched")
        }
        _ => Failure::from(error),
    }
}

fn launch_hint(error: &LaunchError) -> Option<&'static str> {
    match error {
        LaunchError::NotFound { .. } => {
            Some("check that it is installed and in PATH; a shell builtin needs `sh -c '...'`")
        }
        LaunchError::NotRunnable { command, .. } if Path::new(command).is_dir() => {
            Some("it is a folder; name a program in it")
        }
        // Not found by exec although the file is there: a `#!` line that names no program.
        LaunchError::NotRunnable { source, .. } => match source.kind() {
            ErrorKind::PermissionDenied | ErrorKind::NotFound => {
                Some("check that it is executable; a script needs a `#!` line and `chmod +x`")
            }
            _ if source.raw_os_error() == Some(EXEC_FORMAT) => {
                Some("check that it is executable; a script needs a `#!` line and `chmod +x`")
            }
            _ => None,
        },
    }
}
