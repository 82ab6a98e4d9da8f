//! The three ways to join a word against each other, on vocabularies of every kind, and how much work the linear one does.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;

use super::joins::Joins;
use super::linear_word::{LinearWordScratch, LinearWords};
use super::{LONGEST_SHORT_WORD, long_word, short_word};
use crate::merge::{Learned, Merge, MergeOptions, MergeStatistics, Words};
use crate::model::Model;
use crate::{Pattern, Quiet, WordSource};

/// A model of merges by the texts of their halves, in the order given. Letters are the alphabet, from `a` on.
fn model_of(letters: u8, merges: &[(Vec<u8>, Vec<u8>)]) -> Model {
    let mut tokens: Vec<Box<[u8]>> = (b'a'..b'a' + letters)
        .map(|letter| [letter].into())
        .collect();
    let mut ids: HashMap<Box<[u8]>, u32> = tokens.iter().cloned().zip(0..).collect();
    let mut id_of = |text: &[u8]| {
        *ids.entry(text.into()).or_insert_with(|| {
            tokens.push(text.into());
            tokens.len() as u32 - 1
        })
    };
    let merges = merges
        .iter()
        .map(|(left, right)| Merge {
            left: id_of(left),
            right: id_of(right),
            joined: id_of(&[&left[..], right].concat()),
            count: 1,
        })
        .collect();
    let learned = Learned {
        tokens,
        special_tokens: Vec::new(),
        merges,
        statistics: MergeStatistics::default(),
    };
    Model::from_learned(learned, Pattern::None)
}

/// Merges of what was made before: `picks` choose the halves.
fn merges_of(letters: u8, picks: &[(u16, u16)]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut tokens: Vec<Vec<u8>> = (b'a'..b'a' + letters).map(|letter| vec![letter]).collect();
    let mut merges = Vec::new();
    for &(left, right) in picks {
        let pick = |number: u16| tokens[usize::from(number) % tokens.len()].clone();
        let (left, right) = (pick(left), pick(right));
        let joined = [&left[..], &right].concat();
        if joined.len() <= 24 {
            merges.push((left, right));
            tokens.push(joined);
        }
    }
    merges
}

/// A tokenizer by ranks: every way to put a token together has the token's rank.
fn ranks_of(letters: u8, merges: &[(Vec<u8>, Vec<u8>)]) -> Model {
    let mut texts: Vec<Vec<u8>> = (b'a'..b'a' + letters).map(|letter| vec![letter]).collect();
    for (left, right) in merges {
        let joined = [&left[..], right].concat();
        if !texts.contains(&joined) {
            texts.push(joined);
        }
    }
    let lines: String = texts
        .iter()
        .zip(0..)
        .map(|(text, rank)| format!("{} {rank}\n", in_base64(text)))
        .collect();
    Model::from_ranks(lines.as_bytes(), &BTreeMap::new(), Pattern::None).expect("they are in order")
}

fn in_base64(text: &[u8]) -> String {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for part in text.chunks(3) {
        let bits = (0..3).fold(0, |bits, index| {
            bits << 8 | u32::from(*part.get(index).unwrap_or(&0))
        });
        for index in 0..4 {
            let digit = digits[(bits >> (18 - 6 * index) & 63) as usize];
            out.push(if index <= part.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    out
}

/// The ids of a word by the heap, after the others were found to give the same. Says whether the linear way can be gone.
fn compare(model: &Model, words: &[Vec<u8>]) -> bool {
    let byte_ids = model.byte_ids().map(|id| id.unwrap_or(u32::MAX));
    let joins = Joins::new(model.joins());
    let linear = LinearWords::new(model, &joins);
    let (mut heap, mut room) = (
        long_word::LongWordScratch::default(),
        LinearWordScratch::default(),
    );
    for word in words.iter().filter(|word| !word.is_empty()) {
        let mut expected = Vec::new();
        long_word::encode(&joins, &byte_ids, word, &mut heap, &mut expected);
        if word.len() <= LONGEST_SHORT_WORD {
            let mut ids = Vec::new();
            short_word::encode(&joins, &byte_ids, word, &mut ids);
            assert_eq!(ids, expected, "short: {word:?}");
        }
        if let Some(linear) = &linear {
            let mut ids = vec![7];
            linear.encode(word, &mut room, &mut ids);
            assert_eq!(ids[1..], expected, "linear: {word:?}");
        }
    }
    linear.is_some()
}

fn words(letters: u8) -> impl Strategy<Value = Vec<Vec<u8>>> {
    let word = prop_oneof![
        prop::collection::vec(b'a'..b'a' + letters, 1..200),
        prop::collection::vec(b'a'..b'a' + letters, 1..12),
        (
            prop::collection::vec(b'a'..b'a' + letters, 1..5),
            1_usize..40
        )
            .prop_map(|(part, times)| part.repeat(times)),
    ];
    prop::collection::vec(word, 1..12)
}

fn picks() -> impl Strategy<Value = Vec<(u16, u16)>> {
    prop::collection::vec((any::<u16>(), any::<u16>()), 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn merges_in_the_order_of_making_give_the_ids_of_the_heap(picks in picks(), words in words(3)) {
        // A token that is made in a second way after it was used is out of order; all else must go the linear way.
        let mut merges = merges_of(3, &picks);
        let mut made = std::collections::HashSet::new();
        compare(&model_of(3, &merges), &words);
        merges.retain(|(left, right)| made.insert([&left[..], right].concat()));
        prop_assert!(compare(&model_of(3, &merges), &words));
    }

    #[test]
    fn merges_in_any_order_give_the_ids_of_the_heap(
        (picks, order) in picks().prop_flat_map(|picks| {
            let places: Vec<usize> = (0..picks.len()).collect();
            (Just(picks), Just(places).prop_shuffle())
        }),
        words in words(2),
    ) {
        let merges = merges_of(2, &picks);
        let shuffled: Vec<_> = order.iter().filter_map(|&place| merges.get(place).cloned()).collect();
        compare(&model_of(2, &shuffled), &words);
    }

    #[test]
    fn two_merges_that_changed_places_give_the_ids_of_the_heap(
        picks in picks(), first in any::<prop::sample::Index>(), second in any::<prop::sample::Index>(), words in words(2),
    ) {
        let mut merges = merges_of(2, &picks);
        prop_assume!(!merges.is_empty());
        let (first, second) = (first.index(merges.len()), second.index(merges.len()));
        merges.swap(first, second);
        compare(&model_of(2, &merges), &words);
    }

    #[test]
    fn ranks_give_the_ids_of_the_heap(picks in picks(), words in words(2)) {
        compare(&ranks_of(2, &merges_of(2, &picks)), &words);
    }
}

/// Each word once.
struct Once<'a>(std::slice::Iter<'a, Vec<u8>>);

impl WordSource for Once<'_> {
    type Error = std::convert::Infallible;

    fn next_word(&mut self) -> Result<Option<(&[u8], u64)>, Self::Error> {
        Ok(self.0.next().map(|word| (&word[..], 1)))
    }
}

fn learnt(words: &[Vec<u8>], vocabulary_size: usize) -> Model {
    let options = MergeOptions {
        vocabulary_size,
        ..MergeOptions::default()
    };
    let words = Words::read(Once(words.iter()), &options).expect("words in memory can be read");
    let learned = words.learn(&options, &Quiet).expect("nothing stops it");
    Model::from_learned(learned, Pattern::None)
}

fn random_letters(count: usize, letters: u64) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        b'a' + ((state >> 20) % letters) as u8
    };
    (0..count).map(next).collect()
}

#[test]
fn learnt_merges_go_the_linear_way_and_give_the_ids_of_the_heap() {
    for letters in [1, 2, 4, 26] {
        let text = random_letters(6000, letters);
        let parts: Vec<Vec<u8>> = text.chunks(11).map(<[u8]>::to_vec).collect();
        let parts: std::collections::BTreeSet<Vec<u8>> = parts.into_iter().collect();
        let parts: Vec<Vec<u8>> = parts.into_iter().collect();
        for size in [257, 300, 1000] {
            let model = learnt(&parts, size);
            assert!(compare(
                &model,
                &[text.clone(), random_letters(5000, letters + 1)]
            ));
        }
    }
}

#[test]
fn merges_that_need_a_later_one_go_the_other_way() {
    let texts = |pairs: &[(&str, &str)]| -> Vec<(Vec<u8>, Vec<u8>)> {
        let text = |text: &str| text.as_bytes().to_vec();
        pairs
            .iter()
            .map(|(left, right)| (text(left), text(right)))
            .collect()
    };
    // "ab" is made after the merge that needs it: "abc" becomes one token all the same.
    let model = model_of(3, &texts(&[("ab", "c"), ("a", "b")]));
    let words: Vec<Vec<u8>> = ["abc", "ababcab", "cabcab"]
        .map(|word| word.as_bytes().to_vec())
        .into();
    assert!(!compare(&model, &words));
    // The same merge never happens where "bc" comes first; then nothing is out of order.
    assert!(compare(
        &model_of(3, &texts(&[("b", "c"), ("ab", "c"), ("a", "b")])),
        &words
    ));
}

#[test]
fn work_grows_with_the_length_of_a_word_and_no_faster() {
    let steps = |model: &Model, word: &[u8]| {
        let linear =
            LinearWords::new(model, &Joins::new(model.joins())).expect("merges are in order");
        let mut room = LinearWordScratch::default();
        linear.encode(word, &mut room, &mut Vec::new());
        room.steps
    };
    let of_a = learnt(&[vec![b'a'; 5000]], 300);
    let text = random_letters(40_000, 26);
    let parts: Vec<Vec<u8>> = text.chunks(9).map(<[u8]>::to_vec).collect();
    let of_letters = learnt(&parts, 2000);
    for (model, word) in [
        (&of_a, vec![b'a'; 1_000_003]),
        (&of_letters, random_letters(1 << 20, 26)),
        (&of_letters, random_letters(1 << 20, 3)),
        (&of_letters, b"abcabd".repeat(1 << 17)),
    ] {
        let whole = steps(model, &word);
        assert!(
            whole < 16 * word.len(),
            "{whole} steps for {} bytes",
            word.len()
        );
        let half = steps(model, &word[..word.len() / 2]);
        assert!(
            whole < half * 21 / 10,
            "{half} steps for half, {whole} for all"
        );
    }
}
