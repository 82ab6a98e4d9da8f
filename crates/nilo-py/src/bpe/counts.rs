//! Counted words: made from files or an iterator, kept in a file, and learnt from.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use nilo_tokenizer::merge::{MergeOptions, Words};
use nilo_tokenizer::model::Model;
use nilo_tokenizer::{
    Corpus, CountSettings, Counted, Counts, DocumentCounter, MergedCounts, Pattern, Totals, count,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::failure::Failure;
use super::job::{self, Reached};
use super::model::BpeModel;
use super::options::Options;
use super::texts;

/// Text of an iterator that is gathered before it is counted without the GIL.
const BATCH_BYTES: usize = 1 << 20;

/// The words of a corpus with their counts.
#[pyclass(frozen, module = "nilometer._native")]
pub(crate) struct BpeCounts {
    source: Mutex<Source>,
    totals: Totals,
    pattern: Pattern,
}

/// Where the words are.
enum Source {
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
    fn check(vocab_size: usize, options: Options) -> PyResult<()> {
        Ok(options.check(vocab_size)?)
    }

    /// Counts files, folders and patterns.
    #[staticmethod]
    #[pyo3(signature = (inputs, options, progress=None))]
    fn from_files(
        py: Python<'_>,
        inputs: Vec<String>,
        options: Options,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<BpeCounts> {
        job::run(py, progress, |reached| {
            let settings = options.count_settings()?;
            let corpus = Corpus::find(&inputs, options.text_format())?;
            match count(&corpus, &settings, reached)? {
                Counted::Finished(counts) => Ok(BpeCounts::new(counts, settings)),
                Counted::Stopped(_) => Err(Failure::stopped()),
            }
        })
    }

    /// Counts the texts of an iterator, each a document, in bounded memory.
    #[staticmethod]
    #[pyo3(signature = (iterator, options, progress=None))]
    fn from_iterator(
        py: Python<'_>,
        iterator: &Bound<'_, PyAny>,
        options: Options,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<BpeCounts> {
        let settings = options.count_settings()?;
        let mut counter =
            DocumentCounter::new(settings.clone(), options.cut_out()).map_err(Failure::from)?;
        let mut batch = Batch::default();
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
        let counts = py.detach(|| -> Result<Counts, Failure> {
            batch.count(&mut counter)?;
            Ok(counter.finish()?)
        })?;
        if let Some(progress) = progress {
            progress.call1(("count", counted_bytes, Some(counted_bytes)))?;
        }
        Ok(BpeCounts::new(counts, settings))
    }

    /// Counts that were written before, here or by `nilo bpe count`; several are added up.
    #[staticmethod]
    fn open(py: Python<'_>, paths: Vec<PathBuf>) -> PyResult<BpeCounts> {
        let opened = py.detach(|| -> Result<BpeCounts, Failure> {
            let counts = MergedCounts::open(&paths, 1)?;
            Ok(BpeCounts {
                totals: *counts.totals(),
                pattern: counts.recipe().pattern.parse()?,
                source: Mutex::new(Source::Files(paths)),
            })
        });
        Ok(opened?)
    }

    /// Writes the counts to a file.
    fn write(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        job::run(py, None, |_| {
            let source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
            match &*source {
                Source::Counted(counts) => Ok(counts.write(&path)?),
                Source::Files(paths) => {
                    MergedCounts::write(paths, &path)?;
                    Ok(())
                }
                Source::Gone => Err(gone()),
            }
        })
    }

    /// Sums over the corpus.
    fn totals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("documents", self.totals.documents)?;
        dict.set_item("text_bytes", self.totals.text_bytes)?;
        dict.set_item("words", self.totals.words)?;
        dict.set_item("distinct_words", self.totals.distinct_words)?;
        dict.set_item("distinct_bytes", self.totals.distinct_bytes)?;
        dict.set_item("invalid_bytes", self.totals.invalid_bytes)?;
        Ok(dict)
    }

    /// Learns a tokenizer. Counts that are not in files are used up by it.
    #[pyo3(signature = (vocab_size, options, progress=None))]
    fn train(
        &self,
        py: Python<'_>,
        vocab_size: usize,
        options: Options,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<BpeModel> {
        options.check(vocab_size)?;
        let merge_options = options.merge_options(vocab_size)?;
        let pattern = self.pattern.clone();
        let model = job::run(py, progress, |reached| {
            self.learn(&merge_options, pattern, reached)
        })?;
        Ok(BpeModel::new(model))
    }
}

impl BpeCounts {
    fn new(counts: Counts, settings: CountSettings) -> BpeCounts {
        BpeCounts {
            totals: *counts.totals(),
            source: Mutex::new(Source::Counted(Box::new(counts))),
            pattern: settings.pattern,
        }
    }

    fn learn(
        &self,
        options: &MergeOptions,
        pattern: Pattern,
        reached: &Reached,
    ) -> Result<Model, Failure> {
        if self.totals.text_bytes == 0 {
            let hint = Some("there is nothing to learn from");
            return Err(Failure::value("the texts are empty", hint));
        }
        let words = self.words(options)?;
        let learned = words.learn(options, reached)?;
        Ok(Model::from_learned(learned, pattern))
    }

    fn words(&self, options: &MergeOptions) -> Result<Words, Failure> {
        let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        if let Source::Files(paths) = &*source {
            return Ok(Words::read(MergedCounts::open(paths, 1)?, options)?);
        }
        match std::mem::replace(&mut *source, Source::Gone) {
            Source::Counted(counts) => Ok(Words::read(counts.into_words(1), options)?),
            Source::Files(_) | Source::Gone => Err(gone()),
        }
    }
}

fn gone() -> Failure {
    Failure::value(
        "these counts were used up by a training",
        Some("write them to a file first, and open that for each training"),
    )
}

/// Texts copied out of Python.
#[derive(Default)]
struct Batch {
    texts: Vec<Vec<u8>>,
    bytes: usize,
}

impl Batch {
    fn add(&mut self, text: &[u8]) {
        self.texts.push(text.to_vec());
        self.bytes += text.len();
    }

    fn count(&mut self, counter: &mut DocumentCounter) -> Result<(), Failure> {
        self.bytes = 0;
        for text in self.texts.drain(..) {
            counter.add(&text)?;
        }
        Ok(())
    }
}
