//! Counting that was interrupted: saved as a counts file with the place reached, and taken up again from there.
//!
//! The place is that of the next chunk. In packed files it counts unpacked bytes, so what lies before it is unpacked
//! again, but not counted again.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::CountError;
use super::counter::{CountOutcome, CountSettings, count_from};
use super::counts::Counts;
use super::file::{CountFileHeader, CountsReader};
use super::merge::SortedWords;
use super::totals::Recipe;
use crate::Progress;
use crate::corpus::{Corpus, CorpusPosition, SourceFile, TextFormat};

/// Where counting stood.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CountCheckpoint {
    files: Vec<SourceFile>,
    format: TextFormat,
    position: CorpusPosition,
}

/// The counts of a part of the corpus.
#[derive(Debug)]
pub struct Unfinished {
    counts: Counts,
    saved: CountCheckpoint,
}

impl Unfinished {
    pub(super) fn new(counts: Counts, corpus: &Corpus, position: CorpusPosition) -> Self {
        let saved = CountCheckpoint {
            files: corpus.files.clone(),
            format: corpus.format.clone(),
            position,
        };
        Self { counts, saved }
    }

    /// What was counted so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Saves the state, whole or not at all. Standard input and pipes cannot be read again and are refused.
    pub fn save(&self, path: &Path) -> Result<(), CountError> {
        if self
            .saved
            .files
            .iter()
            .any(|file| file.size_bytes.is_none())
        {
            return Err(CountError::NotResumable);
        }
        let header = CountFileHeader {
            interrupted: Some(self.saved.clone()),
            ..CountFileHeader::finished(self.counts.recipe(), self.counts.totals())
        };
        self.counts.write_with(path, header)
    }
}

/// Counts the rest of a corpus, with the same result as counting it in one go. Refused if a file has changed since.
pub fn resume(
    path: &Path,
    corpus: &Corpus,
    settings: &CountSettings,
    progress: &dyn Progress,
) -> Result<CountOutcome, CountError> {
    let mut reader = CountsReader::open(path)?;
    let CountFileHeader {
        recipe,
        totals,
        interrupted,
    } = reader.header().clone();
    let Some(saved) = interrupted else {
        return Err(CountError::Finished {
            path: path.to_owned(),
        });
    };
    let changed = |what: String| CountError::Changed {
        what,
        path: path.to_owned(),
    };
    if let Some((what, left, right)) =
        recipe.difference(&Recipe::new(&settings.pattern, &corpus.format))
    {
        return Err(changed(format!("{what} was {left} and is {right}")));
    }
    if saved.format != corpus.format {
        return Err(changed("documents are split differently".to_owned()));
    }
    if saved.files.len() != corpus.files.len() {
        return Err(changed(format!(
            "{} files were {}",
            corpus.files.len(),
            saved.files.len()
        )));
    }
    for (old, new) in saved.files.iter().zip(&corpus.files) {
        if old != new {
            return Err(changed(format!(
                "{} was moved or changed since",
                old.name().display()
            )));
        }
    }
    let table = settings.table();
    while reader.advance()? {
        table.add(reader.word(), reader.count());
    }
    count_from(corpus, settings, table, totals, saved.position, progress)
}
