//! Counts against a plain map: what the tests of counting share, by what is counted, spilled, kept in files and resumed.

mod exact;
mod files;
mod resuming;
mod spilling;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::*;
use crate::corpus::{Corpus, Documents, TextFormat};
use crate::pattern::Pattern;
use crate::{Quiet, WordSource};

type Words = BTreeMap<Vec<u8>, u64>;

fn words_of<S: WordSource<Error = CountError>>(mut source: S) -> Words {
    let hint = source.size_hint();
    let mut words = Words::new();
    while let Some((word, count)) = source.next_word().unwrap() {
        assert!(
            words.insert(word.to_vec(), count).is_none(),
            "each word comes once"
        );
    }
    if let Some((distinct, bytes)) = hint {
        assert_eq!(distinct, words.len() as u64);
        assert_eq!(
            bytes,
            words.keys().map(|word| word.len() as u64).sum::<u64>()
        );
    }
    words
}

/// Splits and counts the plain way.
fn plainly(pattern: &Pattern, texts: &[&[u8]]) -> Words {
    let mut words = Words::new();
    for text in texts {
        pattern
            .for_each_word(text, |word| *words.entry(word.to_vec()).or_default() += 1)
            .unwrap();
    }
    words
}

fn corpus_of(folder: &Path, files: &[&[u8]], format: TextFormat) -> Corpus {
    for (number, text) in files.iter().enumerate() {
        fs::write(folder.join(format!("{number:04}")), text).unwrap();
    }
    Corpus::find(&[folder.to_str().unwrap().to_owned()], format).unwrap()
}

fn settings(pattern: &Pattern) -> CountSettings {
    CountSettings {
        pattern: pattern.clone(),
        threads: 2,
        ..CountSettings::default()
    }
}

fn finished(counted: CountOutcome) -> Counts {
    match counted {
        CountOutcome::Finished(counts) => counts,
        CountOutcome::Stopped(_) => panic!("counting was stopped"),
    }
}

fn separated(separator: &str) -> TextFormat {
    TextFormat {
        documents: Documents::Separated(separator.to_owned()),
        cut_out: Vec::new(),
    }
}

/// About as many distinct words as asked for, short and long.
fn many_words(distinct: u64) -> Vec<u8> {
    let mut text = String::new();
    for number in 0..distinct {
        let word = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let letters: String = format!("{word:016x}")
            .chars()
            .map(|c| char::from(b'a' + c.to_digit(16).unwrap() as u8))
            .collect();
        text.push_str(&format!(
            " {letters}{}",
            if number % 3 == 0 {
                letters.as_str()
            } else {
                ""
            }
        ));
        if number % 2 == 0 {
            text.push_str(&format!(" {}", &letters[..3]));
        }
    }
    text.into_bytes()
}
