//! Many sorted streams of words as one, with the counts of equal words added up.

use std::cmp::Ordering;

/// Words in ascending order, each once.
pub(crate) trait SortedWords {
    type Error;

    /// Moves to the next word; false at the end.
    fn advance(&mut self) -> Result<bool, Self::Error>;
    fn word(&self) -> &[u8];
    fn count(&self) -> u64;
}

/// The streams that have a word left, as a binary heap by that word.
pub(crate) struct Merged<S> {
    streams: Vec<S>,
    word: Vec<u8>,
    count: u64,
    primed: bool,
}

impl<S: SortedWords> Merged<S> {
    pub(crate) fn new(streams: Vec<S>) -> Self {
        Self {
            streams,
            word: Vec::new(),
            count: 0,
            primed: false,
        }
    }

    fn prime(&mut self) -> Result<(), S::Error> {
        self.primed = true;
        let mut place = 0;
        while place < self.streams.len() {
            if self.streams[place].advance()? {
                place += 1;
            } else {
                self.streams.swap_remove(place);
            }
        }
        for place in (0..self.streams.len() / 2).rev() {
            self.sift(place);
        }
        Ok(())
    }

    fn compare(&self, left: usize, right: usize) -> Ordering {
        self.streams[left].word().cmp(self.streams[right].word())
    }

    fn sift(&mut self, mut place: usize) {
        loop {
            let mut least = 2 * place + 1;
            if least >= self.streams.len() {
                return;
            }
            if least + 1 < self.streams.len() && self.compare(least + 1, least).is_lt() {
                least += 1;
            }
            if self.compare(place, least).is_le() {
                return;
            }
            self.streams.swap(place, least);
            place = least;
        }
    }

    fn advance_first(&mut self) -> Result<(), S::Error> {
        if !self.streams[0].advance()? {
            self.streams.swap_remove(0);
        }
        if !self.streams.is_empty() {
            self.sift(0);
        }
        Ok(())
    }
}

impl<S: SortedWords> SortedWords for Merged<S> {
    type Error = S::Error;

    fn advance(&mut self) -> Result<bool, S::Error> {
        if !self.primed {
            self.prime()?;
        }
        let Some(first) = self.streams.first() else {
            return Ok(false);
        };
        self.word.clear();
        self.word.extend_from_slice(first.word());
        self.count = first.count();
        self.advance_first()?;
        while let Some(first) = self.streams.first()
            && first.word() == self.word
        {
            self.count = self.count.saturating_add(first.count());
            self.advance_first()?;
        }
        Ok(true)
    }

    fn word(&self) -> &[u8] {
        &self.word
    }

    fn count(&self) -> u64 {
        self.count
    }
}
