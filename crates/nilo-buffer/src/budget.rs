//! Staying within the memory budget: the cache shrinks, old rows are compressed, then segments go to disk, then the oldest transitions leave.

use crate::error::BufferError;
use crate::replay::ReplayStore;
use crate::settings::ReplaySettings;

/// The cache of decoded frames takes at most this share of the budget.
const CACHE_SHARE: usize = 4;
/// And shrinks to this share before rows are compressed or go to disk; before transitions are dropped, to nothing.
const KEPT_CACHE_SHARE: usize = 8;
/// When transitions have to leave, so large a share of them leaves at once.
const DROPPED_SHARE: u64 = 64;

impl ReplayStore {
    /// Bytes in memory: all that is stored, with its index, and the cache of decoded frames and chunks.
    pub fn heap_bytes(&self) -> usize {
        self.stored_heap_bytes() + self.cache.counts().used_bytes
    }

    pub(crate) fn stored_heap_bytes(&self) -> usize {
        let observations: usize = self
            .observations
            .iter()
            .map(|column| column.heap_bytes())
            .sum();
        let columns: usize = self.columns.iter().map(|column| column.heap_bytes()).sum();
        let priorities = self
            .priorities
            .as_ref()
            .map_or(0, |priorities| priorities.tree.heap_bytes());
        observations + columns + self.rewards.heap_bytes() + self.flags.heap_bytes() + priorities
    }

    /// Bytes on disk.
    pub fn disk_bytes(&self) -> usize {
        let observations: usize = self
            .observations
            .iter()
            .map(|column| column.disk_bytes())
            .sum();
        let columns: usize = self.columns.iter().map(|column| column.disk_bytes()).sum();
        observations + columns + self.rewards.disk_bytes() + self.flags.disk_bytes()
    }

    /// Transitions that were dropped for memory since this buffer was made or loaded.
    pub fn dropped_here(&self) -> u64 {
        self.dropped_for_memory - self.dropped_before_loading
    }

    /// Why the latest piece could not go to disk, where one could not.
    pub fn spill_failure(&self) -> Option<&BufferError> {
        self.spill_failure.as_ref()
    }

    pub(crate) fn keep_budget(&mut self) {
        let Some(budget_bytes) = self.settings.max_bytes else {
            return;
        };
        let kept_cache_bytes = self.cache.most_bytes().min(budget_bytes / KEPT_CACHE_SHARE);
        let stored = self.stored_heap_bytes();
        if stored + kept_cache_bytes > budget_bytes {
            self.free_some(stored + kept_cache_bytes - budget_bytes);
        }
        while self.stored_heap_bytes() > budget_bytes && self.drop_for_memory() {}
        let left = budget_bytes.saturating_sub(self.stored_heap_bytes());
        self.cache.set_limit(left);
    }

    /// Compresses or moves old pieces until so many bytes are free, or nothing is left to do.
    fn free_some(&mut self, wanted_bytes: usize) {
        let mut freed = 0;
        while self.settings.compress_cold_rows && freed < wanted_bytes {
            let saved = self.compress_oldest();
            if saved == 0 {
                break;
            }
            freed += saved;
        }
        while freed < wanted_bytes {
            match self.spill_oldest() {
                Ok(0) => break,
                Ok(moved) => freed += moved,
                // The disk is full, for example. It stays in memory, and the oldest leaves where that is too much.
                Err(error) => {
                    self.spill_failure = Some(error);
                    break;
                }
            }
        }
    }

    fn compress_oldest(&mut self) -> usize {
        let observations = self
            .observations
            .iter_mut()
            .map(|column| column.compress_oldest());
        let columns = self
            .columns
            .iter_mut()
            .map(|column| column.compress_oldest());
        observations
            .chain(columns)
            .find(|&saved| saved > 0)
            .unwrap_or(0)
    }

    fn spill_oldest(&mut self) -> Result<usize, BufferError> {
        let Some(folder) = &self.settings.spill_folder else {
            return Ok(0);
        };
        for column in &mut self.observations {
            let moved = column.spill_oldest(folder)?;
            if moved > 0 {
                return Ok(moved);
            }
        }
        let rows = self
            .columns
            .iter_mut()
            .chain([&mut self.rewards, &mut self.flags]);
        for column in rows {
            let moved = column.spill_oldest(folder)?;
            if moved > 0 {
                return Ok(moved);
            }
        }
        Ok(0)
    }

    /// One step stays, whatever the budget. Whether anything was dropped.
    fn drop_for_memory(&mut self) -> bool {
        let environments = self.settings.environments as u64;
        let steps = (self.next - self.first) / environments;
        let dropped = (steps / DROPPED_SHARE).max(1).min(steps.saturating_sub(1)) * environments;
        if dropped > 0 {
            self.drop_rows(dropped);
            self.dropped_for_memory += dropped;
        }
        dropped > 0
    }
}

impl ReplaySettings {
    /// The most that the cache of decoded frames may take.
    pub(crate) fn most_cache_bytes(&self) -> usize {
        let share = self
            .max_bytes
            .map_or(usize::MAX, |bytes| bytes / CACHE_SHARE);
        self.cache_bytes.min(share)
    }
}
