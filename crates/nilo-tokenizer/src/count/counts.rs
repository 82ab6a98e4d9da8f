//! Counted words: handed to the merging stage, or written to a file.

use std::path::Path;

use super::CountError;
use super::file::{CountFileHeader, write_file};
use super::merge::{Merged, SortedWords};
use super::shard::{Shard, ShortEntry};
use super::spill::SpilledRun;
use super::table::SpillingShard;
use super::totals::{CorpusTotals, Recipe};
use crate::WordSource;

/// The words of a corpus with their counts, in memory or, beyond the budget, on disk.
#[derive(Debug)]
pub struct Counts {
    parts: Vec<SpillingShard>,
    totals: CorpusTotals,
    recipe: Recipe,
}

impl Counts {
    pub(super) fn new(parts: Vec<SpillingShard>, totals: CorpusTotals, recipe: Recipe) -> Self {
        Self {
            parts,
            totals,
            recipe,
        }
    }

    /// Sums over the corpus.
    pub fn totals(&self) -> &CorpusTotals {
        &self.totals
    }

    /// The rules by which it was counted.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// Whether words are on disk.
    pub fn has_spilled(&self) -> bool {
        self.parts.iter().any(|part| part.spilled.is_some())
    }

    /// The words that occurred at least `least_count` times. Memory is given back as they are read.
    pub fn into_words(mut self, least_count: u64) -> CountedWords {
        let hint = if least_count <= 1 {
            Some((self.totals.distinct_words, self.totals.distinct_bytes))
        } else if self.has_spilled() {
            None
        } else {
            let (mut words, mut bytes) = (0, 0);
            for part in &self.parts {
                part.shard.for_each(|word, count| {
                    if count >= least_count {
                        words += 1;
                        bytes += word.len() as u64;
                    }
                });
            }
            Some((words, bytes))
        };
        self.parts.reverse();
        CountedWords {
            parts: self.parts,
            current: Current::Nothing,
            word: Vec::new(),
            least_count,
            hint,
        }
    }

    /// Writes a counts file, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<(), CountError> {
        self.write_with(path, CountFileHeader::finished(&self.recipe, &self.totals))
    }

    pub(super) fn write_with(
        &self,
        path: &Path,
        header: CountFileHeader,
    ) -> Result<(), CountError> {
        let streams = self.parts.iter().map(PartWords::new).collect();
        write_file(path, &header, &mut Merged::new(streams))
    }
}

/// The words of [`Counts`], in no particular order.
pub struct CountedWords {
    parts: Vec<SpillingShard>,
    current: Current,
    word: Vec<u8>,
    least_count: u64,
    hint: Option<(u64, u64)>,
}

/// The part being read.
enum Current {
    Nothing,
    Memory {
        shard: Shard,
        segment: std::vec::IntoIter<ShortEntry>,
    },
    Disk(Box<Merged<SpilledRun>>),
}

impl CountedWords {
    /// Puts the next word into `self.word` and returns its count.
    fn next_count(&mut self) -> Result<Option<u64>, CountError> {
        loop {
            match &mut self.current {
                Current::Nothing => {}
                Current::Memory { shard, segment } => {
                    if let Some(entry) = segment.next() {
                        self.word.clear();
                        self.word
                            .extend_from_slice(&entry.word.bytes()[..entry.word.length()]);
                        return Ok(Some(entry.count));
                    }
                    if let Some(next) = shard.take_short() {
                        *segment = next.into_iter();
                        continue;
                    }
                    if let Some(count) = shard.take_long(&mut self.word) {
                        return Ok(Some(count));
                    }
                }
                Current::Disk(merged) => {
                    if merged.advance()? {
                        self.word.clear();
                        self.word.extend_from_slice(merged.word());
                        return Ok(Some(merged.count()));
                    }
                }
            }
            self.current = Current::Nothing;
            self.current = match self.parts.pop() {
                None => {
                    give_back_memory();
                    return Ok(None);
                }
                Some(SpillingShard {
                    spilled: Some(spilled),
                    ..
                }) => Current::Disk(Box::new(spilled.read())),
                Some(SpillingShard {
                    shard,
                    spilled: None,
                }) => Current::Memory {
                    shard,
                    segment: Vec::new().into_iter(),
                },
            };
        }
    }
}

/// Returns freed memory to the system. The table was filled by several threads, each with a heap of its own, and what is
/// freed there would neither be used by the merging stage nor given back.
fn give_back_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: the call takes no pointer and may be made at any time from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

impl WordSource for CountedWords {
    type Error = CountError;

    fn next_word(&mut self) -> Result<Option<(&[u8], u64)>, CountError> {
        while let Some(count) = self.next_count()? {
            if count >= self.least_count {
                return Ok(Some((&self.word, count)));
            }
        }
        Ok(None)
    }

    fn size_hint(&self) -> Option<(u64, u64)> {
        self.hint
    }
}

/// The words of one part in order.
enum PartWords<'p> {
    Memory {
        shard: &'p Shard,
        order: std::vec::IntoIter<u32>,
        word: Vec<u8>,
        count: u64,
    },
    Disk(Box<Merged<SpilledRun>>),
}

impl<'p> PartWords<'p> {
    fn new(part: &'p SpillingShard) -> Self {
        match &part.spilled {
            Some(spilled) => Self::Disk(Box::new(spilled.read())),
            None => Self::Memory {
                shard: &part.shard,
                order: part.shard.sorted().into_iter(),
                word: Vec::new(),
                count: 0,
            },
        }
    }
}

impl SortedWords for PartWords<'_> {
    type Error = CountError;

    fn advance(&mut self) -> Result<bool, CountError> {
        match self {
            Self::Disk(merged) => merged.advance(),
            Self::Memory {
                shard,
                order,
                word,
                count,
            } => {
                let Some(number) = order.next() else {
                    return Ok(false);
                };
                *count = shard.numbered(number, word);
                Ok(true)
            }
        }
    }

    fn word(&self) -> &[u8] {
        match self {
            Self::Disk(merged) => merged.word(),
            Self::Memory { word, .. } => word,
        }
    }

    fn count(&self) -> u64 {
        match self {
            Self::Disk(merged) => merged.count(),
            Self::Memory { count, .. } => *count,
        }
    }
}
