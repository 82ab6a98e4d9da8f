//! What is in stays in.

use std::collections::HashMap;

use super::keys::KeyPolicy;

#[derive(Debug)]
pub(super) struct PinnedKeys {
    bytes: HashMap<u64, usize>,
    used_bytes: usize,
    budget_bytes: usize,
}

impl PinnedKeys {
    pub(super) fn new(budget_bytes: usize) -> PinnedKeys {
        PinnedKeys {
            bytes: HashMap::new(),
            used_bytes: 0,
            budget_bytes,
        }
    }
}

impl KeyPolicy for PinnedKeys {
    fn request(&mut self, key: u64) -> bool {
        self.bytes.contains_key(&key)
    }

    fn insert(&mut self, key: u64, bytes: usize) -> Vec<u64> {
        if self.used_bytes + bytes > self.budget_bytes {
            return vec![key];
        }
        self.adopt(key, bytes);
        Vec::new()
    }

    fn adopt(&mut self, key: u64, bytes: usize) {
        self.remove(key);
        self.bytes.insert(key, bytes);
        self.used_bytes += bytes;
    }

    fn remove(&mut self, key: u64) {
        self.used_bytes -= self.bytes.remove(&key).unwrap_or(0);
    }

    /// Any of them may leave: none is known to be better than another.
    fn resize(&mut self, budget_bytes: usize) -> Vec<u64> {
        self.budget_bytes = budget_bytes;
        let mut too_many = self.used_bytes.saturating_sub(budget_bytes);
        let mut leaving = Vec::new();
        for (&key, &bytes) in &self.bytes {
            if too_many == 0 {
                break;
            }
            too_many = too_many.saturating_sub(bytes);
            leaving.push(key);
        }
        for &key in &leaving {
            self.remove(key);
        }
        leaving
    }
}
