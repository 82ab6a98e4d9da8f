//! Words that no longer fit into memory, as sorted runs on disk.
//!
//! A shard has one file with all its runs. The files have no names: they vanish with the process, however it ends.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::CountError;
use super::merge::{Merged, SortedWords};
use super::records::{RecordReader, RecordWriter};
use super::shard::{Shard, ShardSize};

/// Runs are read with this much memory a shard, whatever their number.
const READ_BYTES: usize = 4 << 20;
const WRITE_BYTES: usize = 1 << 16;
/// With more runs than this they are merged into one before more are written.
const MOST_RUNS: usize = 64;

/// Runs of one shard.
#[derive(Debug)]
pub(crate) struct Spilled {
    folder: Arc<PathBuf>,
    file: Arc<File>,
    end: u64,
    runs: Vec<(u64, u64)>,
}

impl Spilled {
    pub(crate) fn new(folder: &Arc<PathBuf>) -> Result<Self, CountError> {
        let file = tempfile::tempfile_in(folder.as_ref()).map_err(failed(folder))?;
        Ok(Self::on(file, folder))
    }

    /// Runs in a file that is empty and written by nobody else.
    pub(crate) fn on(file: File, folder: &Arc<PathBuf>) -> Self {
        Self {
            folder: Arc::clone(folder),
            file: Arc::new(file),
            end: 0,
            runs: Vec::new(),
        }
    }

    /// Writes the shard's words as a run.
    pub(crate) fn write(&mut self, shard: &Shard) -> Result<(), CountError> {
        if self.runs.len() >= MOST_RUNS {
            self.compact()?;
        }
        let mut order = shard.sorted().into_iter();
        let mut word = Vec::new();
        let folder = Arc::clone(&self.folder);
        let size = self.write_run(|output, writer| {
            let Some(number) = order.next() else {
                return Ok(None);
            };
            let count = shard.numbered(number, &mut word);
            writer
                .write(output, &word, count)
                .map_err(failed(&folder))?;
            Ok(Some(word.len()))
        })?;
        debug_assert_eq!(size, shard.size());
        Ok(())
    }

    /// Makes one run of all, and says how many words it has.
    pub(crate) fn compact(&mut self) -> Result<ShardSize, CountError> {
        let mut merged = self.read();
        let mut compacted = Self::new(&self.folder)?;
        let folder = Arc::clone(&self.folder);
        let size = compacted.write_run(|output, writer| {
            if !merged.advance()? {
                return Ok(None);
            }
            writer
                .write(output, merged.word(), merged.count())
                .map_err(failed(&folder))?;
            Ok(Some(merged.word().len()))
        })?;
        *self = compacted;
        Ok(size)
    }

    /// Adds a run of the words that `next` writes, until it has none left.
    fn write_run(
        &mut self,
        mut next: impl FnMut(&mut BufWriter<At>, &mut RecordWriter) -> Result<Option<usize>, CountError>,
    ) -> Result<ShardSize, CountError> {
        let at = At {
            file: Arc::clone(&self.file),
            offset: self.end,
            end: u64::MAX,
        };
        let mut output = BufWriter::with_capacity(WRITE_BYTES, at);
        let mut writer = RecordWriter::new();
        let mut size = ShardSize::default();
        while let Some(bytes) = next(&mut output, &mut writer)? {
            size.words += 1;
            size.word_bytes += bytes as u64;
        }
        output.flush().map_err(failed(&self.folder))?;
        let end = output.get_ref().offset;
        self.runs.push((self.end, end));
        self.end = end;
        Ok(size)
    }

    /// All runs as one stream. The file stays as long as the stream does.
    pub(crate) fn read(&self) -> Merged<SpilledRun> {
        let buffer = (READ_BYTES / self.runs.len().max(1)).min(1 << 16);
        let run = |&(offset, end): &(u64, u64)| SpilledRun {
            input: BufReader::with_capacity(
                buffer,
                At {
                    file: Arc::clone(&self.file),
                    offset,
                    end,
                },
            ),
            reader: RecordReader::default(),
            folder: Arc::clone(&self.folder),
        };
        Merged::new(self.runs.iter().map(run).collect())
    }
}

/// One run being read.
#[derive(Debug)]
pub(crate) struct SpilledRun {
    input: BufReader<At>,
    reader: RecordReader,
    folder: Arc<PathBuf>,
}

impl SortedWords for SpilledRun {
    type Error = CountError;

    fn advance(&mut self) -> Result<bool, CountError> {
        self.reader
            .read(&mut self.input, false)
            .map_err(failed(&self.folder))
    }

    fn word(&self) -> &[u8] {
        self.reader.word()
    }

    fn count(&self) -> u64 {
        self.reader.count()
    }
}

/// A part of a shared file, read or written without a common cursor.
#[derive(Debug)]
struct At {
    file: Arc<File>,
    offset: u64,
    end: u64,
}

impl Read for At {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer
            .len()
            .min(usize::try_from(self.end - self.offset).unwrap_or(usize::MAX));
        let bytes = self.file.read_at(&mut buffer[..most], self.offset)?;
        self.offset += bytes as u64;
        Ok(bytes)
    }
}

impl Write for At {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write_at(bytes, self.offset)?;
        self.offset += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn failed(folder: &Path) -> impl FnOnce(io::Error) -> CountError {
    let folder = folder.to_owned();
    move |source| CountError::Spill { folder, source }
}
