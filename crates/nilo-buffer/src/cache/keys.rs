//! What an eviction policy is: it knows keys and sizes, never values.

use std::fmt::Debug;

use super::CachePolicy;
use super::lru_keys::LruKeys;
use super::pinned_keys::PinnedKeys;
use super::tiny_lfu::TinyLfuKeys;

pub(super) trait KeyPolicy: Debug + Send {
    /// Somebody asks for a key, which may be in or not. Whether it is in.
    fn request(&mut self, key: u64) -> bool;

    /// A new key comes in. Returns the keys that have to leave, among them possibly the new one.
    fn insert(&mut self, key: u64, bytes: usize) -> Vec<u64>;

    /// A key that is in the cache already, under another policy; nothing leaves.
    fn adopt(&mut self, key: u64, bytes: usize);

    fn remove(&mut self, key: u64);

    /// The budget changes. Returns the keys that have to leave.
    fn resize(&mut self, budget_bytes: usize) -> Vec<u64>;
}

pub(super) fn make(policy: CachePolicy, budget_bytes: usize) -> Box<dyn KeyPolicy> {
    match policy {
        CachePolicy::Pin => Box::new(PinnedKeys::new(budget_bytes)),
        CachePolicy::Lru => Box::new(LruKeys::new(budget_bytes)),
        CachePolicy::TinyLfu | CachePolicy::Auto => Box::new(TinyLfuKeys::new(budget_bytes)),
    }
}
