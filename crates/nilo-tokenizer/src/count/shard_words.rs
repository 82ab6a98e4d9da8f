//! The words of a shard when all are counted: each in any order, taken out, or by their bytes.

use super::index::Index;
use super::key::ShortWord;
use super::shard::{SEGMENT, Shard, ShortEntry};

impl Shard {
    /// Every word in no order.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&[u8], u64)) {
        for entry in self.short.iter().flatten() {
            visit(&entry.word.bytes()[..entry.word.length()], entry.count);
        }
        for entry in self.long.iter().flatten() {
            visit(self.text_of(entry), entry.count);
        }
    }

    /// Forgets how words are found, which is not needed for reading them, and lets go of that memory.
    pub(crate) fn drop_indexes(&mut self) {
        self.short_index = Index::new();
        self.long_index = Index::new();
    }

    /// Takes a segment of short words out, the last first.
    pub(crate) fn take_short(&mut self) -> Option<Vec<ShortEntry>> {
        self.short.pop()
    }

    /// Takes a long word out, the last first; its bytes go to `word`.
    pub(crate) fn take_long(&mut self, word: &mut Vec<u8>) -> Option<u64> {
        let entry = loop {
            match self.long.last_mut()?.pop() {
                Some(entry) => break entry,
                None => drop(self.long.pop()),
            }
        };
        word.clear();
        word.extend_from_slice(self.text_of(&entry));
        self.text.truncate(entry.segment as usize + 1);
        Some(entry.count)
    }

    /// The numbers of all words in the order of their bytes; short words come first in the numbering.
    pub(crate) fn sorted(&self) -> Vec<u32> {
        let short = self.short.iter().map(Vec::len).sum::<usize>();
        let long = self.long.iter().map(Vec::len).sum::<usize>();
        let mut order: Vec<u32> = (0..(short + long) as u32).collect();
        let text = |number: u32| match (number as usize).checked_sub(short) {
            None => Word::Short(self.short_at(number as usize).word),
            Some(long) => Word::Long(self.text_of(self.long_at(long))),
        };
        order.sort_unstable_by(|&left, &right| text(left).compare(&text(right)));
        order
    }

    /// The word of a number from [`Self::sorted`], put into `word`, and its count.
    pub(crate) fn numbered(&self, number: u32, word: &mut Vec<u8>) -> u64 {
        let short =
            self.short.len().saturating_sub(1) * SEGMENT + self.short.last().map_or(0, Vec::len);
        word.clear();
        match (number as usize).checked_sub(short) {
            None => {
                let entry = self.short_at(number as usize);
                word.extend_from_slice(&entry.word.bytes()[..entry.word.length()]);
                entry.count
            }
            Some(long) => {
                let entry = self.long_at(long);
                word.extend_from_slice(self.text_of(entry));
                entry.count
            }
        }
    }
}

/// A word for comparing.
enum Word<'t> {
    Short(ShortWord),
    Long(&'t [u8]),
}

impl Word<'_> {
    fn compare(&self, other: &Self) -> std::cmp::Ordering {
        let whole = |word: ShortWord| (word.low.swap_bytes(), word.high.swap_bytes());
        match (self, other) {
            // Zeros after the end sort a word before its extensions, and the length, the last byte, decides between words
            // that end in zeros.
            (Word::Short(left), Word::Short(right)) => whole(*left).cmp(&whole(*right)),
            (Word::Long(left), Word::Long(right)) => left.cmp(right),
            (Word::Short(left), Word::Long(right)) => left.bytes()[..left.length()].cmp(right),
            (Word::Long(left), Word::Short(right)) => (*left).cmp(&right.bytes()[..right.length()]),
        }
    }
}
