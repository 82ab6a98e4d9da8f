//! A text of any length, read and encoded a block at a time.
//!
//! Where the pattern names no place to cut (a custom one, or none), a document is read whole before it is encoded.

use std::io::Read;

use super::{EncodeError, Encoder, SpecialTokens};

/// Why a stream could not be encoded.
#[derive(Debug, thiserror::Error)]
pub enum StreamError<E> {
    /// The text could not be read.
    #[error("cannot read the text")]
    Read(#[source] std::io::Error),
    /// The text could not be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The ids could not be taken.
    #[error("cannot write the ids")]
    Take(#[source] E),
}

/// Bytes that are read for each thread at a time.
const BLOCK_BYTES: usize = 1 << 20;

impl Encoder {
    /// Encodes all that a reader has, on several threads, and hands over the ids in order.
    pub fn encode_stream<E>(
        &self,
        mut reader: impl Read,
        specials: SpecialTokens,
        threads: usize,
        mut take: impl FnMut(&[u32]) -> Result<(), E>,
    ) -> Result<(), StreamError<E>> {
        let block = BLOCK_BYTES * threads.max(1);
        let mut buffer = Vec::new();
        let mut wanted = block;
        loop {
            let missing = wanted - buffer.len();
            let read = reader
                .by_ref()
                .take(missing as u64)
                .read_to_end(&mut buffer)
                .map_err(StreamError::Read)?;
            let ended = read < missing;
            let end = if ended {
                buffer.len()
            } else {
                self.settled(&buffer, specials)
            };
            for ids in self.encode_parallel(&buffer[..end], specials, threads)? {
                take(&ids).map_err(StreamError::Take)?;
            }
            buffer.drain(..end);
            if ended {
                return Ok(());
            }
            // Without a place to cut, the block grows; doubling keeps the work linear.
            wanted = if end == 0 {
                buffer.len() * 2
            } else {
                block.max(buffer.len() * 2)
            };
        }
    }

    /// How much of a text is encoded alike whatever follows it.
    fn settled(&self, text: &[u8], specials: SpecialTokens) -> usize {
        let finder = self
            .specials
            .as_ref()
            .filter(|_| specials == SpecialTokens::Recognise);
        // A special token may have begun in the last bytes.
        let held_back = if finder.is_some() {
            self.longest_special
        } else {
            0
        };
        let limit = text.len().saturating_sub(held_back);
        let mut start = 0;
        for found in finder.iter().flat_map(|finder| finder.find_iter(text)) {
            if found.start() >= limit {
                break;
            }
            start = found.end();
        }
        if start >= limit {
            return start;
        }
        let cut = self.pattern.safe_cut_before(&text[start..], limit - start);
        start + cut.unwrap_or(0)
    }
}
