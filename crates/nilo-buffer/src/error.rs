//! What can go wrong with a buffer.

use std::io;
use std::path::PathBuf;

/// Why a buffer could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BufferError {
    /// A setting that no buffer can have.
    #[error("{0}")]
    Setting(String),
    /// An array whose size does not fit its column.
    #[error("{column} has {found} bytes; {expected} are expected")]
    Size {
        /// The column's name.
        column: String,
        /// Bytes handed over.
        found: usize,
        /// Bytes that the column takes.
        expected: usize,
    },
    /// Nothing is stored.
    #[error("the buffer is empty; add transitions before sampling")]
    Empty,
    /// A transition that was never there, or has been dropped.
    #[error("transition {row} is not stored; {first} to {last} are")]
    NotStored {
        /// Its number.
        row: u64,
        /// The oldest one stored.
        first: u64,
        /// The newest one stored.
        last: u64,
    },
    /// Priorities were asked of a buffer without them.
    #[error("the buffer has no priorities; make it with prioritized=True")]
    NoPriorities,
    /// A priority that is no priority.
    #[error("priority {0} is not a positive finite number")]
    Priority(f32),
    /// What is stored cannot be decoded.
    #[error("stored data is damaged: {0}")]
    Damaged(&'static str),
    /// A file that is not a buffer, or is damaged.
    #[error("cannot read the buffer: {reason}: {path}")]
    File {
        /// What is wrong with it.
        reason: String,
        /// Where it lies.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot {action}: {path}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

pub(crate) fn setting(text: impl Into<String>) -> BufferError {
    BufferError::Setting(text.into())
}
