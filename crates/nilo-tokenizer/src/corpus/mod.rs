//! Where text comes from: files, folders, patterns, standard input; plain, gzip or zstd; in documents.

mod chunks;
mod error;
mod find;
mod format;
mod open;

#[cfg(test)]
mod corpus_tests;

use serde::{Deserialize, Serialize};

pub(crate) use chunks::{Chunk, ChunkReader, FileSpan, PADDING_BYTES};
pub use error::CorpusError;
pub use find::SourceFile;
pub(crate) use format::Delimiters;
pub use format::{Documents, TextFormat};

/// Files to be read as text, in order.
#[derive(Debug, Clone)]
pub struct Corpus {
    /// The files.
    pub files: Vec<SourceFile>,
    /// How they hold documents.
    pub format: TextFormat,
}

impl Corpus {
    /// Finds what the inputs name: a file, a folder (every file below it but hidden ones, sorted), a pattern such as
    /// `data/*.txt.gz`, or `-` for standard input. Whether files are packed is seen from their first bytes.
    pub fn find(inputs: &[String], format: TextFormat) -> Result<Self, CorpusError> {
        Delimiters::new(&format)?;
        if inputs.is_empty() {
            let input = "an empty list".to_owned();
            return Err(CorpusError::Empty { input });
        }
        let files = find::find(inputs)?;
        Ok(Self { files, format })
    }

    /// Bytes on disk, where all of it is regular files: what progress is measured against.
    pub fn size_bytes(&self) -> Option<u64> {
        self.files.iter().map(|file| file.size_bytes).sum()
    }
}

/// A place in a corpus at which a chunk begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CorpusPosition {
    /// Which file.
    pub(crate) source: usize,
    /// Where in its text, after unpacking.
    pub(crate) offset: u64,
    /// Whether a document goes on here rather than begins.
    pub(crate) inside_document: bool,
}

impl CorpusPosition {
    fn start_of(source: usize) -> Self {
        Self {
            source,
            ..Self::default()
        }
    }
}
