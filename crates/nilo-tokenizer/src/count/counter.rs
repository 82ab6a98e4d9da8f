//! Counting: threads over the chunks of a corpus, or documents handed in one by one.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::CountError;
use super::counts::Counts;
use super::resume::Unfinished;
use super::spill::Spilled;
use super::table::WordTable;
use super::totals::{CorpusTotals, Recipe};
use super::worker::Worker;
use crate::Progress;
use crate::corpus::{
    Chunk, ChunkReader, Corpus, CorpusError, CorpusPosition, Delimiters, PADDING_BYTES, TextFormat,
};
use crate::pattern::{Pattern, PatternError};

/// How to count. None of it but the pattern changes the result.
#[derive(Debug, Clone)]
pub struct CountSettings {
    /// What a word is.
    pub pattern: Pattern,
    /// Threads that split and count; at least one.
    pub threads: usize,
    /// Text read at a time, for each thread.
    pub chunk_bytes: usize,
    /// Memory for the word table; more goes to disk. `None` for no bound.
    pub memory_budget_bytes: Option<u64>,
    /// Where words go that exceed the budget; the system's folder for temporary files if `None`.
    pub spill_folder: Option<PathBuf>,
}

impl Default for CountSettings {
    fn default() -> Self {
        Self {
            pattern: Pattern::Gpt2,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            chunk_bytes: 1 << 20,
            memory_budget_bytes: None,
            spill_folder: None,
        }
    }
}

/// Learning from one word takes up to this many times its length, over all the stages.
const TIMES_A_WORD: u64 = 16;

impl CountSettings {
    /// The longest text without an end of a word that is taken into memory.
    fn longest_piece(&self) -> usize {
        let share = self.memory_budget_bytes.map(|budget| budget / TIMES_A_WORD);
        let share = share.map_or(usize::MAX, |share| share as usize);
        share.max(4 * self.chunk_bytes)
    }

    /// Says before anything is counted that words beyond the budget could not go where they were told to.
    ///
    /// Only a folder that somebody named is looked at: the system's own may never be needed.
    pub fn check_spill_folder(&self) -> Result<(), CountError> {
        match &self.spill_folder {
            Some(folder) => Spilled::new(&Arc::new(folder.clone())).map(drop),
            None => Ok(()),
        }
    }

    pub(super) fn table(&self) -> WordTable {
        let folder = self.spill_folder.clone().unwrap_or_else(std::env::temp_dir);
        WordTable::new(self.memory_budget_bytes, folder)
    }
}

/// How counting ended.
#[derive(Debug)]
pub enum CountOutcome {
    /// The whole corpus is counted.
    Finished(Counts),
    /// [`Progress::should_stop`] said so; what is counted can be saved.
    Stopped(Unfinished),
}

/// Counts the words of a corpus.
pub fn count(
    corpus: &Corpus,
    settings: &CountSettings,
    progress: &dyn Progress,
) -> Result<CountOutcome, CountError> {
    let start = CorpusPosition::default();
    count_from(
        corpus,
        settings,
        settings.table(),
        CorpusTotals::default(),
        start,
        progress,
    )
}

/// The same from a position on, with a table that may have words in it.
pub(super) fn count_from(
    corpus: &Corpus,
    settings: &CountSettings,
    table: WordTable,
    mut totals: CorpusTotals,
    position: CorpusPosition,
    progress: &dyn Progress,
) -> Result<CountOutcome, CountError> {
    let delimiters = Delimiters::new(&corpus.format)?;
    let reader = ChunkReader::new(
        corpus,
        &settings.pattern,
        &delimiters,
        (settings.chunk_bytes, settings.longest_piece()),
        position,
    );
    let shared = CountContext {
        corpus,
        table: &table,
        reader: Mutex::new((reader, Instant::now())),
        stopped: AtomicBool::new(false),
        failed: AtomicBool::new(false),
        progress,
    };
    let results = on_threads(settings.threads, || {
        shared.work(Worker::new(&settings.pattern, &delimiters, &table))
    });
    let stopped = shared.stopped.load(Ordering::Relaxed);
    let (reader, _) = shared
        .reader
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let position = reader.position();
    for result in results {
        totals.add(&result?);
    }
    let (parts, size) = table.finish()?;
    totals.distinct_words = size.words;
    totals.distinct_bytes = size.word_bytes;
    let counts = Counts::new(
        parts,
        totals,
        Recipe::new(&settings.pattern, &corpus.format),
    );
    if stopped && position.source < corpus.files.len() {
        return Ok(CountOutcome::Stopped(Unfinished::new(
            counts, corpus, position,
        )));
    }
    Ok(CountOutcome::Finished(counts))
}

/// What the threads have in common.
struct CountContext<'s> {
    corpus: &'s Corpus,
    table: &'s WordTable,
    /// Chunks are dealt out under this lock; the time is when progress was last told.
    reader: Mutex<(ChunkReader<'s>, Instant)>,
    stopped: AtomicBool,
    failed: AtomicBool,
    progress: &'s dyn Progress,
}

impl CountContext<'_> {
    fn work(&self, mut worker: Worker<'_>) -> Result<CorpusTotals, CountError> {
        let mut chunk = Chunk::default();
        let worked = loop {
            if self.progress.should_stop() {
                self.stopped.store(true, Ordering::Relaxed);
            }
            let over = self.stopped.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed);
            if over || self.table.has_failed() {
                break Ok(());
            }
            match self.next(&mut chunk).map_err(CountError::from) {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
            if let Err(error) = worker.count_chunk(self.corpus, &chunk) {
                break Err(error);
            }
        };
        if worked.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        worked.map(|()| worker.finish())
    }

    fn next(&self, chunk: &mut Chunk) -> Result<bool, CorpusError> {
        let mut guard = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let (reader, told) = &mut *guard;
        let more = reader.next(chunk)?;
        if !more || told.elapsed() >= Duration::from_millis(20) {
            *told = Instant::now();
            self.progress
                .scanned(reader.taken_bytes(), self.corpus.size_bytes());
        }
        Ok(more)
    }
}

/// Does the same work on each of so many threads, this one among them.
fn on_threads<T: Send>(threads: usize, work: impl Fn() -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.max(1)).map(|_| scope.spawn(&work)).collect();
        let mut results = vec![work()];
        // A panic of a worker is a defect, and goes on as one.
        let joined = others.into_iter().map(|other| other.join());
        results.extend(
            joined.map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))),
        );
        results
    })
}

/// Counts documents as they come, from any source.
pub struct DocumentCounter {
    settings: CountSettings,
    format: TextFormat,
    delimiters: Delimiters,
    table: WordTable,
    totals: CorpusTotals,
    /// Documents that wait until there are enough for every thread.
    waiting: Vec<Vec<u8>>,
    waiting_bytes: usize,
}

impl DocumentCounter {
    /// Begins. Of the format only the tokens that are cut out are used.
    pub fn new(settings: CountSettings, cut_out: Vec<String>) -> Result<Self, CountError> {
        let format = TextFormat {
            cut_out,
            ..TextFormat::default()
        };
        Ok(Self {
            delimiters: Delimiters::new(&format)?,
            table: settings.table(),
            settings,
            format,
            totals: CorpusTotals::default(),
            waiting: Vec::new(),
            waiting_bytes: 0,
        })
    }

    /// Adds a document. It is copied, and counted later together with others, on all threads.
    pub fn add(&mut self, document: &[u8]) -> Result<(), CountError> {
        let mut padded = Vec::with_capacity(document.len() + PADDING_BYTES);
        padded.extend_from_slice(document);
        padded.resize(document.len() + PADDING_BYTES, 0);
        self.waiting_bytes += padded.len();
        self.waiting.push(padded);
        let enough = self
            .settings
            .chunk_bytes
            .saturating_mul(self.settings.threads.max(1));
        if self.waiting_bytes >= enough {
            self.count_waiting()?;
        }
        Ok(())
    }

    fn count_waiting(&mut self) -> Result<(), CountError> {
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        let next = Mutex::new(waiting.into_iter());
        let work = || -> Result<CorpusTotals, PatternError> {
            let mut worker = Worker::new(&self.settings.pattern, &self.delimiters, &self.table);
            loop {
                let Some(document) = next.lock().unwrap_or_else(PoisonError::into_inner).next()
                else {
                    break;
                };
                worker.count_document(&document)?;
            }
            Ok(worker.finish())
        };
        let results = on_threads(self.settings.threads, work);
        for result in results {
            let path = PathBuf::from("a document");
            self.totals
                .add(&result.map_err(|source| CountError::Pattern { path, source })?);
        }
        Ok(())
    }

    /// The counts of all documents.
    pub fn finish(mut self) -> Result<Counts, CountError> {
        self.count_waiting()?;
        let (parts, size) = self.table.finish()?;
        self.totals.distinct_words = size.words;
        self.totals.distinct_bytes = size.word_bytes;
        let recipe = Recipe::new(&self.settings.pattern, &self.format);
        Ok(Counts::new(parts, self.totals, recipe))
    }
}
