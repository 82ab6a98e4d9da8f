//! The least recently used key leaves first.

use lru::LruCache;

use super::keys::KeyPolicy;

#[derive(Debug)]
pub(super) struct LruKeys {
    bytes: LruCache<u64, usize>,
    pub(super) used_bytes: usize,
    pub(super) budget_bytes: usize,
}

impl LruKeys {
    pub(super) fn new(budget_bytes: usize) -> LruKeys {
        LruKeys {
            bytes: LruCache::unbounded(),
            used_bytes: 0,
            budget_bytes,
        }
    }

    pub(super) fn is_above_budget(&self) -> bool {
        self.used_bytes > self.budget_bytes
    }

    pub(super) fn pop_oldest(&mut self) -> Option<(u64, usize)> {
        let (key, bytes) = self.bytes.pop_lru()?;
        self.used_bytes -= bytes;
        Some((key, bytes))
    }

    fn pop_above_budget(&mut self) -> Vec<u64> {
        let mut leaving = Vec::new();
        while self.is_above_budget()
            && let Some((oldest, _)) = self.pop_oldest()
        {
            leaving.push(oldest);
        }
        leaving
    }

    pub(super) fn oldest(&self) -> Option<u64> {
        self.bytes.peek_lru().map(|(key, _)| *key)
    }

    pub(super) fn take(&mut self, key: u64) -> Option<usize> {
        let bytes = self.bytes.pop(&key)?;
        self.used_bytes -= bytes;
        Some(bytes)
    }
}

impl KeyPolicy for LruKeys {
    fn request(&mut self, key: u64) -> bool {
        self.bytes.get(&key).is_some()
    }

    fn insert(&mut self, key: u64, bytes: usize) -> Vec<u64> {
        self.adopt(key, bytes);
        self.pop_above_budget()
    }

    fn adopt(&mut self, key: u64, bytes: usize) {
        self.take(key);
        self.bytes.put(key, bytes);
        self.used_bytes += bytes;
    }

    fn remove(&mut self, key: u64) {
        self.take(key);
    }

    fn resize(&mut self, budget_bytes: usize) -> Vec<u64> {
        self.budget_bytes = budget_bytes;
        self.pop_above_budget()
    }
}
