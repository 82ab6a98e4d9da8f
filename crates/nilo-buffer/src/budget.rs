//! Staying within the memory budget: old rows are compressed, then segments go to disk, then the oldest transitions leave.

use crate::error::BufferError;
use crate::replay::ReplayStore;

/// The memory held is added up again after at most so many transitions.
const MOST_ROWS_BETWEEN: usize = 256;
/// And as often as this share of the budget could have come in, if nothing could be compressed.
const SHARE_BETWEEN: usize = 16;
/// When transitions have to leave, so large a share of them leaves at once.
const DROPPED_SHARE: u64 = 64;

impl ReplayStore {
    /// Bytes in memory.
    pub fn heap_bytes(&self) -> usize {
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
        observations
            + columns
            + self.rewards.heap_bytes()
            + self.flags.heap_bytes()
            + priorities
            + self.cache.counts().used_bytes
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

    pub(crate) fn keep_budget(&mut self) -> Result<(), BufferError> {
        let Some(budget_bytes) = self.settings.max_bytes else {
            return Ok(());
        };
        self.rows_until_check = self
            .rows_until_check
            .saturating_sub(self.settings.environments);
        if self.rows_until_check > 0 {
            return Ok(());
        }
        let by_size = budget_bytes / SHARE_BETWEEN / self.settings.uncompressed_row_bytes();
        self.rows_until_check = by_size.min(MOST_ROWS_BETWEEN);
        let mut held = self.heap_bytes();
        while held > budget_bytes {
            let freed = self.free_some(held - budget_bytes)?;
            if freed == 0 {
                let before = self.next - self.first;
                self.drop_for_memory();
                if self.next - self.first == before {
                    break;
                }
                held = self.heap_bytes();
            } else {
                held = held.saturating_sub(freed);
            }
        }
        Ok(())
    }

    /// Compresses or moves old pieces until so many bytes are free, or nothing is left to do.
    fn free_some(&mut self, wanted_bytes: usize) -> Result<usize, BufferError> {
        let mut freed = 0;
        while self.settings.compress_cold_rows && freed < wanted_bytes {
            let saved = self.compress_oldest();
            if saved == 0 {
                break;
            }
            freed += saved;
        }
        while freed < wanted_bytes {
            let moved = self.spill_oldest()?;
            if moved == 0 {
                break;
            }
            freed += moved;
        }
        Ok(freed)
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
        for column in &mut self.columns {
            let moved = column.spill_oldest(folder)?;
            if moved > 0 {
                return Ok(moved);
            }
        }
        Ok(0)
    }

    /// One step stays, whatever the budget.
    fn drop_for_memory(&mut self) {
        let environments = self.settings.environments as u64;
        let steps = (self.next - self.first) / environments;
        let dropped = (steps / DROPPED_SHARE).max(1).min(steps.saturating_sub(1)) * environments;
        if dropped > 0 {
            self.drop_rows(dropped);
            self.dropped_for_memory += dropped;
        }
    }
}
