//! Why something could not be watched at all; what is merely absent is `None` and no error.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// A source that cannot work.
#[derive(Debug, Error)]
pub enum SourceError {
    /// Nobody has that PID, or only a zombie.
    #[error("no such process: PID {pid}")]
    NoSuchProcess {
        /// The PID asked for.
        pid: u32,
    },
    /// A file that must be there could not be read.
    #[error("could not read {}: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel refused to tell of a coming OOM kill.
    #[error("could not subscribe to OOM notices of cgroup {cgroup}: {source}")]
    OomNotice {
        /// Path below the cgroup mount.
        cgroup: String,
        /// What the system said.
        source: io::Error,
    },
    /// The limit on open files stayed as it was.
    #[error("could not raise the limit on open files: {source}")]
    FdLimit {
        /// What the system said.
        source: io::Error,
    },
}
