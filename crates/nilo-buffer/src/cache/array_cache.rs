//! Arrays under keys within a memory budget: compressed where that pays, on disk where memory is full.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use super::{CacheCounts, CachePolicy, PolicyCache};
use crate::block::Block;
use crate::codec::{ByteCodec, compress, decompress};
use crate::error::BufferError;

/// Of a large array, so many bytes are tried with each codec.
const TRIED_BYTES: usize = 64 << 10;
/// A codec that saves less than this share is not worth its time.
const LEAST_SAVING: f64 = 0.10;

/// What a cache may take.
#[derive(Debug, Clone)]
pub struct ArrayCacheSettings {
    /// Bytes in memory.
    pub max_bytes: usize,
    /// Who leaves memory.
    pub policy: CachePolicy,
    /// Whether arrays are compressed where that saves a tenth.
    pub is_compressed: bool,
    /// Where arrays go that leave memory; without it they are dropped.
    pub spill_folder: Option<PathBuf>,
    /// Bytes on disk; the array that was not used for longest leaves first.
    pub max_disk_bytes: usize,
}

/// What a cache holds and what happened in it.
#[derive(Debug, Clone, Copy)]
pub struct ArrayCacheStatistics {
    /// Requests and entries in memory.
    pub memory: CacheCounts,
    /// Requests that were answered from disk; they count as misses in `memory`.
    pub disk_hits: u64,
    /// Arrays that were put in and not taken, neither into memory nor to disk.
    pub refused: u64,
    /// Arrays on disk.
    pub disk_entries: usize,
    /// Bytes on disk.
    pub disk_bytes: usize,
    /// Bytes of all arrays held, as they were put in.
    pub raw_bytes: usize,
    /// Bytes that they take, in memory and on disk.
    pub stored_bytes: usize,
}

#[derive(Debug)]
struct StoredArray {
    codec: ByteCodec,
    element_bytes: usize,
    raw_bytes: usize,
    block: Block,
}

#[derive(Debug)]
struct Tiers {
    memory: PolicyCache<Arc<StoredArray>>,
    disk: LruCache<u64, Arc<StoredArray>>,
    disk_bytes: usize,
    disk_hits: u64,
    refused: u64,
    raw_bytes: usize,
    stored_bytes: usize,
}

/// An array that was found in a cache.
#[derive(Debug)]
pub struct CachedArray(Arc<StoredArray>);

impl CachedArray {
    /// Writes it to memory of its size.
    pub fn read(&self, out: &mut [u8]) -> Result<(), BufferError> {
        let array = &self.0;
        decompress(array.codec, array.block.bytes(), array.element_bytes, out)
            .map_err(|_| BufferError::Damaged("a cached array"))
    }
}

/// A cache of arrays for many threads.
#[derive(Debug)]
pub struct ArrayCache {
    settings: ArrayCacheSettings,
    tiers: Mutex<Tiers>,
}

impl ArrayCache {
    /// An empty cache.
    pub fn new(settings: ArrayCacheSettings) -> ArrayCache {
        let tiers = Mutex::new(Tiers {
            memory: PolicyCache::new(settings.max_bytes, settings.policy),
            disk: LruCache::unbounded(),
            disk_bytes: 0,
            disk_hits: 0,
            refused: 0,
            raw_bytes: 0,
            stored_bytes: 0,
        });
        ArrayCache { settings, tiers }
    }

    /// Puts an array in, or in place of the one there. `element_bytes` is the size of its numbers.
    /// Returns the keys that are gone, its own where it was not taken. Arrays that cannot be written to disk are gone as well, with an error.
    pub fn put(
        &self,
        key: u64,
        bytes: &[u8],
        element_bytes: usize,
    ) -> Result<Vec<u64>, BufferError> {
        let array = Arc::new(self.store(bytes, element_bytes));
        let size = array.block.heap_bytes();
        let mut tiers = self.lock();
        tiers.forget(key);
        tiers.raw_bytes += array.raw_bytes;
        tiers.stored_bytes += size;
        let leaving = tiers.memory.insert(key, array, size);
        let mut gone = Vec::new();
        let mut failure = None;
        for (key, array) in leaving {
            match &self.settings.spill_folder {
                Some(folder) if array.block.heap_bytes() <= self.settings.max_disk_bytes => {
                    // Somebody may be reading it: then the bytes are copied instead of moved.
                    let mut array = Arc::try_unwrap(array).unwrap_or_else(|shared| shared.copy());
                    if let Err(error) = array.block.spill(folder) {
                        tiers.uncount(&array);
                        failure = Some(error);
                        continue;
                    }
                    tiers.disk_bytes += array.block.disk_bytes();
                    tiers.disk.put(key, Arc::new(array));
                }
                _ => {
                    tiers.uncount(&array);
                    gone.push(key);
                }
            }
        }
        while tiers.disk_bytes > self.settings.max_disk_bytes
            && let Some((key, array)) = tiers.disk.pop_lru()
        {
            tiers.disk_bytes -= array.block.disk_bytes();
            tiers.uncount(&array);
            gone.push(key);
        }
        tiers.refused += u64::from(gone.contains(&key));
        failure.map_or(Ok(gone), Err)
    }

    /// The array under a key. What is found stays readable when another thread replaces or removes it.
    pub fn find(&self, key: u64) -> Option<CachedArray> {
        let mut tiers = self.lock();
        if let Some(array) = tiers.memory.get(key) {
            return Some(CachedArray(Arc::clone(array)));
        }
        let array = tiers.disk.get(&key).map(Arc::clone)?;
        tiers.disk_hits += 1;
        Some(CachedArray(array))
    }

    /// Takes an array out. Whether it was there.
    pub fn remove(&self, key: u64) -> bool {
        self.lock().forget(key)
    }

    /// What it holds and what happened.
    pub fn statistics(&self) -> ArrayCacheStatistics {
        let tiers = self.lock();
        ArrayCacheStatistics {
            memory: tiers.memory.counts(),
            disk_hits: tiers.disk_hits,
            refused: tiers.refused,
            disk_entries: tiers.disk.len(),
            disk_bytes: tiers.disk_bytes,
            raw_bytes: tiers.raw_bytes,
            stored_bytes: tiers.stored_bytes,
        }
    }

    fn store(&self, bytes: &[u8], element_bytes: usize) -> StoredArray {
        let codec = match self.settings.is_compressed {
            true => best_codec(bytes, element_bytes),
            false => ByteCodec::Raw,
        };
        let small = compress(codec, bytes, element_bytes).filter(|small| small.len() < bytes.len());
        let (codec, stored) = match small {
            Some(small) => (codec, small),
            None => (ByteCodec::Raw, bytes.to_vec()),
        };
        StoredArray {
            codec,
            element_bytes,
            raw_bytes: bytes.len(),
            block: Block::Heap(stored.into_boxed_slice()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Tiers> {
        self.tiers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tiers {
    fn forget(&mut self, key: u64) -> bool {
        let on_disk = self.disk.pop(&key);
        if let Some(array) = &on_disk {
            self.disk_bytes -= array.block.disk_bytes();
        }
        let Some(array) = on_disk.or_else(|| self.memory.remove(key)) else {
            return false;
        };
        self.uncount(&array);
        true
    }

    fn uncount(&mut self, array: &StoredArray) {
        self.raw_bytes -= array.raw_bytes;
        self.stored_bytes -= array.block.bytes().len();
    }
}

impl StoredArray {
    fn copy(&self) -> StoredArray {
        StoredArray {
            codec: self.codec,
            element_bytes: self.element_bytes,
            raw_bytes: self.raw_bytes,
            block: Block::Heap(self.block.bytes().into()),
        }
    }
}

fn best_codec(bytes: &[u8], element_bytes: usize) -> ByteCodec {
    let tried = &bytes[..bytes.len().min(TRIED_BYTES) / element_bytes * element_bytes];
    let most = (tried.len() as f64 * (1.0 - LEAST_SAVING)) as usize;
    let candidates: &[ByteCodec] = match element_bytes {
        1 => &[ByteCodec::Lz4, ByteCodec::Zstd],
        _ => &[ByteCodec::Lz4, ByteCodec::Zstd, ByteCodec::ShuffleZstd],
    };
    candidates
        .iter()
        .filter_map(|&codec| Some((compress(codec, tried, element_bytes)?.len(), codec)))
        .filter(|(size, _)| *size <= most)
        .min_by_key(|(size, _)| *size)
        .map_or(ByteCodec::Raw, |(_, codec)| codec)
}

#[cfg(test)]
#[path = "array_cache_tests.rs"]
mod tests;
