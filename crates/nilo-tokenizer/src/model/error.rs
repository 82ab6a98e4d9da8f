//! Why a model could not be read or written.

use std::path::PathBuf;

/// Why a model could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file could not be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Larger than any vocabulary.
    #[error("{what} is larger than {most} bytes")]
    TooLarge {
        /// What was read.
        what: &'static str,
        /// The most that is read.
        most: usize,
    },
    /// Not what it should be.
    #[error("{what} is not well formed: {detail}")]
    Malformed {
        /// What was read.
        what: &'static str,
        /// What is wrong with it.
        detail: String,
    },
    /// A tokenizer that works in a way that is not done here.
    #[error("the tokenizer uses {what}, which is not supported")]
    Unsupported {
        /// What it uses.
        what: String,
    },
    /// The form cannot hold the model.
    #[error("ranks for tiktoken cannot hold this model: {reason}")]
    NoRanks {
        /// Why.
        reason: String,
    },
}

pub(super) fn malformed(what: &'static str, detail: impl Into<String>) -> ModelError {
    // A sentence is one line, whatever stands in the file.
    let detail: String = detail
        .into()
        .chars()
        .take(200)
        .map(|char| if char.is_control() { ' ' } else { char })
        .collect();
    ModelError::Malformed { what, detail }
}
