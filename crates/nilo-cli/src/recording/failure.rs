//! Why recording failed, with what to do about it.

use nilo_recorder::RecorderError;

use crate::failure::Failure;

/// Turns the recorder's error into one with a hint.
pub(crate) fn explain(error: RecorderError) -> Failure {
    match &error {
        RecorderError::Launch(launch) => {
            let code = launch.exit_code() as u8;
            let hint = if code == 127 {
                "check that it is installed and in PATH; a shell builtin needs `sh -c '...'`"
            } else {
                "check that it is executable; a script needs a `#!` line and `chmod +x`"
            };
            Failure::new(launch).hint(hint).code(code)
        }
        RecorderError::Source(nilo_source::SourceError::NoSuchProcess { .. }) => {
            Failure::new(&error).hint("`nilo ps` lists processes that can be watched")
        }
        _ => Failure::from(error),
    }
}
