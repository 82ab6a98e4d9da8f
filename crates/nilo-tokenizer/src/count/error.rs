//! What can go wrong while counting, saving and reading counts.

use std::io;
use std::path::PathBuf;

use crate::corpus::CorpusError;
use crate::pattern::PatternError;

/// Why counting broke off.
#[derive(Debug, thiserror::Error)]
pub enum CountError {
    /// The corpus cannot be read.
    #[error(transparent)]
    Corpus(#[from] CorpusError),
    /// A custom pattern gave up on a document.
    #[error("could not split {} into words", path.display())]
    Pattern {
        /// The file.
        path: PathBuf,
        /// Why.
        source: PatternError,
    },
    /// A piece has no place at which to cut it.
    #[error("more than 4 GiB without a place where a word ends, from byte {at} on: {}", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Where it begins.
        at: u64,
    },
    /// Words could not be put on disk or read back; nothing is left there.
    #[error("could not store counted words in {}", folder.display())]
    Spill {
        /// The folder for temporary files.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A counts file cannot be written.
    #[error("could not write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A counts file cannot be read, or is damaged.
    #[error("could not read counts from {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Counts that were made differently.
    #[error("{what} differs between {} and {}: {left} and {right}", first.display(), second.display())]
    Incompatible {
        /// Which setting.
        what: &'static str,
        /// One file.
        first: PathBuf,
        /// The other file.
        second: PathBuf,
        /// Its value in one.
        left: String,
        /// Its value in the other.
        right: String,
    },
    /// A file that holds a part of the corpus only.
    #[error("counting was interrupted before the end of the corpus: {}", path.display())]
    Unfinished {
        /// The file.
        path: PathBuf,
    },
    /// A file that needs no resuming.
    #[error("these counts are finished, so there is nothing to resume: {}", path.display())]
    Finished {
        /// The file.
        path: PathBuf,
    },
    /// The corpus is not the one that was being counted.
    #[error("the corpus is not the one that was interrupted ({what}): {}", path.display())]
    Changed {
        /// What differs.
        what: String,
        /// The saved state.
        path: PathBuf,
    },
    /// Standard input cannot be read again.
    #[error("counting from standard input cannot be resumed")]
    NotResumable,
}

impl CountError {
    /// The way out, for a `hint:` line.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            CountError::Pattern { source, .. } => source.hint(),
            CountError::TooLong { .. } => "give a document separator, or count by lines",
            CountError::Spill { .. } => {
                "free some space there, name another folder, or raise the memory budget"
            }
            CountError::Incompatible { .. } => "count both parts with the same settings",
            CountError::Unfinished { .. } => "resume the counting with the same corpus first",
            CountError::Changed { .. } => "count again from the start",
            CountError::NotResumable => "put the text into a file first",
            CountError::Corpus(CorpusError::NotFound { .. }) => "check the spelling of the path",
            CountError::Corpus(CorpusError::EmptyToken) => {
                "give it a text, such as '<|endoftext|>'"
            }
            CountError::Corpus(CorpusError::DoubledToken { .. }) => "name it once",
            CountError::Corpus(CorpusError::StdinTwice) => {
                "name it once, or put the text into a file"
            }
            CountError::Corpus(CorpusError::NoCut { .. }) => {
                "raise the memory budget, split documents with a separator, or count by lines"
            }
            CountError::Write { .. } => "check that its folder exists and that you can write to it",
            CountError::Corpus(CorpusError::Json { .. }) => {
                "name the field that holds the text, or clean the file"
            }
            CountError::Corpus(CorpusError::Read { .. }) => {
                "nothing was written; leave that file out or repair it"
            }
            _ => return None,
        })
    }
}
