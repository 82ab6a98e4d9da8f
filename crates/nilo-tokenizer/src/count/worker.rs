//! One thread's work: a chunk into texts, texts into words, words into the table.

use serde::Deserializer as _;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor};

use super::CountError;
use super::front::FrontCache;
use super::table::WordTable;
use super::totals::CorpusTotals;
use crate::corpus::{Chunk, Corpus, CorpusError, Delimiters, Documents, FileSpan, PADDING_BYTES};
use crate::pattern::{Pattern, PatternError};

/// Some editors put it before the first line.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Slots of a thread's own table: 512 KiB, so that it stays in the second-level cache. Fewer lose more words to the shared
/// table than they gain by nearness: 2^11 slots took a quarter longer.
const FRONT_SLOTS: usize = 1 << 14;

pub(crate) struct Worker<'t> {
    pattern: Pattern,
    delimiters: &'t Delimiters,
    table: &'t WordTable,
    front: FrontCache,
    pub(crate) totals: CorpusTotals,
    /// Documents out of JSON.
    unquoted: Vec<u8>,
}

impl<'t> Worker<'t> {
    pub(crate) fn new(pattern: &Pattern, delimiters: &'t Delimiters, table: &'t WordTable) -> Self {
        Self {
            // A regular expression has scratch space that threads would wait for.
            pattern: pattern.clone(),
            delimiters,
            table,
            front: FrontCache::new(FRONT_SLOTS),
            totals: CorpusTotals::default(),
            unquoted: Vec::new(),
        }
    }

    /// Counts every word of a chunk.
    pub(crate) fn count_chunk(&mut self, corpus: &Corpus, chunk: &Chunk) -> Result<(), CountError> {
        for piece in &chunk.pieces {
            let path = || corpus.files[piece.from.source].name();
            if u32::try_from(chunk.bytes.len()).is_err() {
                return Err(CountError::TooLong {
                    path: path(),
                    at: piece.from.offset,
                });
            }
            let counted = match &corpus.format.documents {
                Documents::Files | Documents::Separated(_) => self.count_piece(&chunk.bytes, piece),
                Documents::Lines => self.count_lines(&chunk.bytes, piece),
                Documents::JsonLines { field } => {
                    self.unquote(&chunk.bytes, piece, field)
                        .map_err(|(at, reason)| CorpusError::Json {
                            path: path(),
                            at: piece.from.offset + at as u64,
                            field: field.clone(),
                            reason,
                        })?;
                    self.count_unquoted()
                }
            };
            counted.map_err(|source| CountError::Pattern {
                path: path(),
                source,
            })?;
        }
        self.front.flush_long(&chunk.bytes, &mut self.table);
        Ok(())
    }

    /// Counts a document that is wholly in memory; `padded` has sixteen bytes more.
    pub(crate) fn count_document(&mut self, padded: &[u8]) -> Result<(), PatternError> {
        let end = padded.len() - PADDING_BYTES;
        self.totals.documents += u64::from(end > 0);
        self.count_range(padded, 0, end)?;
        self.front.flush_long(padded, &mut self.table);
        Ok(())
    }

    /// Sends everything to the table.
    pub(crate) fn finish(mut self) -> CorpusTotals {
        self.front.flush(&mut self.table);
        self.totals.words = self.front.words;
        self.totals
    }

    fn count_piece(&mut self, text: &[u8], piece: &FileSpan) -> Result<(), PatternError> {
        let mut has_text = piece.from.inside_document;
        let delimiters = self.delimiters;
        let (start, length) = (piece.start, piece.end - piece.start);
        delimiters.split(&text[start..piece.end], |from, to, ends_document| {
            self.count_text(text, start + from, start + to)?;
            // A token that is cut out belongs to its document, too.
            has_text |= to > from || (!ends_document && to < length);
            self.totals.documents += u64::from(ends_document && has_text);
            has_text &= !ends_document;
            Ok(())
        })?;
        self.totals.documents += u64::from(piece.ends_source && has_text);
        Ok(())
    }

    fn count_lines(&mut self, text: &[u8], piece: &FileSpan) -> Result<(), PatternError> {
        let mut start = piece.start;
        while start < piece.end {
            let line_feed = memchr::memchr(b'\n', &text[start..piece.end]);
            let end = line_feed.map_or(piece.end, |place| start + place + 1);
            self.totals.documents += 1;
            self.count_range(text, start, end)?;
            start = end;
        }
        Ok(())
    }

    /// The texts of a document between tokens that are cut out.
    fn count_range(&mut self, text: &[u8], start: usize, end: usize) -> Result<(), PatternError> {
        let delimiters = self.delimiters;
        delimiters.split(&text[start..end], |from, to, _| {
            self.count_text(text, start + from, start + to)
        })
    }

    #[inline]
    fn count_text(&mut self, text: &[u8], start: usize, end: usize) -> Result<(), PatternError> {
        let words = &text[start..end];
        self.totals.text_bytes += words.len() as u64;
        if std::str::from_utf8(words).is_err() {
            let invalid: usize = words.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
            self.totals.invalid_bytes += invalid as u64;
        }
        let (front, table) = (&mut self.front, &mut self.table);
        front.begin(start);
        self.pattern
            .for_each_span(words, |_, to| front.count(text, start + to, table))?;
        front.count_batch(text, table);
        Ok(())
    }

    /// Collects the texts of JSON lines, each with its length before it; an error has the place of its line.
    fn unquote(
        &mut self,
        text: &[u8],
        piece: &FileSpan,
        field: &str,
    ) -> Result<(), (usize, String)> {
        self.unquoted.clear();
        let mut start = piece.start;
        while start < piece.end {
            let line_feed = memchr::memchr(b'\n', &text[start..piece.end]);
            let end = line_feed.map_or(piece.end, |place| start + place);
            let mut line = text[start..end].trim_ascii();
            if piece.from.offset == 0 && start == piece.start {
                line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
            }
            if !line.is_empty() {
                let place = self.unquoted.len();
                self.unquoted.extend_from_slice(&[0; size_of::<usize>()]);
                let mut parser = serde_json::Deserializer::from_slice(line);
                let reader = FieldReader {
                    field,
                    output: &mut self.unquoted,
                };
                let read = parser.deserialize_map(reader).and_then(|()| parser.end());
                // To the parser every line is the first.
                let reason = |error: serde_json::Error| {
                    error.to_string().replace("at line 1 column", "at column")
                };
                read.map_err(|error| (start - piece.start, reason(error)))?;
                let length = self.unquoted.len() - place - size_of::<usize>();
                self.unquoted[place..][..size_of::<usize>()].copy_from_slice(&length.to_le_bytes());
            }
            start = end + 1;
        }
        self.unquoted.extend_from_slice(&[0; PADDING_BYTES]);
        Ok(())
    }

    fn count_unquoted(&mut self) -> Result<(), PatternError> {
        let unquoted = std::mem::take(&mut self.unquoted);
        let mut place = 0;
        while let Some(length) = unquoted[place..unquoted.len() - PADDING_BYTES].first_chunk() {
            let start = place + size_of::<usize>();
            place = start + usize::from_le_bytes(*length);
            self.totals.documents += u64::from(place > start);
            self.count_range(&unquoted, start, place)?;
        }
        self.front.flush_long(&unquoted, &mut self.table);
        self.unquoted = unquoted;
        Ok(())
    }
}

/// Takes one string out of a JSON object. Lone surrogates come as the bytes that UTF-8 would have for them.
struct FieldReader<'f, 'o> {
    field: &'f str,
    output: &'o mut Vec<u8>,
}

impl<'de> Visitor<'de> for FieldReader<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut found = false;
        let length = self.output.len();
        while let Some(key) = map.next_key::<std::borrow::Cow<'_, str>>()? {
            if key == self.field {
                self.output.truncate(length);
                map.next_value_seed(TextReader(self.output))?;
                found = true;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        if !found {
            return Err(A::Error::custom("there is no such field"));
        }
        Ok(())
    }
}

struct TextReader<'o>(&'o mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for TextReader<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_bytes(self)
    }
}

impl Visitor<'_> for TextReader<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<(), E> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}
