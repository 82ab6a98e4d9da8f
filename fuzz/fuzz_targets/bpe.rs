//! Any words, learnt with any means: the result is that of one thread without a budget, and texts come back from their ids.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nilo_tokenizer::encode::{Encoder, SpecialTokens, UnknownIds};
use nilo_tokenizer::merge::{MergeOptions, TieBreak, Words};
use nilo_tokenizer::model::Model;
use nilo_tokenizer::{Pattern, Quiet, WordSource};

/// Words between zeros; the byte before a word is its count.
struct Split<'a>(std::collections::btree_map::IntoIter<&'a [u8], u64>, &'a [u8]);

impl WordSource for Split<'_> {
    type Error = std::convert::Infallible;

    fn next_word(&mut self) -> Result<Option<(&[u8], u64)>, Self::Error> {
        Ok(self.0.next().map(|(word, count)| {
            self.1 = word;
            (self.1, count)
        }))
    }
}

fn words(data: &[u8]) -> Split<'_> {
    let mut words = std::collections::BTreeMap::new();
    for word in data.split(|&byte| byte == 0) {
        if let Some((&count, word)) = word.split_first() {
            *words.entry(word).or_default() += u64::from(count);
        }
    }
    Split(words.into_iter(), &[])
}

fuzz_target!(|data: &[u8]| {
    let Some(([choice, length], data)) = data.split_first_chunk().map(|(head, data)| (*head, data)) else {
        return;
    };
    let mut options = MergeOptions {
        vocabulary_size: 300,
        special_tokens: if choice & 1 != 0 { vec!["ab".to_owned()] } else { Vec::new() },
        min_frequency: u64::from(choice >> 1 & 3),
        max_token_length: (length < 12).then_some(usize::from(length)),
        tie_break: if choice & 8 != 0 { TieBreak::Gpt2Bytes } else { TieBreak::HuggingFace },
        ..MergeOptions::default()
    };
    let Ok(read) = Words::read(words(data), &options) else {
        return;
    };
    let least_bytes = read.plan(&options).expect("no budget, no refusal").least_bytes;
    let learned = read.learn(&options, &Quiet).expect("the alphabet has room");
    options.memory_budget_bytes = Some(least_bytes);
    let again = Words::read(words(data), &options).expect("the same words").learn(&options, &Quiet);
    assert_eq!(again.expect("the least is enough").merges, learned.merges);
    let model = Model::from_learned(learned, Pattern::Gpt2);
    let ids = Encoder::new(&model).encode(data, SpecialTokens::AsText).expect("all bytes have tokens");
    assert_eq!(model.decode(&ids, UnknownIds::Refuse).expect("known ids"), data);
});
