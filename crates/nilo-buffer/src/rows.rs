//! A log of rows of one width: appended at one end, dropped at the other.

use std::collections::VecDeque;
use std::path::Path;

use crate::block_cache::BlockCache;
use crate::codec::ByteCodec;
use crate::error::BufferError;
use crate::frames::MOST_NUMBER;
use crate::row_chunk::{RowChunk, RowShape};

const CHUNK_BYTES: usize = 64 << 10;
const MOST_CHUNK_ROWS: usize = 8192;
const LEAST_CHUNK_ROWS: usize = 16;
/// A codec that saves less than this share of the first chunk is not worth its time.
const LEAST_SAVING: f64 = 0.10;

/// The codec of cold chunks, decided by the first of them, and what it was measured to take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ColdCodec {
    pub(crate) codec: ByteCodec,
    pub(crate) raw_bytes: usize,
    pub(crate) stored_bytes: usize,
}

#[derive(Debug)]
pub(crate) struct RowLog {
    shape: RowShape,
    chunk_rows: usize,
    chunks: VecDeque<RowChunk>,
    /// Bytes of the chunks in memory.
    chunk_bytes: usize,
    /// So many of the oldest chunks are on disk, as far as they can be.
    spilled: usize,
    /// So many of the oldest chunks are compressed, as far as that makes them smaller.
    compressed: usize,
    first_chunk: u64,
    open: Vec<u8>,
    next: u64,
    cold: Option<ColdCodec>,
    /// Tells this log's chunks from those of others in the cache of decoded ones.
    number: u32,
}

impl RowLog {
    /// A log that will hold about `expected_rows`; the chunk that is being filled takes about `most_open_bytes` at most.
    pub(crate) fn new(
        shape: RowShape,
        expected_rows: usize,
        most_open_bytes: usize,
        number: u32,
    ) -> RowLog {
        let by_size = (CHUNK_BYTES / shape.bytes()).clamp(1, MOST_CHUNK_ROWS);
        let chunk_rows = by_size
            .min((expected_rows / 16).max(LEAST_CHUNK_ROWS))
            .min((most_open_bytes / shape.bytes()).max(LEAST_CHUNK_ROWS))
            .next_power_of_two();
        RowLog {
            shape,
            chunk_rows,
            chunks: VecDeque::new(),
            chunk_bytes: 0,
            spilled: 0,
            compressed: 0,
            first_chunk: 0,
            open: Vec::new(),
            next: 0,
            cold: None,
            number,
        }
    }

    /// Whether chunks of so many rows can be in a file.
    pub(crate) fn can_have_chunks_of(rows: usize) -> bool {
        rows.is_power_of_two() && rows <= MOST_CHUNK_ROWS
    }

    pub(crate) fn shape(&self) -> RowShape {
        self.shape
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn first(&self) -> u64 {
        self.first_chunk * self.chunk_rows as u64
    }

    pub(crate) fn append(&mut self, row: &[u8]) -> u64 {
        debug_assert_eq!(row.len(), self.shape.bytes());
        if self.open.capacity() == 0 {
            self.open
                .reserve_exact(self.chunk_rows * self.shape.bytes());
        }
        self.open.extend_from_slice(row);
        self.next += 1;
        if self.next.is_multiple_of(self.chunk_rows as u64) {
            let full = std::mem::take(&mut self.open);
            let chunk = RowChunk::new(self.shape, full);
            self.chunk_bytes += chunk.heap_bytes();
            self.chunks.push_back(chunk);
        }
        self.next - 1
    }

    /// Reads one row into `out`; compressed chunks are decoded through the cache.
    pub(crate) fn read(
        &self,
        row: u64,
        cache: &BlockCache,
        out: &mut [u8],
    ) -> Result<(), BufferError> {
        let width = self.shape.bytes();
        let place = (row % self.chunk_rows as u64) as usize;
        let number = row / self.chunk_rows as u64;
        let index = number.checked_sub(self.first_chunk).ok_or(MISSING)? as usize;
        match self.chunks.get(index) {
            Some(chunk) if chunk.is_compressed() => {
                let decoded =
                    cache.get_or_decode(self.number, number, || chunk.decode(self.shape))?;
                chunk.read_decoded(self.shape, &decoded, place, out);
            }
            Some(chunk) => chunk.read(self.shape, place, out),
            None if index == self.chunks.len() => {
                out.copy_from_slice(
                    self.open
                        .get(place * width..(place + 1) * width)
                        .ok_or(MISSING)?,
                );
            }
            None => return Err(MISSING),
        }
        Ok(())
    }

    pub(crate) fn drop_before(&mut self, row: u64, cache: &mut BlockCache) {
        while (self.first_chunk + 1) * self.chunk_rows as u64 <= row
            && let Some(chunk) = self.chunks.pop_front()
        {
            if chunk.is_compressed() {
                cache.forget(self.number, self.first_chunk..self.first_chunk + 1);
            }
            self.chunk_bytes -= chunk.heap_bytes();
            self.spilled = self.spilled.saturating_sub(1);
            self.compressed = self.compressed.saturating_sub(1);
            self.first_chunk += 1;
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.chunk_bytes + self.chunks.len() * size_of::<RowChunk>() + self.open.capacity()
    }

    pub(crate) fn disk_bytes(&self) -> usize {
        self.chunks.iter().map(RowChunk::disk_bytes).sum()
    }

    pub(crate) fn spill_oldest(&mut self, folder: &Path) -> Result<usize, BufferError> {
        while let Some(chunk) = self.chunks.get_mut(self.spilled) {
            let moved = chunk.spill(folder)?;
            self.spilled += 1;
            self.chunk_bytes -= moved;
            if moved > 0 {
                return Ok(moved);
            }
        }
        Ok(0)
    }

    /// Compresses the oldest chunk that is not, where the first one showed that it pays. Returns how many bytes left memory.
    pub(crate) fn compress_oldest(&mut self) -> usize {
        if self.chunks.is_empty() {
            return 0;
        }
        let codec = self.cold_codec().codec;
        if codec == ByteCodec::Raw {
            return 0;
        }
        while let Some(chunk) = self.chunks.get_mut(self.compressed) {
            let saved = chunk.compress(self.shape, codec);
            self.compressed += 1;
            self.chunk_bytes -= saved;
            if saved > 0 {
                return saved;
            }
        }
        0
    }

    /// What the first chunk takes with each codec decides for all.
    fn cold_codec(&mut self) -> ColdCodec {
        if let Some(cold) = self.cold {
            return cold;
        }
        let first = &self.chunks[0];
        let raw_bytes = first.heap_bytes().max(first.disk_bytes());
        let mut best = ColdCodec {
            codec: ByteCodec::Raw,
            raw_bytes,
            stored_bytes: raw_bytes,
        };
        let most = (raw_bytes as f64 * (1.0 - LEAST_SAVING)) as usize;
        for codec in [ByteCodec::Lz4, ByteCodec::Zstd, ByteCodec::ShuffleZstd] {
            let stored_bytes = first
                .try_codec(self.shape, codec)
                .map_or(raw_bytes, |small| small.len());
            if stored_bytes <= most && stored_bytes < best.stored_bytes {
                best = ColdCodec {
                    codec,
                    raw_bytes,
                    stored_bytes,
                };
            }
        }
        self.cold = Some(best);
        best
    }

    pub(crate) fn trial(&self) -> Option<ColdCodec> {
        self.cold
    }

    pub(crate) fn chunks(&self) -> impl ExactSizeIterator<Item = &RowChunk> {
        self.chunks.iter()
    }

    pub(crate) fn chunk_rows(&self) -> usize {
        self.chunk_rows
    }

    pub(crate) fn open_rows(&self) -> &[u8] {
        &self.open
    }

    /// A log as a file has it, with chunks of its size.
    pub(crate) fn restore(
        &mut self,
        chunk_rows: usize,
        first_chunk: u64,
        chunks: Vec<RowChunk>,
        open: Vec<u8>,
    ) -> Option<()> {
        let width = self.shape.bytes();
        if !RowLog::can_have_chunks_of(chunk_rows) {
            return None;
        }
        self.chunk_rows = chunk_rows;
        let open_rows = open.len() / width;
        let fits = chunks.iter().all(|chunk| chunk.rows() == self.chunk_rows)
            && open.len() == open_rows * width
            && open_rows < self.chunk_rows;
        if !fits {
            return None;
        }
        let before = first_chunk.checked_add(chunks.len() as u64)?;
        self.next = before
            .checked_mul(self.chunk_rows as u64)?
            .checked_add(open_rows as u64)?;
        if self.next > MOST_NUMBER {
            return None;
        }
        self.first_chunk = first_chunk;
        self.chunk_bytes = chunks.iter().map(RowChunk::heap_bytes).sum();
        self.chunks = chunks.into();
        (self.spilled, self.compressed) = (0, 0);
        self.open = open;
        Some(())
    }
}

const MISSING: BufferError = BufferError::Damaged("a row that is not there");
