//! What can go wrong between a name on the command line and text.

use std::io;
use std::path::PathBuf;

/// Why the corpus cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CorpusError {
    /// A name that is neither a file, a folder nor a pattern with matches.
    #[error("no such file or folder, and no file matches this pattern: {input}")]
    NotFound {
        /// As given.
        input: String,
    },
    /// A folder without files, or no input at all.
    #[error("no file to read in {input}")]
    Empty {
        /// As given.
        input: String,
    },
    /// Standard input was named twice.
    #[error("standard input (-) can be read only once")]
    StdinTwice,
    /// Opening, reading or unpacking failed.
    #[error("could not read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line is not a JSON object with that text.
    #[error("the line at byte {at} is not a JSON object with the text field {field:?} ({reason}): {}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where the line begins, after unpacking.
        at: u64,
        /// The wanted field.
        field: String,
        /// What the parser says.
        reason: String,
    },
    /// Words and documents are counted whole, and this one is too long for that.
    #[error("no word or document ends in {} MiB of text from byte {at} on, too long for the memory budget: {}", length >> 20, path.display())]
    NoCut {
        /// The file.
        path: PathBuf,
        /// Where it begins, after unpacking.
        at: u64,
        /// How far was looked.
        length: usize,
    },
    /// A separator or special token without a byte.
    #[error("a document separator or special token is empty")]
    EmptyToken,
    /// The same token twice.
    #[error("a special token is given twice: {token}")]
    DoubledToken {
        /// Which.
        token: String,
    },
}

impl CorpusError {
    pub(super) fn read(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| CorpusError::Read { path, source }
    }
}
