//! The corpus in pieces of a megabyte or so, each of which can be split into words by itself.
//!
//! Files are read in order. A piece ends where its file does, or else at a place where neither the pattern nor a
//! delimiter looks at both sides; the rest opens the next piece. Where there is no such place (one word of a gigabyte,
//! a custom pattern over one long document) the piece grows until there is one or the document ends: a word has to be
//! in memory to be counted. Beyond what memory allows that is an error. Small files share a chunk.

use super::format::{Delimiters, Documents};
use super::open::OpenSource;
use super::{Corpus, CorpusError, CorpusPosition};
use crate::pattern::Pattern;

/// Zeros after the text, so that a word can be loaded as sixteen bytes wherever it lies.
pub(crate) const PADDING_BYTES: usize = 16;

/// Text to be split into words.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    /// The text of all pieces and the padding.
    pub(crate) bytes: Vec<u8>,
    pub(crate) pieces: Vec<FileSpan>,
}

/// A part of a chunk that comes from one file.
#[derive(Debug, Clone)]
pub(crate) struct FileSpan {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Which file, and where in its text the piece begins.
    pub(crate) from: CorpusPosition,
    /// Whether the file ends with it.
    pub(crate) ends_source: bool,
}

/// Deals out chunks, in order.
pub(crate) struct ChunkReader<'c> {
    corpus: &'c Corpus,
    pattern: &'c Pattern,
    delimiters: &'c Delimiters,
    chunk_bytes: usize,
    /// A piece may grow to this.
    most_bytes: usize,
    open: Option<OpenSource>,
    /// Where the next chunk begins.
    position: CorpusPosition,
    /// Text from there on that is already read.
    carried: Vec<u8>,
    taken_bytes: u64,
}

impl<'c> ChunkReader<'c> {
    pub(crate) fn new(
        corpus: &'c Corpus,
        pattern: &'c Pattern,
        delimiters: &'c Delimiters,
        (chunk_bytes, most_bytes): (usize, usize),
        position: CorpusPosition,
    ) -> Self {
        let done = &corpus.files[..position.source.min(corpus.files.len())];
        Self {
            corpus,
            pattern,
            delimiters,
            chunk_bytes: chunk_bytes.max(1),
            most_bytes,
            open: None,
            position,
            carried: Vec::new(),
            taken_bytes: done.iter().filter_map(|file| file.size_bytes).sum(),
        }
    }

    /// Where the next chunk will begin.
    pub(crate) fn position(&self) -> CorpusPosition {
        self.position
    }

    /// Bytes taken from disk so far.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.taken_bytes
    }

    /// Fills the chunk; false at the end of the corpus.
    pub(crate) fn next(&mut self, chunk: &mut Chunk) -> Result<bool, CorpusError> {
        chunk.bytes.clear();
        chunk.pieces.clear();
        while chunk.bytes.len() < self.chunk_bytes && self.position.source < self.corpus.files.len()
        {
            if !self.fill_piece(chunk)? {
                break;
            }
        }
        chunk.bytes.resize(chunk.bytes.len() + PADDING_BYTES, 0);
        Ok(!chunk.pieces.is_empty())
    }

    /// Adds a piece of the current file. False when the file goes on after it.
    fn fill_piece(&mut self, chunk: &mut Chunk) -> Result<bool, CorpusError> {
        let file = &self.corpus.files[self.position.source];
        let start = chunk.bytes.len();
        chunk.bytes.append(&mut self.carried);
        let mut open = match self.open.take() {
            Some(open) => open,
            None => OpenSource::open(file, self.position.offset)?,
        };
        let mut wanted = self.chunk_bytes.max(start + 1);
        let mut piece = FileSpan {
            start,
            end: start,
            from: self.position,
            ends_source: false,
        };
        loop {
            let missing = wanted.saturating_sub(chunk.bytes.len());
            let read = open.read_into(&mut chunk.bytes, missing);
            self.taken_bytes += open.newly_taken();
            let read = read.map_err(CorpusError::read(file.name()))?;
            if missing > 0 && read < missing {
                piece.end = chunk.bytes.len();
                piece.ends_source = true;
                chunk.pieces.push(piece);
                self.position = CorpusPosition::start_of(self.position.source + 1);
                return Ok(true);
            }
            if let Some((cut, inside_document)) = self.cut(&chunk.bytes[start..]) {
                piece.end = start + cut;
                chunk.pieces.push(piece);
                self.carried.extend_from_slice(&chunk.bytes[start + cut..]);
                chunk.bytes.truncate(start + cut);
                self.position.offset += cut as u64;
                self.position.inside_document = inside_document;
                self.open = Some(open);
                return Ok(false);
            }
            let length = chunk.bytes.len() - start;
            if length >= self.most_bytes {
                return Err(CorpusError::NoCut {
                    path: file.name(),
                    at: self.position.offset,
                    length,
                });
            }
            wanted = chunk.bytes.len() + length.max(1);
        }
    }

    /// The last place where the text can be cut, and whether that is inside a document; never at its very start.
    fn cut(&self, text: &[u8]) -> Option<(usize, bool)> {
        match (&self.corpus.format.documents, self.pattern) {
            (Documents::Lines | Documents::JsonLines { .. }, _) => {
                memchr::memrchr(b'\n', text).map(|at| (at + 1, false))
            }
            (_, Pattern::Custom(_) | Pattern::None) => self.delimiters.last_end(text),
            (_, pattern) => {
                let mut limit = text.len().checked_sub(self.delimiters.longest())?;
                loop {
                    let cut = pattern.safe_cut_before(text, limit)?;
                    if !self.delimiters.touches(text, cut) {
                        return Some((cut, true));
                    }
                    limit = cut - 1;
                }
            }
        }
    }
}
