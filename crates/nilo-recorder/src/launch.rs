//! Starting the user's command so that it behaves as without us.
//!
//! Same process group, terminal, descriptors and environment (but for `NILO_RUN_DIR`).
//! We become the subreaper of its tree, so that orphans stay in it.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

use thiserror::Error;

/// Why the command did not start.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// Nothing by that name.
    #[error("command not found: {command}")]
    NotFound {
        /// The name.
        command: String,
    },
    /// There is such a file, but it cannot be run.
    #[error("cannot run {command}: {source}")]
    NotRunnable {
        /// The name.
        command: String,
        /// What the system said.
        source: io::Error,
    },
}

impl LaunchError {
    /// The status that shells and `env` give for this.
    pub fn exit_code(&self) -> i32 {
        match self {
            LaunchError::NotFound { .. } => 127,
            LaunchError::NotRunnable { .. } => 126,
        }
    }
}

/// Starts the command; `run_dir` reaches it as `NILO_RUN_DIR`.
pub(crate) fn launch(command: &[OsString], run_dir: &Path) -> Result<Child, LaunchError> {
    become_subreaper();
    let (program, arguments) = command.split_first().ok_or_else(|| LaunchError::NotFound {
        command: String::new(),
    })?;
    let mut command = Command::new(program);
    command.args(arguments).env("NILO_RUN_DIR", run_dir);
    // SAFETY: the closure does nothing, so nothing in it can go wrong between `fork` and `exec`.
    // It is there so that the library forks: what it would use otherwise shares our memory until `exec`,
    // and the kernel hands the high-water mark of all of it on to the command.
    unsafe { command.pre_exec(|| Ok(())) };
    command.spawn().map_err(|source| {
        let command = program.to_string_lossy().into_owned();
        match source.kind() {
            // A script whose interpreter is missing is reported as not found too.
            io::ErrorKind::NotFound if !Path::new(program).exists() => {
                LaunchError::NotFound { command }
            }
            _ => LaunchError::NotRunnable { command, source },
        }
    })
}

#[cfg(target_os = "linux")]
fn become_subreaper() {
    // SAFETY: sets an attribute of this process; no memory is involved.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

#[cfg(not(target_os = "linux"))]
fn become_subreaper() {}
