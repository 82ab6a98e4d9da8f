//! What is written is read again as it was, and what is not well formed is refused in one sentence.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeMap;

use nilo_tokenizer::Pattern;
use nilo_tokenizer::encode::{Encoder, SpecialTokens};
use nilo_tokenizer::merge::{Alphabet, MergeOptions};
use nilo_tokenizer::model::{Model, ModelError};
use support::{model, sample_text};

fn options(size: usize, specials: &[&str]) -> MergeOptions {
    MergeOptions {
        vocabulary_size: size,
        special_tokens: specials.iter().map(|&token| token.to_owned()).collect(),
        ..MergeOptions::default()
    }
}

fn patterns() -> Vec<Pattern> {
    vec![
        Pattern::Gpt2,
        Pattern::Cl100k,
        Pattern::O200k,
        Pattern::None,
        r"\w+|\W".parse().unwrap(),
    ]
}

#[test]
fn every_form_is_read_again_as_it_was_written() {
    let text = sample_text();
    for pattern in patterns() {
        let options = options(900, &["<|endoftext|>", "<pad é 漢>"]);
        let model = model(&text, pattern.clone(), &options);
        let json = Model::from_tokenizer_json(model.to_tokenizer_json().as_bytes()).unwrap();
        assert_eq!(json, model);
        let (vocabulary, merges) = (model.to_vocab_json(), model.to_merges_txt());
        let specials = &options.special_tokens;
        let pair = Model::from_vocab_merges(
            vocabulary.as_bytes(),
            merges.as_bytes(),
            specials,
            pattern.clone(),
        )
        .unwrap();
        assert_eq!(pair, model);
        let (ranks, info) = model.to_ranks().unwrap();
        let ranked =
            Model::from_ranks(ranks.as_bytes(), &info.special_tokens, pattern.clone()).unwrap();
        assert_eq!(info.explicit_n_vocab, model.vocabulary_size());
        for id in 0..model.vocabulary_size() as u32 {
            assert_eq!(ranked.token(id), model.token(id));
        }
        let ids = |model: &Model| {
            Encoder::new(model)
                .encode(&text, SpecialTokens::Recognise)
                .unwrap()
        };
        assert_eq!(ids(&ranked), ids(&model));
    }
}

#[test]
fn a_special_token_that_is_a_merge_too_is_kept_by_all_forms_but_ranks() {
    let text = b"cat\nthe cat sat on the cat\ncat\n".repeat(20);
    let options = options(290, &["cat", "a"]);
    let model = model(&text, Pattern::Gpt2, &options);
    assert!(
        model.joins().iter().any(|join| join.joined == 0),
        "a merge leads to the special token"
    );
    assert_eq!(
        Model::from_tokenizer_json(model.to_tokenizer_json().as_bytes()).unwrap(),
        model
    );
    let error = model.to_ranks().unwrap_err();
    assert!(matches!(error, ModelError::NoRanks { .. }), "{error}");
    assert!(
        error
            .to_string()
            .starts_with("ranks for tiktoken cannot hold this model: "),
        "{error}"
    );
}

#[test]
fn ranks_need_all_bytes() {
    let options = MergeOptions {
        alphabet: Alphabet::Seen,
        vocabulary_size: 20,
        ..MergeOptions::default()
    };
    let error = model(b"aab aab aab", Pattern::Gpt2, &options)
        .to_ranks()
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "ranks for tiktoken cannot hold this model: byte 0x00 has no token"
    );
}

#[test]
fn files_are_whole_and_nothing_else_is_left_in_the_folder() {
    let model = model(
        &sample_text(),
        Pattern::Gpt2,
        &options(600, &["<|endoftext|>"]),
    );
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("made/for/it");
    let mut paths = model.save(&inner).unwrap().paths;
    let mut names: Vec<_> = std::fs::read_dir(&inner)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    names.sort();
    paths.sort();
    assert_eq!(names, paths);
    let read = Model::read_file(&inner.join("tokenizer.json")).unwrap();
    assert_eq!(Model::from_tokenizer_json(&read).unwrap(), model);
    let info: serde_json::Value =
        serde_json::from_slice(&std::fs::read(inner.join("ranks.json")).unwrap()).unwrap();
    assert_eq!(info["special_tokens"]["<|endoftext|>"], 0);
}

#[test]
fn ranks_of_another_model_do_not_stay_beside_one_that_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let whole = model(b"a b", Pattern::Gpt2, &options(256, &[]));
    assert!(whole.save(folder.path()).unwrap().no_ranks.is_none());
    let seen_only = MergeOptions {
        alphabet: Alphabet::Seen,
        ..options(256, &[])
    };
    let saved = model(b"a b", Pattern::Gpt2, &seen_only)
        .save(folder.path())
        .unwrap();
    assert!(matches!(saved.no_ranks, Some(ModelError::NoRanks { .. })));
    assert!(!folder.path().join("ranks.tiktoken").exists());
    assert!(!folder.path().join("ranks.json").exists());
}

#[test]
fn the_gaps_of_a_pattern_are_words_for_tiktoken_too() {
    let model = model(b"ab 12 cd", "[a-z]+".parse().unwrap(), &options(256, &[]));
    let (_, info) = model.to_ranks().unwrap();
    assert_eq!(info.pat_str, r"(?:[a-z]+)|(?:(?!(?:[a-z]+))[\s\S])+");
    assert_eq!(
        Pattern::from_ranks(&info.pat_str).unwrap(),
        *model.pattern()
    );
    let spans = |regex: &str| {
        let pattern = Pattern::Custom(nilo_tokenizer::CustomPattern::new(regex).unwrap());
        let mut found = Vec::new();
        let visit = |start, end| found.push((start, end));
        pattern
            .for_each_span("ab 12é cd!".as_bytes(), visit)
            .unwrap();
        found
    };
    assert_eq!(spans(&info.pat_str), spans("[a-z]+"));
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error_with_its_path() {
    let model = model(b"a b", Pattern::Gpt2, &options(256, &[]));
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = model.save(&file.path().join("x")).unwrap_err();
    assert!(matches!(error, ModelError::Write { .. }), "{error}");
    assert!(matches!(
        Model::read_file(&file.path().join("x")),
        Err(ModelError::Read { .. })
    ));
}

#[test]
fn what_is_not_well_formed_is_refused_in_one_sentence() {
    let good = model(b"aa aa ab", Pattern::Gpt2, &options(258, &["<s>"])).to_tokenizer_json();
    let change = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replace(from, to)
    };
    for (text, says) in [
        (String::new(), "not well formed"),
        ("{".repeat(100_000), "not well formed"),
        (
            change(r#""type":"BPE""#, r#""type":"Unigram""#),
            "a model of type Unigram",
        ),
        (
            change(r#""ignore_merges":false"#, r#""ignore_merges":true"#),
            "whole words before merges",
        ),
        (
            change(r#""normalizer":null"#, r#""normalizer":{"type":"NFC"}"#),
            "a normalizer",
        ),
        (
            change(r#""add_prefix_space":false"#, r#""add_prefix_space":true"#),
            "add_prefix_space",
        ),
        (
            change(r#""merges":[["#, r#""merges":[["zz","a"],["#),
            "needs the token zz",
        ),
        (
            change(r#""merges":[["#, r#""merges":["nospace",["#),
            "not two tokens",
        ),
        (change(r#""!":1"#, r#""!":4000000000"#), "too high"),
        (change(r#""!":1"#, r#""!":2"#), "two tokens"),
        (change(r#""!":1"#, r#""":1"#), "is empty"),
    ] {
        let error = Model::from_tokenizer_json(text.as_bytes())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(says) && !error.contains('\n'),
            "{says}: {error}"
        );
    }
    let none = BTreeMap::new();
    for (text, says) in [
        (&b"YQ== 0\nYQ== 1\n"[..], "came before"),
        (b"YQ==", "line 1 is not a token"),
        (b"YQ 0", "line 1 is not a token"),
        (b"YQ== 4000000000", "too high"),
        (b"YQ== 0\nYg== 0", "two tokens"),
        (b"\xff", "not well formed"),
        (b" 3", "is empty"),
    ] {
        let error = Model::from_ranks(text, &none, Pattern::Gpt2)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(says) && !error.contains('\n'),
            "{says}: {error}"
        );
    }
    let error = Model::from_vocab_merges(b"{\"a\":0}", b"#version: 0.2\na", &[], Pattern::Gpt2)
        .unwrap_err();
    assert!(
        error.to_string().contains("line 2 is not two tokens"),
        "{error}"
    );
    let error = Model::from_vocab_merges(b"{\"a\":0}", b"", &["<s>".to_owned()], Pattern::Gpt2)
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the special token <s> is not in it"),
        "{error}"
    );
}
