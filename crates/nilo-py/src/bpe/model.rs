//! A tokenizer: texts to ids and back, and the files that other libraries read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use nilo_tokenizer::Pattern;
use nilo_tokenizer::encode::{EncodeError, Encoder, Scratch, SpecialTokens, UnknownIds};
use nilo_tokenizer::model::{Model, ModelError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::failure::BpeFailure;
use super::texts::bytes_of;
use crate::errors::{sentence, value_error};

/// Text that is encoded on one thread.
const LONG_TEXT_BYTES: usize = 1 << 20;
/// Text of a batch between two looks for signals.
const BATCH_BYTES: usize = 16 << 20;

/// A tokenizer.
#[pyclass(frozen, module = "nilometer._native")]
pub(crate) struct BpeModel {
    model: Model,
    encoder: OnceLock<Encoder>,
    /// Words met before, one set for each thread that encodes at the same time.
    scratches: Mutex<Vec<Scratch>>,
}

#[pymethods]
impl BpeModel {
    /// Reads a `tokenizer.json`.
    #[staticmethod]
    fn read_tokenizer_json(py: Python<'_>, text: &[u8]) -> PyResult<BpeModel> {
        let read = py.detach(|| Model::from_tokenizer_json(text));
        Ok(BpeModel::new(read.map_err(BpeFailure::from)?))
    }

    /// Reads `vocab.json` and `merges.txt`.
    #[staticmethod]
    fn read_vocab_merges(
        py: Python<'_>,
        vocab: PathBuf,
        merges: PathBuf,
        special_tokens: Vec<String>,
        pattern: &str,
    ) -> PyResult<BpeModel> {
        let read = py.detach(|| -> Result<Model, BpeFailure> {
            let (vocab, merges) = (Model::read_file(&vocab)?, Model::read_file(&merges)?);
            let pattern: Pattern = pattern.parse()?;
            Ok(Model::from_vocab_merges(
                &vocab,
                &merges,
                &special_tokens,
                pattern,
            )?)
        });
        Ok(BpeModel::new(read?))
    }

    /// Reads ranks for tiktoken, with the special tokens and the pattern that tiktoken takes besides.
    #[staticmethod]
    fn read_ranks(
        py: Python<'_>,
        ranks: PathBuf,
        special_tokens: BTreeMap<String, u32>,
        pattern: &str,
    ) -> PyResult<BpeModel> {
        let read = py.detach(|| -> Result<Model, BpeFailure> {
            let bytes = Model::read_file(&ranks)?;
            let pattern = Pattern::from_ranks(pattern)?;
            Ok(Model::from_ranks(&bytes, &special_tokens, pattern)?)
        });
        Ok(BpeModel::new(read?))
    }

    #[getter]
    fn vocab_size(&self) -> usize {
        self.model.vocabulary_size()
    }

    /// The pattern's name, or its regular expression.
    #[getter]
    fn pattern(&self) -> String {
        self.model.pattern().to_string()
    }

    /// Special tokens and their ids.
    fn special_tokens(&self) -> BTreeMap<String, u32> {
        let specials = self.model.special_tokens().iter();
        specials
            .map(|token| (token.text.clone(), token.id))
            .collect()
    }

    /// The bytes of each id; None for an id without a token.
    fn tokens<'py>(&self, py: Python<'py>) -> Vec<Option<Bound<'py, PyBytes>>> {
        let ids = 0..self.model.vocabulary_size() as u32;
        ids.map(|id| Some(PyBytes::new(py, self.model.token(id)?)))
            .collect()
    }

    fn tokenizer_json(&self, py: Python<'_>) -> String {
        py.detach(|| self.model.to_tokenizer_json())
    }

    fn vocab_json(&self, py: Python<'_>) -> String {
        py.detach(|| self.model.to_vocab_json())
    }

    fn merges_txt(&self, py: Python<'_>) -> String {
        py.detach(|| self.model.to_merges_txt())
    }

    /// Writes every form that another library reads; gives the paths, and why there are no ranks if there are none.
    fn save(&self, py: Python<'_>, folder: PathBuf) -> PyResult<(Vec<PathBuf>, Option<String>)> {
        Ok(py
            .detach(|| self.save_all(&folder))
            .map_err(BpeFailure::from)?)
    }

    /// The ids of a text.
    #[pyo3(signature = (text, special_tokens, threads=None))]
    fn encode(
        &self,
        py: Python<'_>,
        text: &Bound<'_, PyAny>,
        special_tokens: bool,
        threads: Option<usize>,
    ) -> PyResult<Vec<u32>> {
        let text = bytes_of(text)?;
        let specials = mode(special_tokens);
        let ids = py.detach(|| match text.len() {
            0..LONG_TEXT_BYTES => self.encode_short(text, specials),
            _ => {
                let pieces = self
                    .encoder()
                    .encode_parallel(text, specials, cores(threads))?;
                Ok(pieces.concat())
            }
        });
        Ok(ids.map_err(BpeFailure::from)?)
    }

    /// The ids of each text, on several threads.
    #[pyo3(signature = (texts, special_tokens, threads=None))]
    fn encode_batch(
        &self,
        py: Python<'_>,
        texts: Vec<Bound<'_, PyAny>>,
        special_tokens: bool,
        threads: Option<usize>,
    ) -> PyResult<Vec<Vec<u32>>> {
        let texts = texts.iter().map(bytes_of).collect::<PyResult<Vec<_>>>()?;
        let (specials, threads) = (mode(special_tokens), cores(threads));
        let mut all = Vec::with_capacity(texts.len());
        let mut rest = &texts[..];
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |text: &&[u8]| {
                bytes += text.len();
                bytes <= BATCH_BYTES
            };
            let count = rest.iter().copied().take_while(fits).count().max(1);
            let (batch, later) = rest.split_at(count);
            let encode = || self.encoder().encode_batch(batch, specials, threads);
            all.extend(py.detach(encode).map_err(BpeFailure::from)?);
            py.check_signals()?;
            rest = later;
        }
        Ok(all)
    }

    /// The bytes that ids stand for.
    #[pyo3(signature = (ids, skip_unknown=false))]
    fn decode<'py>(
        &self,
        py: Python<'py>,
        ids: Vec<u32>,
        skip_unknown: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let unknown = match skip_unknown {
            true => UnknownIds::Skip,
            false => UnknownIds::Refuse,
        };
        let bytes = py.detach(|| self.model.decode(&ids, unknown));
        let bytes = bytes.map_err(|error| value_error(sentence(&error)))?;
        Ok(PyBytes::new(py, &bytes))
    }
}

impl BpeModel {
    pub(super) fn new(model: Model) -> BpeModel {
        BpeModel {
            model,
            encoder: OnceLock::new(),
            scratches: Mutex::default(),
        }
    }

    fn encoder(&self) -> &Encoder {
        self.encoder.get_or_init(|| Encoder::new(&self.model))
    }

    fn encode_short(&self, text: &[u8], specials: SpecialTokens) -> Result<Vec<u32>, EncodeError> {
        let kept = || {
            self.scratches
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let mut scratch = kept().pop().unwrap_or_default();
        let mut ids = Vec::new();
        let encoded = self
            .encoder()
            .encode_into(text, specials, &mut scratch, &mut ids);
        kept().push(scratch);
        encoded.map(|()| ids)
    }

    fn save_all(&self, folder: &Path) -> Result<(Vec<PathBuf>, Option<String>), ModelError> {
        let saved = self.model.save(folder)?;
        Ok((saved.paths, saved.no_ranks.map(|error| sentence(&error))))
    }
}

fn mode(special_tokens: bool) -> SpecialTokens {
    match special_tokens {
        true => SpecialTokens::Recognise,
        false => SpecialTokens::AsText,
    }
}

fn cores(threads: Option<usize>) -> usize {
    threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}
