//! Any bytes as a tokenizer's file: refused in one sentence or read, and what is read encodes and decodes.
//!
//! The first byte chooses the form. Seeds: `fuzz/seed.sh` writes small files of each form.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use nilo_tokenizer::Pattern;
use nilo_tokenizer::encode::{Encoder, SpecialTokens, UnknownIds};
use nilo_tokenizer::model::Model;

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
            let again = Model::from_tokenizer_json(model.to_tokenizer_json().as_bytes());
            let _ = (again, model.to_ranks().is_ok());
        }
    }
});
