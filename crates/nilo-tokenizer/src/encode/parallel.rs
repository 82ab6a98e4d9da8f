//! Many texts, or one long text, on several threads. The ids are those of one thread.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::pieces::TextPiece;
use super::{EncodeError, Encoder, Scratch, SpecialTokens};

/// Large enough that the caches pay, small enough that no thread waits long for the last.
const PIECE_BYTES: usize = 1 << 18;

impl Encoder {
    /// The ids of each text.
    pub fn encode_batch<T: AsRef<[u8]> + Sync>(
        &self,
        texts: &[T],
        specials: SpecialTokens,
        threads: usize,
    ) -> Result<Vec<Vec<u32>>, EncodeError> {
        self.in_order(texts, threads, |text, scratch, ids| {
            self.encode_into(text.as_ref(), specials, scratch, ids)
        })
    }

    /// The ids of one text, in pieces: one list after another.
    pub fn encode_parallel(
        &self,
        text: &[u8],
        specials: SpecialTokens,
        threads: usize,
    ) -> Result<Vec<Vec<u32>>, EncodeError> {
        let pieces = self.pieces(text, specials, PIECE_BYTES);
        self.in_order(&pieces, threads, |piece, scratch, ids| match piece {
            TextPiece::Special(id) => {
                ids.push(*id);
                Ok(())
            }
            TextPiece::Text(range) => self.encode_text(&text[range.clone()], scratch, ids),
        })
    }

    fn in_order<T: Sync>(
        &self,
        items: &[T],
        threads: usize,
        encode: impl Fn(&T, &mut Scratch, &mut Vec<u32>) -> Result<(), EncodeError> + Sync,
    ) -> Result<Vec<Vec<u32>>, EncodeError> {
        let next = AtomicUsize::new(0);
        let failure: Mutex<Option<EncodeError>> = Mutex::new(None);
        let work = || {
            let mut scratch = Scratch::default();
            let mut done: Vec<(usize, Vec<u32>)> = Vec::new();
            loop {
                let index = next.fetch_add(1, Relaxed);
                let Some(item) = items.get(index) else {
                    return done;
                };
                let mut ids = Vec::new();
                if let Err(error) = encode(item, &mut scratch, &mut ids) {
                    next.store(items.len(), Relaxed);
                    failure
                        .lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner)
                        .get_or_insert(error);
                    return done;
                }
                done.push((index, ids));
            }
        };
        let threads = threads.clamp(1, items.len().max(1));
        let parts: Vec<Vec<(usize, Vec<u32>)>> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut parts = vec![work()];
            parts.extend(others.into_iter().map(|other| {
                other
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }));
            parts
        });
        if let Some(error) = failure
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
        {
            return Err(error);
        }
        let mut ids = vec![Vec::new(); items.len()];
        for (index, list) in parts.into_iter().flatten() {
            ids[index] = list;
        }
        Ok(ids)
    }
}
