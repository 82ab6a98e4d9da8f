//! Several counts files as one: their words merged, their rules compared.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use super::CountError;
use super::file::{CountFileHeader, CountsReader, write_file};
use super::merge::{Merged, SortedWords};
use super::totals::{CorpusTotals, Recipe};
use crate::WordSource;

/// The words of one or more counts files, in the order of their bytes.
pub struct MergedCounts {
    merged: Merged<CountsReader<BufReader<File>>>,
    recipe: Recipe,
    totals: CorpusTotals,
    files: usize,
    least_count: u64,
}

impl MergedCounts {
    /// Opens the files and refuses those that were counted by different rules or not to the end.
    pub fn open(paths: &[PathBuf], least_count: u64) -> Result<Self, CountError> {
        let mut readers: Vec<CountsReader<_>> = Vec::with_capacity(paths.len());
        let mut totals = CorpusTotals::default();
        for path in paths {
            let reader = CountsReader::open(path)?;
            if reader.is_unfinished() {
                return Err(CountError::Unfinished { path: path.clone() });
            }
            if let Some(first) = readers.first()
                && let Some((what, left, right)) = first.recipe().difference(reader.recipe())
            {
                return Err(CountError::Incompatible {
                    what,
                    first: first.path().to_owned(),
                    second: path.clone(),
                    left,
                    right,
                });
            }
            totals.add(reader.totals());
            readers.push(reader);
        }
        let Some(first) = readers.first() else {
            return Err(CountError::Read {
                path: PathBuf::new(),
                source: std::io::ErrorKind::NotFound.into(),
            });
        };
        if readers.len() == 1 {
            totals = *first.totals();
        }
        Ok(Self {
            recipe: first.recipe().clone(),
            totals,
            files: readers.len(),
            merged: Merged::new(readers),
            least_count,
        })
    }

    /// The rules that all of them follow.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// Sums over all. With several files the numbers of different words are zero: they are known after merging only.
    pub fn totals(&self) -> &CorpusTotals {
        &self.totals
    }

    /// Writes one file that stands for all, with every word. Reads them twice: the number of words comes first.
    pub fn write(paths: &[PathBuf], path: &Path) -> Result<CorpusTotals, CountError> {
        let mut merged = Self::open(paths, 1)?;
        let (mut words, mut bytes) = (0, 0);
        while merged.merged.advance()? {
            words += 1;
            bytes += merged.merged.word().len() as u64;
        }
        let mut merged = Self::open(paths, 1)?;
        merged.totals.distinct_words = words;
        merged.totals.distinct_bytes = bytes;
        let header = CountFileHeader::finished(&merged.recipe, &merged.totals);
        write_file(path, &header, &mut merged.merged)?;
        Ok(merged.totals)
    }
}

impl WordSource for MergedCounts {
    type Error = CountError;

    fn next_word(&mut self) -> Result<Option<(&[u8], u64)>, CountError> {
        loop {
            if !self.merged.advance()? {
                return Ok(None);
            }
            if self.merged.count() >= self.least_count {
                return Ok(Some((self.merged.word(), self.merged.count())));
            }
        }
    }

    fn size_hint(&self) -> Option<(u64, u64)> {
        let known = self.files == 1 && self.least_count <= 1;
        known.then_some((self.totals.distinct_words, self.totals.distinct_bytes))
    }
}
