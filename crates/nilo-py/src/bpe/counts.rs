//! Counted words: made from files or an iterator, kept in a file, and learnt from.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nilo_tokenizer::merge::{MergeOptions, Words};
use nilo_tokenizer::model::Model;
use nilo_tokenizer::{
    Corpus, CorpusTotals, CountError, CountOutcome, Counts, CountsReader, DocumentCounter,
    MergedCounts, Pattern, Recipe, WholeFile, WordSource, count, resume,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::failure::BpeFailure;
use super::job::{self, JobProgress};
use super::model::BpeModel;
use super::options::BpeOptions;
use super::texts;

/// Text of an iterator that is gathered before it is counted without the GIL.
const BATCH_BYTES: usize = 1 << 20;

/// The words of a corpus with their counts.
#[pyclass(frozen, module = "nilometer._native")]
pub(crate) struct BpeCounts {
    source: Mutex<CountSource>,
    totals: Mutex<CorpusTotals>,
    recipe: Recipe,
}

/// Where the words are.
enum CountSource {
    /// In memory, or spilled to disk; they are given back while being learnt from.
    Counted(Box<Counts>),
    /// In files of counts, which can be read many times.
    Files(Vec<PathBuf>),
    /// They were learnt from.
    Gone,
}

#[pymethods]
impl BpeCounts {
    /// Raises what is wrong with the options before anything is counted.
    #[staticmethod]
    fn check(vocab_size: usize, options: BpeOptions) -> PyResult<()> {
        Ok(options.check(vocab_size)?)
    }

    /// Raises before hours of counting that a file could not be written.
    #[staticmethod]
    fn check_output(path: PathBuf) -> PyResult<()> {
        let created = WholeFile::create(&path);
        created.map_err(|source| BpeFailure::from(CountError::Write { path, source }))?;
        Ok(())
    }

    /// Counts files, folders and patterns. What a stopped counting has is kept in `state` if that is given, and gone on from.
    #[staticmethod]
    #[pyo3(signature = (inputs, options, progress=None, state=None))]
    fn from_files(
        py: Python<'_>,
        inputs: Vec<String>,
        options: BpeOptions,
        progress: Option<&Bound<'_, PyAny>>,
        state: Option<PathBuf>,
    ) -> PyResult<BpeCounts> {
        job::run(py, progress, |reached| {
            let settings = options.count_settings()?;
            let corpus = Corpus::find(&inputs, options.text_format())?;
            let counted = match &state {
                Some(state) if is_unfinished(state)? => resume(state, &corpus, &settings, reached),
                _ => count(&corpus, &settings, reached),
            };
            match (counted?, &state) {
                (CountOutcome::Finished(counts), _) => Ok(BpeCounts::new(counts)),
                (CountOutcome::Stopped(unfinished), Some(state)) => {
                    unfinished.save(state)?;
                    Err(BpeFailure::stopped())
                }
                (CountOutcome::Stopped(_), None) => Err(BpeFailure::stopped()),
            }
        })
    }

    /// Counts the texts of an iterator, each a document, in bounded memory.
    #[staticmethod]
    #[pyo3(signature = (iterator, options, progress=None))]
    fn from_iterator(
        py: Python<'_>,
        iterator: &Bound<'_, PyAny>,
        options: BpeOptions,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<BpeCounts> {
        let settings = options.count_settings()?;
        let mut counter =
            DocumentCounter::new(settings, options.cut_out()).map_err(BpeFailure::from)?;
        let mut batch = TextBatch::default();
        let mut counted_bytes = 0;
        for item in iterator.try_iter()? {
            texts::for_each(&item?, |text| batch.add(text))?;
            if batch.bytes >= BATCH_BYTES {
                counted_bytes += batch.bytes;
                py.detach(|| batch.count(&mut counter))?;
                py.check_signals()?;
                if let Some(progress) = progress {
                    progress.call1(("count", counted_bytes, None::<u64>))?;
                }
            }
        }
        counted_bytes += batch.bytes;
        let counts = py.detach(|| -> Result<Counts, BpeFailure> {
            batch.count(&mut counter)?;
            Ok(counter.finish()?)
        })?;
        if let Some(progress) = progress {
            progress.call1(("count", counted_bytes, Some(counted_bytes)))?;
        }
        Ok(BpeCounts::new(counts))
    }

    /// Counts that were written before, here or by `nilo bpe count`; several are added up.
    #[staticmethod]
    fn open(py: Python<'_>, paths: Vec<PathBuf>) -> PyResult<BpeCounts> {
        let opened = py.detach(|| -> Result<BpeCounts, BpeFailure> {
            let counts = MergedCounts::open(&paths, 1)?;
            Ok(BpeCounts {
                totals: Mutex::new(*counts.totals()),
                recipe: counts.recipe().clone(),
                source: Mutex::new(CountSource::Files(paths)),
            })
        });
        Ok(opened?)
    }

    /// Writes the counts to a file.
    fn write(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        job::run(py, None, |_| match &*held(&self.source) {
            CountSource::Counted(counts) => Ok(counts.write(&path)?),
            CountSource::Files(paths) => {
                *held(&self.totals) = MergedCounts::write(paths, &path)?;
                Ok(())
            }
            CountSource::Gone => Err(gone()),
        })
    }

    /// How the text fell apart: the pattern's name, or its regular expression.
    #[getter]
    fn pattern(&self) -> &str {
        &self.recipe.pattern
    }

    /// Tokens that were cut out of the text.
    #[getter]
    fn cut_out(&self) -> Vec<String> {
        self.recipe.cut_out.clone()
    }

    /// Sums over the corpus. How many words of several files are distinct is known once they have been merged.
    fn totals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let totals = *held(&self.totals);
        let dict = PyDict::new(py);
        dict.set_item("documents", totals.documents)?;
        dict.set_item("text_bytes", totals.text_bytes)?;
        dict.set_item("words", totals.words)?;
        dict.set_item("distinct_words", totals.distinct_words)?;
        dict.set_item("distinct_bytes", totals.distinct_bytes)?;
        dict.set_item("invalid_bytes", totals.invalid_bytes)?;
        Ok(dict)
    }

    /// Learns a tokenizer. Counts that are not in files are used up by it.
    #[pyo3(signature = (vocab_size, options, progress=None))]
    fn train(
        &self,
        py: Python<'_>,
        vocab_size: usize,
        options: BpeOptions,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<BpeModel> {
        options.check(vocab_size)?;
        let merge_options = options.merge_options(vocab_size)?;
        let model = job::run(py, progress, |reached| self.learn(&merge_options, reached))?;
        Ok(BpeModel::new(model))
    }
}

impl BpeCounts {
    fn new(counts: Counts) -> BpeCounts {
        BpeCounts {
            totals: Mutex::new(*counts.totals()),
            recipe: counts.recipe().clone(),
            source: Mutex::new(CountSource::Counted(Box::new(counts))),
        }
    }

    fn learn(&self, options: &MergeOptions, reached: &JobProgress) -> Result<Model, BpeFailure> {
        let pattern: Pattern = self.recipe.pattern.parse()?;
        if held(&self.totals).text_bytes == 0 {
            let hint = Some("pass files that contain text");
            return Err(BpeFailure::value("the input is empty", hint));
        }
        let words = self.words(options)?;
        let learned = words.learn(options, reached)?;
        Ok(Model::from_learned(learned, pattern))
    }

    fn words(&self, options: &MergeOptions) -> Result<Words, BpeFailure> {
        let mut source = held(&self.source);
        if let CountSource::Files(paths) = &*source {
            let mut totals = *held(&self.totals);
            (totals.distinct_words, totals.distinct_bytes) = (0, 0);
            let tallied = Tallied {
                counts: MergedCounts::open(paths, 1)?,
                totals: &mut totals,
            };
            let words = Words::read(tallied, options)?;
            *held(&self.totals) = totals;
            return Ok(words);
        }
        match std::mem::replace(&mut *source, CountSource::Gone) {
            CountSource::Counted(counts) => Ok(Words::read(counts.into_words(1), options)?),
            CountSource::Files(_) | CountSource::Gone => Err(gone()),
        }
    }
}

/// Counts that are tallied while they are read: how many words of several files are distinct stands in none of them.
struct Tallied<'t> {
    counts: MergedCounts,
    totals: &'t mut CorpusTotals,
}

impl WordSource for Tallied<'_> {
    type Error = CountError;

    fn next_word(&mut self) -> Result<Option<(&[u8], u64)>, CountError> {
        let next = self.counts.next_word()?;
        if let Some((word, _)) = next {
            self.totals.distinct_words += 1;
            self.totals.distinct_bytes += word.len() as u64;
        }
        Ok(next)
    }

    fn size_hint(&self) -> Option<(u64, u64)> {
        self.counts.size_hint()
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a file is there that an interrupted counting left. What is no file of counts is refused: it would be written over.
fn is_unfinished(path: &Path) -> Result<bool, BpeFailure> {
    match path.exists() {
        true => Ok(CountsReader::open(path)?.is_unfinished()),
        false => Ok(false),
    }
}

fn gone() -> BpeFailure {
    BpeFailure::value(
        "these counts were already consumed by a training",
        Some("write them to a file first, and open that for each training"),
    )
}

/// Texts copied out of Python.
#[derive(Default)]
struct TextBatch {
    texts: Vec<Vec<u8>>,
    bytes: usize,
}

impl TextBatch {
    fn add(&mut self, text: &[u8]) {
        self.texts.push(text.to_vec());
        self.bytes += text.len();
    }

    fn count(&mut self, counter: &mut DocumentCounter) -> Result<(), BpeFailure> {
        self.bytes = 0;
        for text in self.texts.drain(..) {
            counter.add(&text)?;
        }
        Ok(())
    }
}
