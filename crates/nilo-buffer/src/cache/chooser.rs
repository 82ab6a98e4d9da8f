//! Which policy fits: each is tried by a shadow cache that sees a share of the keys and holds no values.

use super::CachePolicy;
use super::keys::{KeyPolicy, make};
use super::sketch::spread;

const POLICIES: [CachePolicy; 3] = [CachePolicy::TinyLfu, CachePolicy::Pin, CachePolicy::Lru];
/// One key of so many is watched; the shadows have the same share of the budget.
const KEYS_PER_WATCHED: u64 = 4;
/// Requests of watched keys between two decisions.
const PERIOD: u64 = 2048;
/// Another policy has to be better by this share of the requests.
const LEAST_GAIN: f64 = 0.02;

#[derive(Debug)]
pub(super) struct PolicyChooser {
    shadows: [(Box<dyn KeyPolicy>, u64); 3],
    chosen: usize,
    requests: u64,
    /// The watched key asked for last, and which shadows did not have it.
    missed: Option<(u64, [bool; 3])>,
}

impl PolicyChooser {
    pub(super) fn new(budget_bytes: usize) -> PolicyChooser {
        let share = budget_bytes / KEYS_PER_WATCHED as usize;
        PolicyChooser {
            shadows: POLICIES.map(|policy| (make(policy, share), 0)),
            chosen: 0,
            requests: 0,
            missed: None,
        }
    }

    pub(super) fn chosen(&self) -> CachePolicy {
        POLICIES[self.chosen]
    }

    /// A request for a key; `bytes` are known if it is in the real cache. Another policy, when that is found better.
    pub(super) fn request(&mut self, key: u64, bytes: Option<usize>) -> Option<CachePolicy> {
        if !is_watched(key) {
            return None;
        }
        let mut missed = [false; 3];
        for ((shadow, hits), missed) in self.shadows.iter_mut().zip(&mut missed) {
            if shadow.request(key) {
                *hits += 1;
            } else if let Some(bytes) = bytes {
                shadow.insert(key, bytes);
            } else {
                *missed = true;
            }
        }
        self.missed = Some((key, missed));
        self.requests += 1;
        (self.requests >= PERIOD).then(|| self.decide()).flatten()
    }

    /// A key comes in: because it was missed, or without being asked for.
    pub(super) fn insert(&mut self, key: u64, bytes: usize) {
        if !is_watched(key) {
            return;
        }
        let missed = self.missed.take().filter(|(asked, _)| *asked == key);
        for (index, (shadow, _)) in self.shadows.iter_mut().enumerate() {
            if missed.is_none_or(|(_, missed)| missed[index]) {
                shadow.remove(key);
                shadow.insert(key, bytes);
            }
        }
    }

    pub(super) fn resize(&mut self, budget_bytes: usize) {
        for (shadow, _) in &mut self.shadows {
            shadow.resize(budget_bytes / KEYS_PER_WATCHED as usize);
        }
    }

    fn decide(&mut self) -> Option<CachePolicy> {
        let hits = self.shadows.each_ref().map(|(_, hits)| *hits);
        let best = (0..hits.len()).max_by_key(|&index| (hits[index], index == self.chosen))?;
        let gain = (hits[best] - hits[self.chosen]) as f64 / self.requests as f64;
        for (_, hits) in &mut self.shadows {
            *hits = 0;
        }
        self.requests = 0;
        if gain < LEAST_GAIN {
            return None;
        }
        self.chosen = best;
        Some(POLICIES[best])
    }
}

fn is_watched(key: u64) -> bool {
    spread(key ^ 0x9e37_79b9_7f4a_7c15).is_multiple_of(KEYS_PER_WATCHED)
}
