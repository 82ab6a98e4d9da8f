//! Starting the user's command so that it behaves as without us.
//!
//! Same process group, terminal, descriptors and environment (but for `NILO_RUN_DIR`, and `PYTHONPATH` for the hooks).
//! We become the subreaper of its tree, so that orphans stay in it.
//!
//! Its process is made first and waits for the word to begin.
//! Until then we have no signal handlers, so that whatever arrives ends us, it or both, as it would end a program that has just been started;
//! from the first handler on there is a command that a signal to the group reaches, and that we can forward a signal to.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::thread::{self, JoinHandle};

use rustix::pipe::{PipeFlags, pipe_with};

use thiserror::Error;

use crate::hooks::Hooks;

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

/// The command's process, which waits for the word to begin.
pub(crate) struct WaitingCommand {
    pid: u32,
    program: OsString,
    /// A byte lets it begin; closed without one, it ends.
    go: OwnedFd,
    /// Waits in `spawn`, which returns when the program has begun or could not.
    spawning: JoinHandle<io::Result<Child>>,
}

/// Makes the command's process; `run_dir` reaches it as `NILO_RUN_DIR`. With hooks it has another `PYTHONPATH`.
pub(crate) fn prepare(
    command: &[OsString],
    run_dir: &Path,
    hooks: Option<&Hooks>,
) -> Result<WaitingCommand, LaunchError> {
    become_subreaper();
    let (program, arguments) = command.split_first().ok_or_else(|| LaunchError::NotFound {
        command: String::new(),
    })?;
    let refused = |source: io::Error| LaunchError::NotRunnable {
        command: program.to_string_lossy().into_owned(),
        source,
    };
    let (gate, go) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| refused(error.into()))?;
    let (is_there, there) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| refused(error.into()))?;
    let mut command = Command::new(program);
    command.args(arguments).env("NILO_RUN_DIR", run_dir);
    if let Some(hooks) = hooks {
        command.env("PYTHONPATH", hooks.python_path());
    }
    if crate::privacy::keeps_secrets() {
        // The runs that the job begins inside this one follow it.
        command.env("NILO_KEEP_SECRETS", "1");
    }
    let copy_of_go = go.as_raw_fd();
    // With something to do before `exec`, the library forks. What it would use otherwise shares our memory until then,
    // and the kernel would hand the high-water mark of all of it on to the command.
    // SAFETY: only system calls on pipes. The copy of `go` is closed in the child alone, where nobody else uses it.
    unsafe {
        command.pre_exec(move || {
            libc::close(copy_of_go);
            rustix::io::write(&there, &std::process::id().to_ne_bytes())?;
            let word = rustix::io::retry_on_intr(|| rustix::io::read(&gate, &mut [0]))?;
            match word {
                1 => Ok(()),
                _ => Err(io::ErrorKind::Interrupted.into()),
            }
        });
    }
    let spawning = thread::Builder::new()
        .spawn(move || command.spawn())
        .map_err(refused)?;
    let mut pid = [0; size_of::<u32>()];
    // The end of the pipe says that it will not be there, and `begin` why.
    rustix::io::retry_on_intr(|| rustix::io::read(&is_there, &mut pid)).ok();
    let waiting = WaitingCommand {
        pid: u32::from_ne_bytes(pid),
        program: program.clone(),
        go,
        spawning,
    };
    if waiting.pid == 0 {
        let gone = || refused(io::ErrorKind::Other.into());
        return Err(waiting.begin().err().unwrap_or_else(gone));
    }
    Ok(waiting)
}

impl WaitingCommand {
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    pub(crate) fn begin(self) -> Result<Child, LaunchError> {
        rustix::io::write(&self.go, &[0]).ok();
        let spawned = self.spawning.join();
        let spawned = spawned.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
        spawned.map_err(|source| {
            let command = self.program.to_string_lossy().into_owned();
            match source.kind() {
                // A script whose interpreter is missing is reported as not found too.
                io::ErrorKind::NotFound if !Path::new(&self.program).exists() => {
                    LaunchError::NotFound { command }
                }
                _ => LaunchError::NotRunnable { command, source },
            }
        })
    }

    /// Ends the process without having run anything.
    pub(crate) fn cancel(self) {
        drop(self.go);
        self.spawning.join().ok();
    }
}

#[cfg(target_os = "linux")]
fn become_subreaper() {
    // SAFETY: sets an attribute of this process; no memory is involved.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

#[cfg(not(target_os = "linux"))]
fn become_subreaper() {}
