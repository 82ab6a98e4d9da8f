//! Decoded frames and chunks that many samplers share.

use std::sync::{Arc, Mutex, PoisonError};

use crate::cache::{CacheCounts, CachePolicy, PolicyCache};
use crate::error::BufferError;

/// A cache whose keys are the number of a log and that of a frame or chunk in it.
#[derive(Debug)]
pub(crate) struct BlockCache {
    cache: Mutex<PolicyCache<Arc<[u8]>>>,
    budget_bytes: usize,
}

impl BlockCache {
    pub(crate) fn new(budget_bytes: usize) -> BlockCache {
        BlockCache {
            cache: Mutex::new(PolicyCache::new(budget_bytes, CachePolicy::Auto)),
            budget_bytes,
        }
    }

    /// The decoded bytes, from the cache or by decoding. Two threads may decode the same at once; nobody waits for a decoder.
    pub(crate) fn get_or_decode(
        &self,
        log: u32,
        number: u64,
        decode: impl FnOnce() -> Result<Vec<u8>, BufferError>,
    ) -> Result<Arc<[u8]>, BufferError> {
        if self.budget_bytes == 0 {
            return decode().map(Arc::from);
        }
        let key = u64::from(log) << 44 ^ number;
        if let Some(found) = self.lock().get(key) {
            return Ok(Arc::clone(found));
        }
        let decoded: Arc<[u8]> = decode()?.into();
        let evicted = self.lock().insert(key, Arc::clone(&decoded), decoded.len());
        drop(evicted);
        Ok(decoded)
    }

    pub(crate) fn is_on(&self) -> bool {
        self.budget_bytes > 0
    }

    pub(crate) fn counts(&self) -> CacheCounts {
        self.lock().counts()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, PolicyCache<Arc<[u8]>>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
