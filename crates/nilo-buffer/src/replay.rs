//! The replay buffer: transitions in the order they came, the oldest dropped when it is full.
//!
//! Transitions are numbered from the first one ever, environment after environment within a step, and keep their number.

use crate::block::check_spill_folder;
use crate::block_cache::BlockCache;
use crate::element::ElementKind;
use crate::error::BufferError;
use crate::observations::ObservationColumn;
use crate::priorities::Priorities;
use crate::row_chunk::RowShape;
use crate::rows::RowLog;
use crate::settings::{ReplaySettings, row_shape};

/// A bit of a transition's flags.
pub(crate) const TERMINATED: u8 = 1;
/// A bit of a transition's flags.
pub(crate) const TRUNCATED: u8 = 2;

/// One step of all environments: each array has one row for each of them.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// For each part of the observations, the observation and the next one.
    pub observations: &'a [(&'a [u8], &'a [u8])],
    /// The other columns.
    pub columns: &'a [&'a [u8]],
    /// The rewards.
    pub rewards: &'a [f32],
    /// Whether the episode came to its end.
    pub terminated: &'a [bool],
    /// Whether the episode was cut off, by a limit of time.
    pub truncated: &'a [bool],
}

/// A buffer for many readers or one writer; who shares it has the lock.
#[derive(Debug)]
pub struct ReplayStore {
    pub(crate) settings: ReplaySettings,
    pub(crate) observations: Vec<ObservationColumn>,
    pub(crate) columns: Vec<RowLog>,
    pub(crate) rewards: RowLog,
    pub(crate) flags: RowLog,
    pub(crate) priorities: Option<Priorities>,
    pub(crate) cache: BlockCache,
    /// The oldest transition stored.
    pub(crate) first: u64,
    /// The number of the next one.
    pub(crate) next: u64,
    /// Transitions that left before the buffer was full, because memory was short.
    pub(crate) dropped_for_memory: u64,
    /// Those of them that left before the buffer was loaded from a file.
    pub(crate) dropped_before_loading: u64,
    /// Why the latest piece could not go to disk.
    pub(crate) spill_failure: Option<BufferError>,
}

impl ReplayStore {
    /// An empty buffer; memory is taken as it fills.
    pub fn new(settings: ReplaySettings) -> Result<ReplayStore, BufferError> {
        settings.check()?;
        if let Some(folder) = &settings.spill_folder {
            check_spill_folder(folder)?;
        }
        let most_open_bytes = settings.most_open_bytes();
        let mut log_number = 0;
        let observations = settings
            .observations
            .iter()
            .map(|one| ObservationColumn::new(one, &settings, &mut log_number))
            .collect::<Result<_, _>>()?;
        let mut log = |shape| {
            log_number += 1;
            RowLog::new(shape, settings.capacity, most_open_bytes, log_number)
        };
        let columns = settings
            .columns
            .iter()
            .map(|one| Ok(log(row_shape(&one.name, one.kind, &one.shape)?)))
            .collect::<Result<_, BufferError>>()?;
        let rewards = log(RowShape {
            kind: ElementKind::F32,
            elements: 1,
        });
        let flags = log(RowShape {
            kind: ElementKind::U8,
            elements: 1,
        });
        Ok(ReplayStore {
            priorities: settings.priority_exponent.map(Priorities::new),
            cache: BlockCache::new(settings.most_cache_bytes()),
            settings,
            observations,
            columns,
            rewards,
            flags,
            first: 0,
            next: 0,
            dropped_for_memory: 0,
            dropped_before_loading: 0,
            spill_failure: None,
        })
    }

    /// What it was made for.
    pub fn settings(&self) -> &ReplaySettings {
        &self.settings
    }

    /// Transitions stored.
    pub fn len(&self) -> usize {
        (self.next - self.first) as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.next == self.first
    }

    /// The numbers of the transitions stored.
    pub fn rows(&self) -> std::ops::Range<u64> {
        self.first..self.next
    }

    /// The most transitions it holds: a whole number for each environment.
    pub fn capacity(&self) -> usize {
        self.settings.steps() * self.settings.environments
    }

    /// Adds one transition of each environment, and drops the oldest where it is full.
    pub fn add(&mut self, step: Step<'_>) -> Result<(), BufferError> {
        self.check_sizes(step)?;
        for (column, (observations, next_observations)) in
            self.observations.iter_mut().zip(step.observations)
        {
            column.add(observations, next_observations);
        }
        for (column, rows) in self.columns.iter_mut().zip(step.columns) {
            rows.chunks_exact(column.shape().bytes()).for_each(|row| {
                column.append(row);
            });
        }
        let capacity = self.capacity() as u64;
        for (index, reward) in step.rewards.iter().enumerate() {
            self.rewards.append(&reward.to_le_bytes());
            let terminated = if step.terminated[index] {
                TERMINATED
            } else {
                0
            };
            let truncated = if step.truncated[index] { TRUNCATED } else { 0 };
            self.flags.append(&[terminated | truncated]);
            if let Some(priorities) = &mut self.priorities {
                priorities.add((self.next % capacity) as usize);
            }
            self.next += 1;
        }
        if self.next - self.first > capacity {
            self.drop_rows(self.settings.environments as u64);
        }
        self.keep_budget();
        Ok(())
    }

    /// Drops everything; transitions are numbered from zero again.
    pub fn clear(&mut self) -> Result<(), BufferError> {
        let next = ReplayStore::new(self.settings.clone())?;
        *self = next;
        Ok(())
    }

    /// The oldest transitions leave, whole steps.
    pub(crate) fn drop_rows(&mut self, count: u64) {
        let capacity = self.capacity() as u64;
        let first = (self.first + count).min(self.next);
        if let Some(priorities) = &mut self.priorities {
            // Where a newer transition has the place already, it keeps it.
            for row in self.next.saturating_sub(capacity).max(self.first)..first {
                priorities.remove((row % capacity) as usize);
            }
        }
        self.first = first;
        for column in &mut self.observations {
            column.drop_before(first, &mut self.cache);
        }
        for column in &mut self.columns {
            column.drop_before(first, &mut self.cache);
        }
        self.rewards.drop_before(first, &mut self.cache);
        self.flags.drop_before(first, &mut self.cache);
    }

    fn check_sizes(&self, step: Step<'_>) -> Result<(), BufferError> {
        let environments = self.settings.environments;
        let fits = |column: &str, found: usize, expected: usize| match found == expected {
            true => Ok(()),
            false => Err(BufferError::Size {
                column: column.to_owned(),
                found,
                expected,
            }),
        };
        fits(
            "observations",
            step.observations.len(),
            self.observations.len(),
        )?;
        for (column, (observations, next_observations)) in
            self.observations.iter().zip(step.observations)
        {
            let expected = column.settings.bytes() * environments;
            fits(&column.settings.name, observations.len(), expected)?;
            fits(
                &format!("next {}", column.settings.name),
                next_observations.len(),
                expected,
            )?;
        }
        fits("columns", step.columns.len(), self.columns.len())?;
        for ((column, settings), rows) in self
            .columns
            .iter()
            .zip(&self.settings.columns)
            .zip(step.columns)
        {
            fits(
                &settings.name,
                rows.len(),
                column.shape().bytes() * environments,
            )?;
        }
        fits("rewards", step.rewards.len(), environments)?;
        fits("terminated", step.terminated.len(), environments)?;
        fits("truncated", step.truncated.len(), environments)
    }
}
