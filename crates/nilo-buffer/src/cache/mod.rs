//! A cache within a budget of bytes whose eviction fits how it is used.

mod array_cache;
mod chooser;
mod keys;
mod lru_keys;
mod pinned_keys;
mod sketch;
mod tiny_lfu;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

pub use array_cache::{ArrayCache, ArrayCacheSettings, ArrayCacheStatistics, CachedArray};
use chooser::PolicyChooser;
use keys::{KeyPolicy, make};

/// Which entries leave when the cache is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CachePolicy {
    /// The one that small shadow caches show to be best.
    Auto,
    /// None: what is in stays in, and what does not fit is not taken. Best for epochs, where each key comes once a pass.
    Pin,
    /// The least recently used.
    Lru,
    /// W-TinyLFU: what is used least often. Best where some keys are much more popular than others.
    TinyLfu,
}

impl CachePolicy {
    /// Its name in statistics and settings.
    pub fn name(self) -> &'static str {
        match self {
            CachePolicy::Auto => "auto",
            CachePolicy::Pin => "pin",
            CachePolicy::Lru => "lru",
            CachePolicy::TinyLfu => "tinylfu",
        }
    }
}

/// What happened in a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheCounts {
    /// Requests that were in it.
    pub hits: u64,
    /// Requests that were not.
    pub misses: u64,
    /// Entries that left because others needed the room.
    pub evictions: u64,
    /// Values that were not taken.
    pub refused: u64,
    /// Entries in it.
    pub entries: usize,
    /// Bytes in it.
    pub used_bytes: usize,
    /// The policy in force; never `Auto`.
    pub policy: CachePolicy,
}

/// Values under keys, each with its size in bytes.
#[derive(Debug)]
pub struct PolicyCache<V> {
    entries: HashMap<u64, (V, usize)>,
    keys: Box<dyn KeyPolicy>,
    policy: CachePolicy,
    chooser: Option<PolicyChooser>,
    budget_bytes: usize,
    used_bytes: usize,
    hits: u64,
    misses: u64,
    evictions: u64,
    refused: u64,
}

impl<V> PolicyCache<V> {
    /// An empty cache.
    pub fn new(budget_bytes: usize, policy: CachePolicy) -> PolicyCache<V> {
        let chooser = (policy == CachePolicy::Auto).then(|| PolicyChooser::new(budget_bytes));
        let policy = chooser.as_ref().map_or(policy, PolicyChooser::chosen);
        PolicyCache {
            entries: HashMap::new(),
            keys: make(policy, budget_bytes),
            policy,
            chooser,
            budget_bytes,
            used_bytes: 0,
            hits: 0,
            misses: 0,
            evictions: 0,
            refused: 0,
        }
    }

    /// The value, if it is there.
    pub fn get(&mut self, key: u64) -> Option<&V> {
        let bytes = self.entries.get(&key).map(|(_, bytes)| *bytes);
        self.keys.request(key);
        if let Some(chooser) = &mut self.chooser
            && let Some(better) = chooser.request(key, bytes)
        {
            self.switch(better);
        }
        match bytes {
            Some(_) => self.hits += 1,
            None => self.misses += 1,
        }
        self.entries.get(&key).map(|(value, _)| value)
    }

    /// Puts a value in, or in place of the one there. Returns what had to leave, the value itself where it is not taken.
    pub fn insert(&mut self, key: u64, value: V, bytes: usize) -> Vec<(u64, V)> {
        self.remove(key);
        // It would push out everything and not fit even then.
        if bytes > self.budget_bytes {
            self.refused += 1;
            return vec![(key, value)];
        }
        if let Some(chooser) = &mut self.chooser {
            chooser.insert(key, bytes);
        }
        self.entries.insert(key, (value, bytes));
        self.used_bytes += bytes;
        let leaving = self.keys.insert(key, bytes);
        let gone: Vec<_> = leaving
            .into_iter()
            .filter_map(|key| Some((key, self.take(key)?)))
            .collect();
        let is_refused = gone.iter().any(|&(left, _)| left == key);
        self.refused += u64::from(is_refused);
        self.evictions += gone.len() as u64 - u64::from(is_refused);
        gone
    }

    /// Changes the budget; what does not fit any more leaves.
    pub fn resize(&mut self, budget_bytes: usize) {
        self.budget_bytes = budget_bytes;
        if let Some(chooser) = &mut self.chooser {
            chooser.resize(budget_bytes);
        }
        for key in self.keys.resize(budget_bytes) {
            self.evictions += u64::from(self.take(key).is_some());
        }
    }

    /// Takes a value out.
    pub fn remove(&mut self, key: u64) -> Option<V> {
        self.keys.remove(key);
        self.take(key)
    }

    fn take(&mut self, key: u64) -> Option<V> {
        let (value, bytes) = self.entries.remove(&key)?;
        self.used_bytes -= bytes;
        Some(value)
    }

    /// Whether a key is in, without counting a request.
    pub fn contains(&self, key: u64) -> bool {
        self.entries.contains_key(&key)
    }

    /// What happened so far.
    pub fn counts(&self) -> CacheCounts {
        CacheCounts {
            hits: self.hits,
            misses: self.misses,
            evictions: self.evictions,
            refused: self.refused,
            entries: self.entries.len(),
            used_bytes: self.used_bytes,
            policy: self.policy,
        }
    }

    /// Everything in it stays, under another policy.
    fn switch(&mut self, policy: CachePolicy) {
        self.policy = policy;
        self.keys = make(policy, self.budget_bytes);
        for (&key, &(_, bytes)) in &self.entries {
            self.keys.adopt(key, bytes);
        }
    }
}

#[cfg(test)]
mod tests;
