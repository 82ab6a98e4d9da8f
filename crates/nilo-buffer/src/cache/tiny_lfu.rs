//! W-TinyLFU: a small window of new keys, and a main part that a key enters only if it is asked for more often than the one that would leave.

use super::keys::KeyPolicy;
use super::lru_keys::LruKeys;
use super::sketch::FrequencySketch;

/// Of the budget, the share for new keys; of the rest, the share for keys asked for again. Both as in Caffeine.
const WINDOW_SHARE: f64 = 0.01;
const PROTECTED_SHARE: f64 = 0.8;

struct Shares {
    window_bytes: usize,
    main_bytes: usize,
    protected_bytes: usize,
}

impl Shares {
    fn of(budget_bytes: usize) -> Shares {
        let window_bytes = (budget_bytes as f64 * WINDOW_SHARE) as usize;
        let main_bytes = budget_bytes - window_bytes;
        Shares {
            window_bytes,
            main_bytes,
            protected_bytes: (main_bytes as f64 * PROTECTED_SHARE) as usize,
        }
    }
}

#[derive(Debug)]
pub(super) struct TinyLfuKeys {
    window: LruKeys,
    probation: LruKeys,
    protected: LruKeys,
    main_budget_bytes: usize,
    sketch: FrequencySketch,
    keys: usize,
}

impl TinyLfuKeys {
    pub(super) fn new(budget_bytes: usize) -> TinyLfuKeys {
        let shares = Shares::of(budget_bytes);
        TinyLfuKeys {
            window: LruKeys::new(shares.window_bytes),
            probation: LruKeys::new(shares.main_bytes - shares.protected_bytes),
            protected: LruKeys::new(shares.protected_bytes),
            main_budget_bytes: shares.main_bytes,
            sketch: FrequencySketch::new(),
            keys: 0,
        }
    }

    fn main_used_bytes(&self) -> usize {
        self.probation.used_bytes + self.protected.used_bytes
    }

    /// A key that left the window takes the place of less popular ones, or leaves. Returns who leaves.
    fn contest(&mut self, key: u64, bytes: usize, leaving: &mut Vec<u64>) {
        let wins = |sketch: &FrequencySketch, victim| sketch.count(key) > sketch.count(victim);
        while self.main_used_bytes() + bytes > self.main_budget_bytes {
            let (part, victim) = match (self.probation.oldest(), self.protected.oldest()) {
                (Some(victim), _) => (&mut self.probation, victim),
                (None, Some(victim)) => (&mut self.protected, victim),
                (None, None) => {
                    leaving.push(key);
                    return;
                }
            };
            if !wins(&self.sketch, victim) {
                leaving.push(key);
                return;
            }
            part.pop_oldest();
            leaving.push(victim);
        }
        self.probation.adopt(key, bytes);
    }
}

impl KeyPolicy for TinyLfuKeys {
    fn request(&mut self, key: u64) -> bool {
        self.sketch.add(key);
        if let Some(bytes) = self.probation.take(key) {
            self.protected.adopt(key, bytes);
            while self.protected.is_above_budget()
                && let Some((oldest, bytes)) = self.protected.pop_oldest()
            {
                self.probation.adopt(oldest, bytes);
            }
            return true;
        }
        self.window.request(key) || self.protected.request(key)
    }

    fn insert(&mut self, key: u64, bytes: usize) -> Vec<u64> {
        self.keys += 1;
        self.sketch.hold(self.keys);
        self.window.adopt(key, bytes);
        let mut leaving = Vec::new();
        while self.window.is_above_budget()
            && let Some((candidate, bytes)) = self.window.pop_oldest()
        {
            self.contest(candidate, bytes, &mut leaving);
        }
        self.keys -= leaving.len();
        leaving
    }

    fn adopt(&mut self, key: u64, bytes: usize) {
        self.keys += 1;
        match self.main_used_bytes() + bytes > self.main_budget_bytes {
            true => self.window.adopt(key, bytes),
            false => self.probation.adopt(key, bytes),
        }
    }

    fn remove(&mut self, key: u64) {
        for part in [&mut self.window, &mut self.probation, &mut self.protected] {
            if part.take(key).is_some() {
                self.keys -= 1;
            }
        }
    }

    fn resize(&mut self, budget_bytes: usize) -> Vec<u64> {
        let shares = Shares::of(budget_bytes);
        self.window.budget_bytes = shares.window_bytes;
        self.probation.budget_bytes = shares.main_bytes - shares.protected_bytes;
        self.protected.budget_bytes = shares.protected_bytes;
        self.main_budget_bytes = shares.main_bytes;
        let mut leaving = Vec::new();
        while self.main_used_bytes() > self.main_budget_bytes
            && let Some((oldest, _)) = self
                .probation
                .pop_oldest()
                .or_else(|| self.protected.pop_oldest())
        {
            leaving.push(oldest);
        }
        while self.window.is_above_budget()
            && let Some((candidate, bytes)) = self.window.pop_oldest()
        {
            self.contest(candidate, bytes, &mut leaving);
        }
        self.keys -= leaving.len();
        leaving
    }
}
