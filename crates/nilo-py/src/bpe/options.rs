//! The options of a training, read from the attributes of `nilometer.bpe`'s dataclass.

use std::path::PathBuf;

use nilo_tokenizer::merge::{Alphabet, MergeError, MergeOptions, TieBreak};
use nilo_tokenizer::{CountSettings, Documents, ResourceLimits, TextFormat};
use pyo3::prelude::*;

use super::failure::BpeFailure;
use super::memory_size::{MemorySize, allowance};

const BYTES: usize = 256;

/// What the user asked for.
#[derive(FromPyObject)]
pub(super) struct BpeOptions {
    special_tokens: Vec<String>,
    keep_special_tokens: bool,
    pattern: String,
    lines: bool,
    separator: Option<String>,
    jsonl: Option<String>,
    tie_break: String,
    min_frequency: u64,
    max_token_length: Option<usize>,
    seen_bytes_only: bool,
    memory_budget: Option<MemorySize>,
    threads: Option<usize>,
    temp_dir: Option<PathBuf>,
}

impl BpeOptions {
    fn allowance(&self) -> Result<ResourceLimits, BpeFailure> {
        allowance(self.threads, self.memory_budget.as_ref())
    }

    pub(super) fn count_settings(&self) -> Result<CountSettings, BpeFailure> {
        self.check_special_tokens()?;
        let allowance = self.allowance()?;
        let settings = CountSettings {
            pattern: self.pattern.parse()?,
            threads: allowance.threads,
            memory_budget_bytes: allowance.for_counting(),
            spill_folder: self.temp_dir.clone(),
            ..CountSettings::default()
        };
        settings.check_spill_folder()?;
        Ok(settings)
    }

    /// How files hold documents.
    pub(super) fn text_format(&self) -> TextFormat {
        let documents = match (&self.separator, &self.jsonl) {
            (_, Some(field)) => Documents::JsonLines {
                field: field.clone(),
            },
            (Some(separator), None) => Documents::Separated(separator.clone()),
            (None, None) if self.lines => Documents::Lines,
            (None, None) => Documents::Files,
        };
        let cut_out = self.cut_out();
        TextFormat { documents, cut_out }
    }

    /// Special tokens that are not trained on as text.
    pub(super) fn cut_out(&self) -> Vec<String> {
        match self.keep_special_tokens {
            true => Vec::new(),
            false => self.special_tokens.clone(),
        }
    }

    pub(super) fn merge_options(&self, vocabulary_size: usize) -> Result<MergeOptions, BpeFailure> {
        let allowance = self.allowance()?;
        Ok(MergeOptions {
            vocabulary_size,
            special_tokens: self.special_tokens.clone(),
            min_frequency: self.min_frequency,
            max_token_length: self.max_token_length,
            tie_break: match self.tie_break.as_str() {
                "hf" => TieBreak::HuggingFace,
                "gpt2-bytes" => TieBreak::Gpt2Bytes,
                other => {
                    let text = format!("tie_break is 'hf' or 'gpt2-bytes', not {other:?}");
                    return Err(BpeFailure::value(text, None));
                }
            },
            alphabet: match self.seen_bytes_only {
                true => Alphabet::Seen,
                false => Alphabet::AllBytes,
            },
            threads: allowance.threads,
            memory_budget_bytes: allowance.for_merging(),
        })
    }

    /// Says before hours of counting that nothing could be learnt.
    pub(super) fn check(&self, vocabulary_size: usize) -> Result<(), BpeFailure> {
        self.check_special_tokens()?;
        self.merge_options(vocabulary_size)?;
        let specials = self.special_tokens.len();
        let needed = specials + BYTES;
        if !self.seen_bytes_only && vocabulary_size < needed {
            return Err(BpeFailure::from(MergeError::VocabularyTooSmall {
                wanted: vocabulary_size,
                specials,
                bytes: BYTES,
                needed,
            }));
        }
        Ok(())
    }

    fn check_special_tokens(&self) -> Result<(), BpeFailure> {
        for (place, token) in self.special_tokens.iter().enumerate() {
            if token.is_empty() {
                let number = place + 1;
                return Err(MergeError::EmptySpecialToken { number }.into());
            }
            if self.special_tokens[..place].contains(token) {
                let token = token.clone();
                return Err(MergeError::DoubledSpecialToken { token }.into());
            }
        }
        Ok(())
    }
}
