//! A source opened for reading: plain, gzip or zstd by its first bytes, unpacked as a stream.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{CorpusError, SourceFile};

/// The largest window that a zstd frame may ask for, as a power of two: 128 MiB, the format's own recommendation.
/// More memory than that would be taken on the word of the file.
const ZSTD_WINDOW_LOG: u32 = 27;

/// Text as a stream.
pub(super) struct OpenSource {
    reader: Box<dyn Read + Send>,
    /// Bytes taken from the disk or the pipe so far.
    taken: Arc<AtomicU64>,
    reported: u64,
}

impl OpenSource {
    /// Opens the source and skips `offset` bytes of its text.
    pub(super) fn open(file: &SourceFile, offset: u64) -> Result<Self, CorpusError> {
        Self::try_open(file, offset).map_err(CorpusError::read(file.name()))
    }

    fn try_open(file: &SourceFile, offset: u64) -> io::Result<Self> {
        let taken = Arc::new(AtomicU64::new(0));
        let mut head = [0; 4];
        let mut seekable = None;
        let mut input: Box<dyn Read + Send> = match &file.path {
            None => Box::new(io::stdin()),
            Some(path) => {
                let file = File::open(path)?;
                if file.metadata()?.is_file() {
                    seekable = Some(file.try_clone()?);
                }
                Box::new(file)
            }
        };
        let head_bytes = read_full(&mut input, &mut head)?;
        let head = head[..head_bytes].to_vec();
        let kind = kind_of(&head);
        if let (Packing::Plain, Some(mut file)) = (kind, seekable) {
            file.seek(SeekFrom::Start(offset))?;
            taken.store(offset, Ordering::Relaxed);
            let reader = Box::new(Metered::new(file, &taken));
            return Ok(Self {
                reader,
                taken,
                reported: 0,
            });
        }
        let metered = Metered::new(io::Cursor::new(head).chain(input), &taken);
        let mut reader: Box<dyn Read + Send> = match kind {
            Packing::Plain => Box::new(metered),
            Packing::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(
                BufReader::with_capacity(1 << 16, metered),
            )),
            Packing::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::new(metered)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG)?;
                Box::new(decoder)
            }
        };
        let skipped = io::copy(&mut (&mut reader).take(offset), &mut io::sink())?;
        if skipped < offset {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "it is shorter than it was",
            ));
        }
        Ok(Self {
            reader,
            taken,
            reported: 0,
        })
    }

    /// Appends at most `most` bytes; nothing appended is the end.
    pub(super) fn read_into(&mut self, buffer: &mut Vec<u8>, most: usize) -> io::Result<usize> {
        (&mut self.reader).take(most as u64).read_to_end(buffer)
    }

    /// Bytes taken from the disk since this was last asked.
    pub(super) fn newly_taken(&mut self) -> u64 {
        let taken = self.taken.load(Ordering::Relaxed);
        let new = taken - self.reported;
        self.reported = taken;
        new
    }
}

#[derive(Clone, Copy)]
enum Packing {
    Plain,
    Gzip,
    Zstd,
}

fn kind_of(head: &[u8]) -> Packing {
    match head {
        [0x1F, 0x8B, ..] => Packing::Gzip,
        [0x28, 0xB5, 0x2F, 0xFD] | [0x50..=0x5F, 0x2A, 0x4D, 0x18] => Packing::Zstd,
        _ => Packing::Plain,
    }
}

fn read_full(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Counts the bytes that pass.
struct Metered<R> {
    inner: R,
    taken: Arc<AtomicU64>,
}

impl<R> Metered<R> {
    fn new(inner: R, taken: &Arc<AtomicU64>) -> Self {
        Self {
            inner,
            taken: Arc::clone(taken),
        }
    }
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}
