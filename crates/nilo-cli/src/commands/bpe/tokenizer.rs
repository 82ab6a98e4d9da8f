//! A tokenizer from wherever it lies: a folder of ours, a `tokenizer.json`, a file of tiktoken ranks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nilo_tokenizer::Pattern;
use nilo_tokenizer::model::{Model, ModelError, RanksInfo};

use super::texts::pattern;
use crate::failure::Failure;

const HUGGING_FACE: &str = "tokenizer.json";

/// The files that a tokenizer may be read from.
pub(super) fn files(path: &Path) -> [PathBuf; 3] {
    let beside = path.with_extension("json");
    [path.to_owned(), path.join(HUGGING_FACE), beside]
}

/// Reads a tokenizer; `asked` is the pattern that the user gave for files that do not say theirs.
pub(super) fn read(path: &Path, asked: Option<&str>) -> Result<Model, Failure> {
    let inside = path.join(HUGGING_FACE);
    let path = if path.is_dir() { &inside } else { path };
    let about = |error: ModelError| {
        Failure::from(error)
            .hint("--tokenizer takes a folder of `nilo bpe train`, a tokenizer.json, or a file of tiktoken ranks")
    };
    let bytes = Model::read_file(path).map_err(about)?;
    if path
        .extension()
        .is_some_and(|extension| extension == "json")
    {
        return Model::from_tokenizer_json(&bytes).map_err(about);
    }
    let beside = path.with_extension("json");
    if asked.is_none() && beside.exists() {
        let info = Model::read_file(&beside).map_err(about)?;
        let info: RanksInfo = serde_json::from_slice(&info).map_err(|error| {
            Failure::new(format!(
                "{} does not describe tiktoken ranks: {error}",
                beside.display()
            ))
            .hint("name the pattern that splits text into words, such as --pattern cl100k")
        })?;
        let pattern = Pattern::from_ranks(&info.pat_str)?;
        return Model::from_ranks(&bytes, &info.special_tokens, pattern).map_err(about);
    }
    let Some(asked) = asked else {
        return Err(Failure::new(
            "a file of tiktoken ranks does not say how text is split into words",
        )
        .hint("set it with --pattern, such as --pattern cl100k"));
    };
    Model::from_ranks(&bytes, &BTreeMap::new(), pattern(asked)?).map_err(about)
}
