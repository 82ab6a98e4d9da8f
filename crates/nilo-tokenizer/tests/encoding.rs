//! Ids are those of the textbook: join the pair that was learnt first, the leftmost of several, until none joins.

#![allow(clippy::unwrap_used)]

mod support;

use nilo_tokenizer::Pattern;
use nilo_tokenizer::encode::{EncodeError, Encoder, Scratch, SpecialTokens, UnknownIds};
use nilo_tokenizer::merge::{Alphabet, MergeOptions};
use nilo_tokenizer::model::Model;
use support::{Random, model, sample_text};

fn trained(pattern: Pattern, size: usize) -> Model {
    let options = MergeOptions {
        vocabulary_size: size,
        special_tokens: vec!["<|end|>".to_owned(), "<|end|>er".to_owned()],
        ..MergeOptions::default()
    };
    model(&sample_text(), pattern, &options)
}

/// One word, the slow and obvious way.
fn textbook(model: &Model, word: &[u8]) -> Vec<u32> {
    let byte_id = |byte: u8| {
        (2..model.vocabulary_size() as u32)
            .find(|&id| model.token(id) == Some(&[byte]))
            .unwrap()
    };
    let mut ids: Vec<u32> = word.iter().map(|&byte| byte_id(byte)).collect();
    loop {
        let join_at = |index: usize| {
            model
                .joins()
                .iter()
                .find(|join| (join.left, join.right) == (ids[index], ids[index + 1]))
        };
        let best = (0..ids.len().saturating_sub(1))
            .filter_map(|index| Some((join_at(index)?.rank, index)))
            .min();
        let Some((_, index)) = best else {
            return ids;
        };
        let joined = join_at(index).unwrap().joined;
        ids.splice(index..index + 2, [joined]);
    }
}

#[test]
fn random_words_of_any_length_have_the_ids_of_the_textbook() {
    let model = trained(Pattern::None, 700);
    let encoder = Encoder::new(&model);
    let text = sample_text();
    let mut scratch = Scratch::default();
    for seed in 1..=300 {
        let mut random = Random::seeded(seed);
        let length = 1 + random.below(120) as usize;
        let start = random.below((text.len() - length) as u64) as usize;
        let mut word = text[start..start + length].to_vec();
        if seed % 3 == 0 {
            word.iter_mut()
                .for_each(|byte| *byte = b"ab e"[random.below(4) as usize]);
        }
        let expected = textbook(&model, &word);
        for _ in 0..2 {
            let mut ids = Vec::new();
            encoder
                .encode_into(&word, SpecialTokens::AsText, &mut scratch, &mut ids)
                .unwrap();
            assert_eq!(ids, expected, "seed {seed}, from the cache the second time");
        }
    }
}

#[test]
fn random_bytes_come_back() {
    for pattern in [
        Pattern::Gpt2,
        Pattern::Cl100k,
        Pattern::O200k,
        Pattern::None,
    ] {
        let model = trained(pattern, 600);
        let encoder = Encoder::new(&model);
        for seed in 1..=100 {
            let mut random = Random::seeded(seed);
            let most = if seed % 2 == 0 { 256 } else { 70 };
            let text: Vec<u8> = (0..random.below(400))
                .map(|_| (random.below(most) + 30) as u8)
                .collect();
            let ids = encoder.encode(&text, SpecialTokens::AsText).unwrap();
            assert_eq!(model.decode(&ids, UnknownIds::Refuse).unwrap(), text);
        }
    }
}

#[test]
fn a_million_times_one_letter_and_a_megabyte_without_a_space_are_no_trouble() {
    let options = MergeOptions {
        vocabulary_size: 300,
        ..MergeOptions::default()
    };
    let model = model(&[b'a'; 5000], Pattern::Gpt2, &options);
    let encoder = Encoder::new(&model);
    let run = vec![b'a'; 1_000_003];
    let ids = encoder.encode(&run, SpecialTokens::AsText).unwrap();
    assert_eq!(model.decode(&ids, UnknownIds::Refuse).unwrap(), run);
    assert!(ids.len() < 1000, "{}", ids.len());
    let model = trained(Pattern::Gpt2, 800);
    let mut random = Random(3);
    let word: Vec<u8> = (0..1 << 20)
        .map(|_| b'a' + random.below(26) as u8)
        .collect();
    let ids = Encoder::new(&model)
        .encode(&word, SpecialTokens::AsText)
        .unwrap();
    assert_eq!(model.decode(&ids, UnknownIds::Refuse).unwrap(), word);
}

#[test]
fn special_tokens_are_recognised_only_when_asked_for_and_the_longest_wins() {
    let model = trained(Pattern::Gpt2, 600);
    let encoder = Encoder::new(&model);
    let text = b"a<|end|>er b<|end|><|end|>";
    let ids = encoder.encode(text, SpecialTokens::Recognise).unwrap();
    assert_eq!(
        ids.iter()
            .filter(|&&id| id < 2)
            .copied()
            .collect::<Vec<_>>(),
        [1, 0, 0]
    );
    assert_eq!(model.decode(&ids, UnknownIds::Refuse).unwrap(), text);
    let ids = encoder.encode(text, SpecialTokens::AsText).unwrap();
    assert!(ids.iter().all(|&id| id > 1));
    assert_eq!(model.decode(&ids, UnknownIds::Refuse).unwrap(), text);
}

/// A reader that hands out odd amounts.
struct Dribble<'a>(&'a [u8], usize);

impl std::io::Read for Dribble<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        self.1 = self.1 * 7 % 10_007;
        let length = (1 + self.1).min(self.0.len()).min(out.len());
        out[..length].copy_from_slice(&self.0[..length]);
        self.0 = &self.0[length..];
        Ok(length)
    }
}

#[test]
fn threads_and_blocks_change_nothing() {
    let mut text = Vec::new();
    let mut random = Random(9);
    while text.len() < 1_300_000 {
        let sample = sample_text();
        let start = random.below(sample.len() as u64 - 600) as usize;
        text.extend_from_slice(&sample[start..start + 500]);
        if random.below(3) == 0 {
            text.extend_from_slice(b"<|end|>");
        }
    }
    for pattern in [
        Pattern::Gpt2,
        Pattern::Cl100k,
        Pattern::O200k,
        Pattern::None,
    ] {
        let model = trained(pattern, 700);
        let encoder = Encoder::new(&model);
        for specials in [SpecialTokens::Recognise, SpecialTokens::AsText] {
            let expected = encoder.encode(&text, specials).unwrap();
            assert_eq!(
                encoder
                    .encode_parallel(&text, specials, 3)
                    .unwrap()
                    .concat(),
                expected
            );
            let mut ids = Vec::new();
            let take = |more: &[u32]| -> Result<(), std::convert::Infallible> {
                ids.extend_from_slice(more);
                Ok(())
            };
            encoder
                .encode_stream(Dribble(&text, 5), specials, 1, take)
                .unwrap();
            assert!(ids == expected, "a stream in blocks");
        }
        let parts: Vec<&[u8]> = text.chunks(10_000).collect();
        let batch = encoder
            .encode_batch(&parts, SpecialTokens::Recognise, 4)
            .unwrap();
        for (part, ids) in parts.iter().zip(batch) {
            assert_eq!(ids, encoder.encode(part, SpecialTokens::Recognise).unwrap());
        }
    }
}

#[test]
fn a_byte_without_a_token_is_an_error() {
    let options = MergeOptions {
        alphabet: Alphabet::Seen,
        vocabulary_size: 20,
        ..MergeOptions::default()
    };
    let model = model(b"aab aab aab", Pattern::Gpt2, &options);
    let encoder = Encoder::new(&model);
    assert!(encoder.encode(b"aab", SpecialTokens::AsText).is_ok());
    let error = encoder.encode(b"aab c", SpecialTokens::AsText).unwrap_err();
    assert!(
        matches!(error, EncodeError::NoToken { byte: b'c' }),
        "{error}"
    );
    assert!(
        encoder
            .encode_batch(&[&b"aab"[..], b"c"], SpecialTokens::AsText, 2)
            .is_err()
    );
}

#[test]
fn an_unknown_id_is_refused_or_skipped() {
    let model = trained(Pattern::Gpt2, 600);
    let a = Encoder::new(&model)
        .encode(b"a", SpecialTokens::AsText)
        .unwrap()[0];
    let error = model.decode(&[a, 600], UnknownIds::Refuse).unwrap_err();
    assert_eq!(
        error.to_string(),
        "id 600 at position 1 is not in the vocabulary of 600 tokens"
    );
    assert_eq!(
        model
            .decode(&[a, 600, u32::MAX, a], UnknownIds::Skip)
            .unwrap(),
        b"aa"
    );
}
