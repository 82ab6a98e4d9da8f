//! Drawing transitions and reading them into the caller's arrays.

use fastrand::Rng;

use crate::error::BufferError;
use crate::replay::{ReplayStore, TERMINATED, TRUNCATED};

/// Where a batch goes; each array has room for one row of each transition.
#[derive(Debug)]
pub struct BatchTargets<'a> {
    /// For each part of the observations, the observation and the next one.
    pub observations: Vec<(&'a mut [u8], &'a mut [u8])>,
    /// The other columns.
    pub columns: Vec<&'a mut [u8]>,
    /// Rewards, or n-step returns.
    pub rewards: &'a mut [f32],
    /// 1 where the episode came to its end, not where it was cut off.
    pub terminated: &'a mut [f32],
    /// 1 where it was cut off.
    pub truncated: &'a mut [f32],
    /// What the value of the next observation is to be multiplied with.
    pub discounts: &'a mut [f32],
}

/// How many rewards are added up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Returns {
    /// Transitions at most; fewer where the episode or the buffer ends.
    pub steps: usize,
    /// What a reward counts less with each step.
    pub gamma: f32,
}

impl ReplayStore {
    /// Draws transitions, each as likely as the others.
    pub fn draw_uniform(&self, count: usize, random: &mut Rng) -> Result<Vec<u64>, BufferError> {
        if self.is_empty() {
            return Err(BufferError::Empty);
        }
        Ok((0..count)
            .map(|_| random.u64(self.first..self.next))
            .collect())
    }

    /// Draws transitions by priority, one from each of `count` equal shares of the sum, with the weights of their losses.
    pub fn draw_prioritized(
        &self,
        count: usize,
        beta: f32,
        random: &mut Rng,
    ) -> Result<(Vec<u64>, Vec<f32>), BufferError> {
        let priorities = self.priorities.as_ref().ok_or(BufferError::NoPriorities)?;
        if self.is_empty() {
            return Err(BufferError::Empty);
        }
        let share = priorities.tree.total() / count as f64;
        let places =
            (0..count).map(|index| priorities.tree.find((index as f64 + random.f64()) * share));
        let (rows, weights) = places
            .map(|place| (self.row_at(place), priorities.weight(place, beta)))
            .unzip();
        Ok((rows, weights))
    }

    /// Sets the priorities of transitions; those that have left in the meantime are passed over.
    pub fn set_priorities(&mut self, rows: &[u64], values: &[f32]) -> Result<(), BufferError> {
        let (capacity, stored) = (self.capacity() as u64, self.rows());
        let priorities = self.priorities.as_mut().ok_or(BufferError::NoPriorities)?;
        for (row, &value) in rows.iter().zip(values) {
            if stored.contains(row) {
                priorities.set((row % capacity) as usize, value)?;
            }
        }
        Ok(())
    }

    /// The transition stored at a place.
    fn row_at(&self, place: usize) -> u64 {
        let capacity = self.capacity() as u64;
        let first_place = self.first % capacity;
        self.first + (place as u64 + capacity - first_place) % capacity
    }

    /// Reads transitions into the caller's arrays.
    pub fn read(
        &self,
        rows: &[u64],
        returns: Returns,
        targets: &mut BatchTargets<'_>,
    ) -> Result<(), BufferError> {
        self.check_targets(rows, targets)?;
        let mut scratch = Vec::new();
        for (index, &row) in rows.iter().enumerate() {
            let last = self.read_returns(row, index, returns, targets)?;
            for (column, (now, next)) in self.observations.iter().zip(&mut targets.observations) {
                let bytes = column.settings.bytes();
                let range = index * bytes..(index + 1) * bytes;
                let outs = (&mut now[range.clone()], &mut next[range]);
                column.read(row, last, &self.cache, outs, &mut scratch)?;
            }
            for (column, out) in self.columns.iter().zip(&mut targets.columns) {
                let bytes = column.shape().bytes();
                column.read(
                    row,
                    &self.cache,
                    &mut out[index * bytes..(index + 1) * bytes],
                )?;
            }
        }
        Ok(())
    }

    /// Adds up rewards from `row` on, until the episode is over. Returns the last transition that counted.
    fn read_returns(
        &self,
        row: u64,
        index: usize,
        returns: Returns,
        targets: &mut BatchTargets<'_>,
    ) -> Result<u64, BufferError> {
        let (mut last, mut sum, mut discount) = (row, 0.0, 1.0_f64);
        let mut flags;
        let mut step = 1;
        loop {
            sum += discount * f64::from(self.reward(last)?);
            discount *= f64::from(returns.gamma);
            flags = self.flags_of(last)?;
            let following = last + self.settings.environments as u64;
            if step >= returns.steps
                || flags != 0
                || following >= self.next
                || !self.continues(following, last)?
            {
                break;
            }
            last = following;
            step += 1;
        }
        targets.rewards[index] = sum as f32;
        targets.terminated[index] = f32::from(u8::from(flags & TERMINATED != 0));
        targets.truncated[index] = f32::from(u8::from(flags & TRUNCATED != 0));
        targets.discounts[index] = discount as f32;
        Ok(last)
    }

    /// Whether nothing was reset between two transitions, as far as the observations tell.
    fn continues(&self, row: u64, before: u64) -> Result<bool, BufferError> {
        for column in &self.observations {
            if !column.follows(row, before, &self.cache)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn reward(&self, row: u64) -> Result<f32, BufferError> {
        let mut bytes = [0; 4];
        self.rewards.read(row, &self.cache, &mut bytes)?;
        Ok(f32::from_le_bytes(bytes))
    }

    fn flags_of(&self, row: u64) -> Result<u8, BufferError> {
        let mut flags = [0];
        self.flags.read(row, &self.cache, &mut flags)?;
        Ok(flags[0])
    }

    fn check_targets(&self, rows: &[u64], targets: &BatchTargets<'_>) -> Result<(), BufferError> {
        if let Some(&row) = rows.iter().find(|row| !self.rows().contains(row)) {
            return Err(BufferError::NotStored {
                row,
                first: self.first,
                last: self.next.saturating_sub(1),
            });
        }
        let fits = |name: &str, found: usize, bytes: usize| match found == bytes * rows.len() {
            true => Ok(()),
            false => Err(BufferError::Size {
                column: name.to_owned(),
                found,
                expected: bytes * rows.len(),
            }),
        };
        for (column, (now, next)) in self.observations.iter().zip(&targets.observations) {
            fits(
                &column.settings.name,
                now.len().min(next.len()),
                column.settings.bytes(),
            )?;
        }
        for ((column, settings), out) in self
            .columns
            .iter()
            .zip(&self.settings.columns)
            .zip(&targets.columns)
        {
            fits(&settings.name, out.len(), column.shape().bytes())?;
        }
        for out in [
            &*targets.rewards,
            &*targets.terminated,
            &*targets.truncated,
            &*targets.discounts,
        ] {
            fits("returns", out.len(), 1)?;
        }
        let is_whole = targets.observations.len() == self.observations.len()
            && targets.columns.len() == self.columns.len();
        if is_whole {
            Ok(())
        } else {
            Err(BufferError::Setting(
                "a batch needs an array for each column".to_owned(),
            ))
        }
    }
}
