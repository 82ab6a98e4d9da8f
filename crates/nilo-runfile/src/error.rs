//! What can go wrong with a run folder, in sentences that a user reads.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A run folder that cannot be made, opened or read.
#[derive(Debug, Error)]
pub enum RunfileError {
    /// The system refused.
    #[error("could not {action}: {path}", path = path.display())]
    Io {
        /// What was tried, such as `create the segment`.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Nothing is there.
    #[error("no such run: {path}", path = path.display())]
    NotFound {
        /// Where.
        path: PathBuf,
    },
    /// Something is there, but not a run.
    #[error("not a run folder ({reason}): {path}", path = path.display())]
    NotARunFolder {
        /// What is missing.
        reason: &'static str,
        /// Where.
        path: PathBuf,
    },
    /// A run with this id exists.
    #[error("a run with this id already exists: {path}", path = path.display())]
    AlreadyExists {
        /// Where.
        path: PathBuf,
    },
    /// The folder of runs is a link, which may lead anywhere.
    #[error("{path} is a symbolic link to {target}; `nilo trust {path}` approves it", path = path.display(), target = target.display())]
    LinkedRoot {
        /// Where.
        path: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// `run.json` cannot be understood.
    #[error("the description of the run is damaged: {path}", path = path.display())]
    BadDescription {
        /// Where.
        path: PathBuf,
        /// What the parser said.
        source: serde_json::Error,
    },
    /// Something cannot be written as JSON.
    #[error("could not write as JSON: {path}", path = path.display())]
    Encode {
        /// Where it should have gone.
        path: PathBuf,
        /// What the serializer said.
        source: serde_json::Error,
    },
    /// A file or record beyond every sensible size.
    #[error("{what} is larger than {limit_bytes} bytes: {path}", path = path.display())]
    TooLarge {
        /// Which thing.
        what: &'static str,
        /// The most that is accepted.
        limit_bytes: u64,
        /// Where.
        path: PathBuf,
    },
    /// The file comes from a newer nilo.
    #[error("written by a later version of nilo (file format {version}, this one reads up to {known}): {path}", path = path.display())]
    LaterVersion {
        /// The file's format version.
        version: u16,
        /// The last version that this reader knows.
        known: u16,
        /// Where.
        path: PathBuf,
    },
    /// The first bytes are not those of a run file.
    #[error("{reason}: {path}", path = path.display())]
    BadHeader {
        /// What is wrong with them.
        reason: &'static str,
        /// Where.
        path: PathBuf,
    },
    /// No table of the run fits the question.
    #[error("the run has no such table: {what}")]
    NoSuchTable {
        /// What was asked for.
        what: String,
    },
    /// The table has no such column.
    #[error("the table has no such column: {column:?}")]
    NoSuchColumn {
        /// What was asked for.
        column: String,
    },
}

impl RunfileError {
    pub(crate) fn io<'a>(
        action: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> RunfileError + 'a {
        move |source| RunfileError::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }

    /// Whether something kept us from reading what may be whole: it is not said to be damaged.
    pub fn is_unreadable(&self) -> bool {
        match self {
            RunfileError::Io { source, .. } => !matches!(
                source.kind(),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData
            ),
            RunfileError::NotFound { .. }
            | RunfileError::TooLarge { .. }
            | RunfileError::LaterVersion { .. } => true,
            _ => false,
        }
    }

    /// What the user can do about it, as one sentence for a `hint:` line.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            RunfileError::LaterVersion { .. } => {
                Some("update nilo on this machine, or export the run where it was recorded")
            }
            RunfileError::NotFound { .. } => Some("`nilo runs` lists the recorded runs"),
            RunfileError::NotARunFolder { .. } => {
                Some("a run folder contains `run.json`; `nilo runs` lists the recorded runs")
            }
            RunfileError::Io { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    Some("free some space, or record elsewhere with `--dir` or `NILO_DIR`")
                }
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    Some("record elsewhere with `--dir` or `NILO_DIR`")
                }
                _ => None,
            },
            _ => None,
        }
    }
}
