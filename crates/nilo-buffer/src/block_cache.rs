//! Decoded frames and chunks that many samplers share.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use crate::cache::{CacheCounts, CachePolicy, PolicyCache};
use crate::error::BufferError;

/// What an entry takes besides its bytes: the counts of the `Arc`, and its places in two hash tables and a list.
const ENTRY_BYTES: usize = 128;
/// The limit changes in steps of this share of the most that the cache may take, so that entries leave now and then instead of always.
const LIMIT_STEPS: usize = 64;

/// A cache whose keys are the number of a log and that of a frame or chunk in it.
#[derive(Debug)]
pub(crate) struct BlockCache {
    cache: Mutex<PolicyCache<Arc<[u8]>>>,
    most_bytes: usize,
    limit_bytes: usize,
}

impl BlockCache {
    pub(crate) fn new(most_bytes: usize) -> BlockCache {
        BlockCache {
            cache: Mutex::new(PolicyCache::new(most_bytes, CachePolicy::Auto)),
            most_bytes,
            limit_bytes: most_bytes,
        }
    }

    /// The decoded bytes, from the cache or by decoding. Two threads may decode the same at once; nobody waits for a decoder.
    pub(crate) fn get_or_decode(
        &self,
        log: u32,
        number: u64,
        decode: impl FnOnce() -> Result<Vec<u8>, BufferError>,
    ) -> Result<Arc<[u8]>, BufferError> {
        if !self.is_on() {
            return decode().map(Arc::from);
        }
        let key = key(log, number);
        if let Some(found) = self.lock().get(key) {
            return Ok(Arc::clone(found));
        }
        let decoded: Arc<[u8]> = decode()?.into();
        let bytes = decoded.len() + ENTRY_BYTES;
        let evicted = self.lock().insert(key, Arc::clone(&decoded), bytes);
        drop(evicted);
        Ok(decoded)
    }

    pub(crate) fn is_on(&self) -> bool {
        self.limit_bytes > 0
    }

    /// The most it may ever take.
    pub(crate) fn most_bytes(&self) -> usize {
        self.most_bytes
    }

    /// It takes no more than so many bytes from here on; what does not fit leaves.
    pub(crate) fn set_limit(&mut self, limit_bytes: usize) {
        let step = (self.most_bytes / LIMIT_STEPS).max(1);
        let limit_bytes = limit_bytes.min(self.most_bytes) / step * step;
        if limit_bytes != self.limit_bytes {
            self.limit_bytes = limit_bytes;
            self.cache_mut().resize(limit_bytes);
        }
    }

    /// Frames or chunks that are not stored any more.
    pub(crate) fn forget(&mut self, log: u32, numbers: Range<u64>) {
        let cache = self.cache_mut();
        if cache.counts().entries > 0 {
            for number in numbers {
                cache.remove(key(log, number));
            }
        }
    }

    pub(crate) fn counts(&self) -> CacheCounts {
        self.lock().counts()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, PolicyCache<Arc<[u8]>>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cache_mut(&mut self) -> &mut PolicyCache<Arc<[u8]>> {
        self.cache.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(log: u32, number: u64) -> u64 {
    u64::from(log) << 44 ^ number
}
