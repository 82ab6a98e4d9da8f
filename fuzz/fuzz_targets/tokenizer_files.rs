//! Any bytes as a tokenizer's file: refused in one sentence or read, and what is read encodes as the textbook does and decodes.
//!
//! The first byte chooses the form. Seeds: `fuzz/seed.sh` writes small files of each form.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use nilo_tokenizer::Pattern;
use nilo_tokenizer::encode::{Encoder, SpecialTokens, UnknownIds};
use nilo_tokenizer::model::Model;

/// The ids of a word the obvious way, where its bytes have tokens: the lowest rank first, of one rank the leftmost.
fn textbook(model: &Model, word: &[u8]) -> Option<Vec<u32>> {
    let specials: Vec<u32> = model.special_tokens().iter().map(|special| special.id).collect();
    let id_of = |byte: u8| {
        let ids = (0..model.vocabulary_size() as u32).filter(|&id| model.token(id) == Some(&[byte]));
        ids.min_by_key(|id| (specials.contains(id), *id))
    };
    let mut ids = word.iter().map(|&byte| id_of(byte)).collect::<Option<Vec<u32>>>()?;
    // Of two merges of one pair the last has its rank.
    let join_at = |ids: &[u32], index: usize| {
        let mut joins = model.joins().iter().rev();
        joins.find(|join| (join.left, join.right) == (ids[index], ids[index + 1]))
    };
    loop {
        let ranks = (1..ids.len()).filter_map(|index| Some((join_at(&ids, index - 1)?.rank, index - 1)));
        let Some((_, index)) = ranks.min() else {
            return Some(ids);
        };
        let joined = join_at(&ids, index)?.joined;
        ids.splice(index..index + 2, [joined]);
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((choice, bytes)) = data.split_first() else {
        return;
    };
    let read = match choice % 3 {
        0 => Model::from_tokenizer_json(bytes),
        1 => {
            let middle = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
            let merges = bytes.get(middle + 1..).unwrap_or_default();
            Model::from_vocab_merges(&bytes[..middle], merges, &[], Pattern::Gpt2)
        }
        _ => Model::from_ranks(bytes, &BTreeMap::from([("<s>".to_owned(), 3)]), Pattern::Cl100k),
    };
    match read {
        Err(error) => assert!(!error.to_string().contains('\n'), "one sentence: {error}"),
        Ok(model) => {
            let encoder = Encoder::new(&model);
            for text in [&b"abcab <s> aa"[..], bytes] {
                if let Ok(ids) = encoder.encode(text, SpecialTokens::AsText) {
                    assert!(model.decode(&ids, UnknownIds::Refuse).is_ok());
                }
            }
            let text = &bytes[bytes.len().saturating_sub(40)..];
            for text in [&b"abababaabbaab"[..], b"aaaaaaaaaaa", text] {
                let mut expected = Some(Vec::new());
                let words = model.pattern().for_each_word(text, |word| {
                    let ids = textbook(&model, word);
                    expected = expected.take().zip(ids).map(|(all, ids)| [all, ids].concat());
                });
                if words.is_ok() {
                    assert_eq!(encoder.encode(text, SpecialTokens::AsText).ok(), expected);
                }
            }
            let again = Model::from_tokenizer_json(model.to_tokenizer_json().as_bytes());
            let _ = (again, model.to_ranks().is_ok());
        }
    }
});
