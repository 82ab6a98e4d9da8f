//! Errors of the tokenizer as Python exceptions: the library's sentence, and the way out on a line of its own.

use std::io;

use nilo_tokenizer::encode::EncodeError;
use nilo_tokenizer::merge::{MergeError, ReadWordsError};
use nilo_tokenizer::model::ModelError;
use nilo_tokenizer::{CorpusError, CountError, PatternError};
use pyo3::exceptions::{
    PyFileNotFoundError, PyInterruptedError, PyOSError, PyPermissionError, PyValueError,
};
use pyo3::prelude::*;

use crate::errors::sentence;

/// Made on a thread without Python, raised on one with it.
pub(super) struct BpeFailure {
    kind: Kind,
    text: String,
    hint: Option<&'static str>,
}

#[derive(Clone, Copy)]
enum Kind {
    Value,
    System(io::ErrorKind),
    /// Only to be seen where nobody says why it was stopped.
    Stopped,
}

impl BpeFailure {
    pub(super) fn value(text: impl Into<String>, hint: Option<&'static str>) -> BpeFailure {
        BpeFailure {
            kind: Kind::Value,
            text: text.into(),
            hint,
        }
    }

    pub(super) fn stopped() -> BpeFailure {
        BpeFailure {
            kind: Kind::Stopped,
            text: "the work was stopped".to_owned(),
            hint: None,
        }
    }

    pub(super) fn is_stop(&self) -> bool {
        matches!(self.kind, Kind::Stopped)
    }
}

impl From<BpeFailure> for PyErr {
    fn from(failure: BpeFailure) -> PyErr {
        let text = match failure.hint {
            Some(hint) => format!("{}\nhint: {hint}", failure.text),
            None => failure.text,
        };
        match failure.kind {
            Kind::Value => PyValueError::new_err(text),
            Kind::System(io::ErrorKind::NotFound) => PyFileNotFoundError::new_err(text),
            Kind::System(io::ErrorKind::PermissionDenied) => PyPermissionError::new_err(text),
            Kind::System(_) => PyOSError::new_err(text),
            Kind::Stopped => PyInterruptedError::new_err(text),
        }
    }
}

impl From<CountError> for BpeFailure {
    fn from(error: CountError) -> BpeFailure {
        let kind = match &error {
            CountError::Spill { source, .. }
            | CountError::Write { source, .. }
            | CountError::Read { source, .. }
            | CountError::Corpus(CorpusError::Read { source, .. }) => Kind::System(source.kind()),
            CountError::Corpus(CorpusError::NotFound { .. }) => {
                Kind::System(io::ErrorKind::NotFound)
            }
            _ => Kind::Value,
        };
        let hint = match &error {
            CountError::Corpus(CorpusError::Empty { .. }) => Some("pass files that contain text"),
            CountError::Corpus(CorpusError::NotFound { .. }) => {
                Some("check the spelling of the path; train_from_iterator takes texts")
            }
            other => other.hint(),
        };
        let text = sentence(&error);
        BpeFailure { kind, text, hint }
    }
}

impl From<CorpusError> for BpeFailure {
    fn from(error: CorpusError) -> BpeFailure {
        CountError::from(error).into()
    }
}

impl From<MergeError> for BpeFailure {
    fn from(error: MergeError) -> BpeFailure {
        let hint = match &error {
            MergeError::Stopped { .. } => return BpeFailure::stopped(),
            MergeError::VocabularyTooSmall { .. } => Some(
                "raise vocab_size, or use seen_bytes_only=True to give tokens only to bytes that occur",
            ),
            MergeError::EmptySpecialToken { .. } => Some("give it a text, such as '<|endoftext|>'"),
            MergeError::DoubledSpecialToken { .. } => Some("name it once: a token has one id"),
            MergeError::BudgetTooSmall { .. } => Some("raise memory_budget"),
            _ => None,
        };
        BpeFailure::value(sentence(&error), hint)
    }
}

impl From<ReadWordsError<CountError>> for BpeFailure {
    fn from(error: ReadWordsError<CountError>) -> BpeFailure {
        match error {
            ReadWordsError::Source(error) => error.into(),
            ReadWordsError::Merge(error) => error.into(),
        }
    }
}

impl From<PatternError> for BpeFailure {
    fn from(error: PatternError) -> BpeFailure {
        BpeFailure::value(sentence(&error), Some(error.hint()))
    }
}

impl From<EncodeError> for BpeFailure {
    fn from(error: EncodeError) -> BpeFailure {
        let hint = match &error {
            EncodeError::NoToken { .. } => "train without seen_bytes_only",
            EncodeError::Pattern(error) => error.hint(),
        };
        BpeFailure::value(sentence(&error), Some(hint))
    }
}

impl From<ModelError> for BpeFailure {
    fn from(error: ModelError) -> BpeFailure {
        let kind = match &error {
            ModelError::Read { source, .. } | ModelError::Write { source, .. } => {
                Kind::System(source.kind())
            }
            _ => Kind::Value,
        };
        let text = sentence(&error);
        let hint = None;
        BpeFailure { kind, text, hint }
    }
}
