//! Words and models for the tests.

#![allow(dead_code)]

use std::collections::BTreeMap;

use nilo_tokenizer::merge::{MergeOptions, Words};
use nilo_tokenizer::model::Model;
use nilo_tokenizer::{Pattern, Quiet, WordSource};

/// Counted words, lent out: reading them allocates nothing.
pub(crate) struct Counted<'a>(std::collections::btree_map::Iter<'a, Vec<u8>, u64>);

impl<'a> Counted<'a> {
    pub(crate) fn new(words: &'a BTreeMap<Vec<u8>, u64>) -> Self {
        Self(words.iter())
    }
}

impl WordSource for Counted<'_> {
    type Error = std::convert::Infallible;

    fn next_word(&mut self) -> Result<Option<(&[u8], u64)>, Self::Error> {
        Ok(self.0.next().map(|(word, &count)| (&word[..], count)))
    }
}

/// The words of a text, counted.
pub(crate) fn count(text: &[u8], pattern: &Pattern) -> BTreeMap<Vec<u8>, u64> {
    let mut words = BTreeMap::new();
    pattern
        .for_each_word(text, |word| *words.entry(word.to_vec()).or_default() += 1)
        .unwrap();
    words
}

/// A model learnt from a text.
pub(crate) fn model(text: &[u8], pattern: Pattern, options: &MergeOptions) -> Model {
    let words = Words::read(Counted::new(&count(text, &pattern)), options).unwrap();
    Model::from_learned(words.learn(options, &Quiet).unwrap(), pattern)
}

/// A text with words of many kinds: this crate's own sources and some languages.
pub(crate) fn sample_text() -> Vec<u8> {
    let mut text = Vec::new();
    for part in [
        include_str!("../textbook.rs"),
        include_str!("mod.rs"),
        include_str!("../../src/merge/merger.rs"),
    ] {
        text.extend_from_slice(part.as_bytes());
    }
    let many = "Nilomètre — 尼罗河水位计 ナイロメーター مقياس النيل Нилометр 👩‍👩‍👧 don't they'll 12345 \r\n\r\n   \u{a0}\u{3000}x ";
    for _ in 0..20 {
        text.extend_from_slice(many.as_bytes());
    }
    text.extend_from_slice(&[0xFF, 0xFE, b' ', 0xED, 0xA0, 0x80, 0xC3]);
    text
}

/// A small generator, so that a failure comes back with its number.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }
}
