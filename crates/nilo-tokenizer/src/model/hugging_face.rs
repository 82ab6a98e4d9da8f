//! Hugging Face's `tokenizer.json`.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::error::malformed;
use super::vocab_merges::from_written;
use super::{MOST_FILE_BYTES, Model, ModelError, SpecialToken};
use crate::Pattern;

const WHAT: &str = "tokenizer.json";

impl Model {
    /// The whole tokenizer as Hugging Face `tokenizers` reads it.
    #[must_use]
    pub fn to_tokenizer_json(&self) -> String {
        let byte_level = |use_regex: bool| json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex});
        let pre_tokenizer = match (&self.pattern, self.pattern.regex()) {
            (Pattern::Gpt2, _) => byte_level(true),
            (_, None) => byte_level(false),
            (_, Some(regex)) => json!({
                "type": "Sequence",
                "pretokenizers": [
                    {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false},
                    byte_level(false),
                ],
            }),
        };
        let added: Vec<Value> = self
            .special_tokens
            .iter()
            .map(|special| {
                json!({
                    "id": special.id, "content": special.text, "single_word": false, "lstrip": false,
                    "rstrip": false, "normalized": false, "special": true,
                })
            })
            .collect();
        let merges: Vec<[String; 2]> = self.written_joins().collect();
        // The vocabulary is written in the order of ids, which a map of `serde_json` does not keep.
        let head = json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
            "pre_tokenizer": pre_tokenizer, "post_processor": null, "decoder": byte_level(true),
        });
        let mut text = head.to_string();
        text.pop();
        text.push_str(concat!(
            r#","model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,"#,
            r#""end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":false,"vocab":"#
        ));
        text.push_str(&self.to_vocab_json());
        text.push_str(r#","merges":"#);
        text.push_str(
            &Value::from(merges.into_iter().map(Value::from).collect::<Vec<_>>()).to_string(),
        );
        text.push_str("}}");
        text
    }

    /// Reads a byte-level BPE tokenizer.
    pub fn from_tokenizer_json(text: &[u8]) -> Result<Self, ModelError> {
        if text.len() > MOST_FILE_BYTES {
            return Err(ModelError::TooLarge {
                what: WHAT,
                most: MOST_FILE_BYTES,
            });
        }
        let file: TokenizerJson =
            serde_json::from_slice(text).map_err(|error| malformed(WHAT, error.to_string()))?;
        file.model.check()?;
        if !file.normalizer.is_null() {
            return Err(unsupported("a normalizer"));
        }
        let pattern = pattern_of(&file.pre_tokenizer)?;
        let mut vocabulary = file.model.vocab;
        let mut special_tokens = Vec::new();
        for added in file.added_tokens {
            if added.single_word || added.lstrip || added.rstrip {
                return Err(unsupported("added tokens that strip spaces or stand alone"));
            }
            if added.content.is_empty() {
                return Err(malformed(WHAT, "an added token is empty"));
            }
            if vocabulary
                .insert(added.content.clone(), added.id)
                .is_some_and(|id| id != added.id)
            {
                return Err(malformed(
                    WHAT,
                    format!("the token {} has two ids", added.content),
                ));
            }
            special_tokens.push(SpecialToken {
                id: added.id,
                text: added.content,
            });
        }
        let merges = file
            .model
            .merges
            .into_iter()
            .map(MergeEntry::halves)
            .collect::<Option<Vec<_>>>();
        let merges = merges.ok_or_else(|| malformed(WHAT, "a merge is not two tokens"))?;
        from_written(WHAT, &vocabulary, &merges, special_tokens, pattern)
    }
}

fn unsupported(what: impl Into<String>) -> ModelError {
    ModelError::Unsupported { what: what.into() }
}

#[derive(Deserialize)]
struct TokenizerJson {
    #[serde(default)]
    added_tokens: Vec<Added>,
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    model: HuggingFaceModel,
}

#[derive(Deserialize)]
struct Added {
    id: u32,
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
}

#[derive(Deserialize)]
struct HuggingFaceModel {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    dropout: Option<f64>,
    #[serde(default)]
    unk_token: Option<String>,
    #[serde(default)]
    continuing_subword_prefix: Option<String>,
    #[serde(default)]
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    ignore_merges: bool,
    vocab: HashMap<String, u32>,
    merges: Vec<MergeEntry>,
}

impl HuggingFaceModel {
    fn check(&self) -> Result<(), ModelError> {
        if let Some(kind) = self.kind.as_deref().filter(|&kind| kind != "BPE") {
            let kind: String = kind
                .chars()
                .take(40)
                .filter(|char| !char.is_control())
                .collect();
            return Err(unsupported(format!("a model of type {kind}")));
        }
        let filled = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        let uses = [
            (self.dropout.is_some_and(|dropout| dropout > 0.0), "dropout"),
            (filled(&self.unk_token), "an unknown token"),
            (
                filled(&self.continuing_subword_prefix),
                "a prefix for parts of words",
            ),
            (
                filled(&self.end_of_word_suffix),
                "a suffix for ends of words",
            ),
            (self.byte_fallback, "byte fallback"),
            (self.ignore_merges, "whole words before merges"),
        ];
        uses.iter()
            .find(|(used, _)| *used)
            .map_or(Ok(()), |(_, what)| Err(unsupported(*what)))
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum MergeEntry {
    Halves([String; 2]),
    Line(String),
}

impl MergeEntry {
    fn halves(self) -> Option<[String; 2]> {
        match self {
            MergeEntry::Halves(halves) => Some(halves),
            MergeEntry::Line(line) => line
                .split_once(' ')
                .map(|(left, right)| [left.to_owned(), right.to_owned()]),
        }
    }
}

/// The pattern that a pre-tokenizer comes to.
fn pattern_of(pre_tokenizer: &Value) -> Result<Pattern, ModelError> {
    let other = || unsupported("a pre-tokenizer other than ByteLevel, alone or after one Split");
    let byte_level = |part: &Value| -> Result<bool, ModelError> {
        if part["type"] != "ByteLevel" {
            return Err(other());
        }
        if part["add_prefix_space"].as_bool().unwrap_or(true) {
            return Err(unsupported("a space before each text (add_prefix_space)"));
        }
        Ok(part["use_regex"].as_bool().unwrap_or(true))
    };
    let regex = match pre_tokenizer["pretokenizers"].as_array().map(Vec::as_slice) {
        None if byte_level(pre_tokenizer)? => return Ok(Pattern::Gpt2),
        None => return Ok(Pattern::None),
        Some([split, bytes]) if split["type"] == "Split" && !byte_level(bytes)? => {
            if split["behavior"] != "Isolated" || split["invert"].as_bool().unwrap_or(false) {
                return Err(other());
            }
            split["pattern"]["Regex"].as_str().ok_or_else(other)?
        }
        Some(_) => return Err(other()),
    };
    if regex == "none" || regex == "gpt2" || regex == "cl100k" || regex == "o200k" {
        return Err(unsupported(format!("the pattern {regex:?}")));
    }
    regex
        .parse()
        .map_err(|error: crate::PatternError| malformed(WHAT, error.to_string()))
}
