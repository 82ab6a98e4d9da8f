//! cl100k and o200k, up to sixty-four bytes at a time: a window begins where a word begins, and the starts of the words
//! in it are computed as bits, without a branch a byte.
//!
//! Words do not look back, so nothing is carried from window to window: the last word that begins in one begins the
//! next. A window ends before what the bits cannot say, and a word that fills it is left to the pattern's own
//! `word_end`, character by character; so is the end of the text.

use super::blocks::{BLOCK, Masks, ideographs_at, masks_at};
use super::class::{Class, wide_character_at};

/// What the bytes of a window are. All bytes of a character have its class.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClassWindow {
    /// Letters, numbers and white space, also beyond ASCII, where numbers end the window.
    pub(super) masks: Masks,
    /// Letters without case.
    pub(super) caseless: u64,
    /// `\p{M}`.
    pub(super) marks: u64,
    /// Bytes of a character after its first.
    pub(super) tails: u64,
    /// Bytes that count.
    pub(super) within: u64,
}

/// Splits a text into words: `starts_in` gives those that begin in a window after its first byte, `word_end` the end of
/// the word at a place.
#[inline(always)]
pub(super) fn scan(
    text: &[u8],
    starts_in: impl Fn(&[u8], usize, ClassWindow) -> u64,
    word_end: impl Fn(&[u8], usize) -> usize,
    mut visit: impl FnMut(usize, usize),
) {
    let mut word_start = 0;
    while word_start < text.len() {
        let mut starts = 0;
        let mut base = word_start;
        if text.len() - word_start > BLOCK {
            let window = ClassWindow::at(text, word_start);
            starts = starts_in(text, word_start, window) & !1;
        }
        if starts == 0 {
            base = word_end(text, word_start);
            starts = 1;
        }
        while starts != 0 {
            let start = base + starts.trailing_zeros() as usize;
            starts &= starts - 1;
            visit(word_start, start);
            word_start = start;
        }
    }
}

impl ClassWindow {
    #[inline(always)]
    fn at(text: &[u8], base: usize) -> Self {
        let mut window = Self {
            masks: masks_at(text, base),
            caseless: 0,
            marks: 0,
            tails: 0,
            within: u64::MAX,
        };
        if window.masks.wide != 0 {
            window.add_wide(text, base);
        }
        window
    }

    /// Puts the characters of several bytes into the masks.
    #[inline(always)]
    fn add_wide(&mut self, text: &[u8], base: usize) {
        let mut firsts = ideographs_at(text, base);
        let mut by_class = [0_u64; Class::COUNT];
        by_class[Class::Caseless.number()] = firsts | firsts << 1 | firsts << 2;
        let mut todo = self.masks.wide & !by_class[Class::Caseless.number()];
        while todo != 0 {
            let place = todo.trailing_zeros() as usize;
            let found = wide_character_at(text, base + place);
            if place + found.bytes > BLOCK || found.class == Class::Number {
                self.within = (1 << place) - 1;
                break;
            }
            let bits = ((1 << found.bytes) - 1) << place;
            todo &= !bits;
            firsts |= 1 << place;
            by_class[found.class.number()] |= bits;
        }
        self.tails = self.masks.wide & !firsts;
        self.caseless = by_class[Class::Caseless.number()];
        self.marks = by_class[Class::Mark.number()];
        self.masks.spaces |= by_class[Class::Space.number()];
        self.masks.capitals |= by_class[Class::Upper.number()];
        self.masks.letters |= by_class[Class::Upper.number()]
            | by_class[Class::Lower.number()]
            | by_class[Class::Caseless.number()];
    }

    /// Leaves out all from the first of `places` on.
    #[inline(always)]
    pub(super) fn end_before(&mut self, places: u64) {
        // The bits below the lowest; all of them where there is none.
        self.within &= !places & places.wrapping_sub(1);
    }

    /// The first bytes of the characters that follow those at `firsts`.
    #[inline(always)]
    pub(super) fn behind(&self, firsts: u64) -> u64 {
        let next = firsts << 1;
        // Adding to the first of some tails clears them and sets the bit behind.
        next & !self.tails | self.tails.wrapping_add(next & self.tails) & !self.tails
    }

    /// The starts of `\p{N}{1,3}`: each run of digits, and every third in it.
    #[inline(always)]
    pub(super) fn number_starts(&self) -> u64 {
        let numbers = self.masks.numbers;
        let mut starts = numbers & !(numbers << 1);
        let fourth = numbers & numbers << 1 & numbers << 2 & numbers << 3;
        let mut next = starts << 3 & fourth;
        while next != 0 {
            starts |= next;
            next = next << 3 & fourth;
        }
        starts
    }

    /// The starts of `\s*[\r\n]+|\s+(?!\S)|\s+`; `taken` are line ends that belong to the symbols before them.
    ///
    /// A run starts a word; so does what follows its last line end; so does its last character where something else
    /// follows, unless it is a line end. Whether it is the one that a letter or symbol takes along makes no difference.
    #[inline(always)]
    pub(super) fn space_starts(&self, taken: u64) -> u64 {
        let all = self.masks.spaces & self.within;
        let runs = all & !taken;
        let line_ends = self.masks.line_ends & runs;
        let plain = runs & !line_ends;
        // Beyond the window there may be more of the run.
        let mut last = plain & !(all >> 1) & self.within >> 1;
        if last & self.tails != 0 {
            last = self.firsts_of(last);
        }
        let mut starts = runs & !(runs << 1) | last;
        let mut after_line_ends = line_ends << 1 & plain;
        while after_line_ends != 0 {
            let place = after_line_ends.trailing_zeros();
            after_line_ends &= after_line_ends - 1;
            let end = place + (plain >> place).trailing_ones();
            // A later line end takes all before it along, and there may be one beyond the window.
            let ends_known = end < 64 && (line_ends | !self.within) >> end & 1 == 0;
            starts |= u64::from(ends_known) << place;
        }
        starts
    }

    /// The first bytes of the characters whose last bytes are given.
    #[cold]
    fn firsts_of(&self, lasts: u64) -> u64 {
        let mut found = lasts & !self.tails;
        let mut todo = lasts & self.tails;
        while todo != 0 {
            let place = todo.trailing_zeros();
            todo &= todo - 1;
            let up_to = u64::MAX >> (63 - place);
            found |= 1 << (63 - (up_to & !self.tails).leading_zeros());
        }
        found
    }
}

/// The bits of `through` that are reached upwards from `seeds` without a gap; seeds are part of it.
#[inline(always)]
pub(super) fn filled(seeds: u64, mut through: u64) -> u64 {
    let mut reached = seeds;
    for shift in [1, 2, 4, 8, 16, 32] {
        reached |= through & reached << shift;
        through &= through << shift;
    }
    reached
}
