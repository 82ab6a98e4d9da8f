//! One part of the observations of all environments, and which frames each transition has.

use std::path::Path;

use crate::block_cache::BlockCache;
use crate::element::ElementKind;
use crate::error::BufferError;
use crate::frame_encoder::FrameCodec;
use crate::frames::FrameLog;
use crate::observation_log::{FrameStore, ObservationLog};
use crate::row_chunk::RowShape;
use crate::rows::RowLog;
use crate::settings::{ObservationSettings, ReplaySettings, row_shape};
use crate::stacking::StackLayout;

/// Rows shorter than this are stored as they are: an index and a codec for each would cost more than they save.
const LEAST_FRAME_BYTES: usize = 256;

#[derive(Debug)]
pub(crate) struct ObservationColumn {
    pub(crate) settings: ObservationSettings,
    pub(crate) environments: Vec<ObservationLog>,
    /// The number of each transition's observation in its environment's log, the lower half of it.
    pub(crate) ids: RowLog,
    /// How far the number of the next observation is from that.
    pub(crate) steps: RowLog,
}

impl ObservationColumn {
    /// `log_number` counts the logs of the whole buffer.
    pub(crate) fn new(
        settings: &ObservationSettings,
        whole: &ReplaySettings,
        log_number: &mut u32,
    ) -> Result<ObservationColumn, BufferError> {
        let shape = row_shape(&settings.name, settings.kind, &settings.shape)?;
        let frame_bytes = shape.bytes() / settings.stack;
        let last_axis_bytes = settings.kind.size() * settings.shape.last().copied().unwrap_or(1);
        let layout = StackLayout::new(
            settings.stack,
            frame_bytes,
            settings.stack_axis,
            last_axis_bytes,
        );
        let is_short = settings.stack == 1
            && (frame_bytes < LEAST_FRAME_BYTES || settings.codec == FrameCodec::Raw)
            && matches!(settings.codec, FrameCodec::Auto | FrameCodec::Raw);
        let most_open_bytes = whole.most_open_bytes();
        let environments = (0..whole.environments)
            .map(|_| {
                *log_number += 1;
                let store = match is_short {
                    true => FrameStore::Rows(RowLog::new(
                        shape,
                        whole.steps(),
                        most_open_bytes,
                        *log_number,
                    )),
                    false => FrameStore::Frames(FrameLog::new(
                        frame_bytes,
                        whole.steps(),
                        most_open_bytes,
                        settings.codec,
                        *log_number,
                    )),
                };
                ObservationLog::new(layout, store)
            })
            .collect();
        let mut links = |kind| {
            *log_number += 1;
            let shape = RowShape { kind, elements: 1 };
            RowLog::new(shape, whole.capacity, most_open_bytes, *log_number)
        };
        Ok(ObservationColumn {
            settings: settings.clone(),
            environments,
            ids: links(ElementKind::U32),
            steps: links(ElementKind::U8),
        })
    }

    /// Adds one transition of each environment; the arrays have one observation after the other.
    pub(crate) fn add(&mut self, observations: &[u8], next_observations: &[u8]) {
        let bytes = self.settings.bytes();
        let pairs = observations
            .chunks_exact(bytes)
            .zip(next_observations.chunks_exact(bytes));
        for (log, (observation, next_observation)) in self.environments.iter_mut().zip(pairs) {
            let (id, step) = log.add(observation, next_observation);
            self.ids.append(&(id as u32).to_le_bytes());
            self.steps.append(&[step]);
        }
    }

    fn environment_of(&self, row: u64) -> &ObservationLog {
        &self.environments[(row % self.environments.len() as u64) as usize]
    }

    /// The numbers of a transition's observation and of the next one.
    pub(crate) fn ids_of(&self, row: u64, cache: &BlockCache) -> Result<(u64, u64), BufferError> {
        let (mut low, mut step) = ([0; 4], [0; 1]);
        self.ids.read(row, cache, &mut low)?;
        self.steps.read(row, cache, &mut step)?;
        let end = self.environment_of(row).store.next();
        let back = (end as u32).wrapping_sub(u32::from_le_bytes(low));
        let id = end
            .checked_sub(u64::from(back))
            .ok_or(BufferError::Damaged("a transition's frame number"))?;
        Ok((id, id + u64::from(step[0])))
    }

    /// Whether a transition begins with the observation that the one before it ended with.
    pub(crate) fn follows(
        &self,
        row: u64,
        before: u64,
        cache: &BlockCache,
    ) -> Result<bool, BufferError> {
        Ok(self.ids_of(before, cache)?.1 == self.ids_of(row, cache)?.0)
    }

    /// Reads the observation of `row` and the next observation of `last_row`, which is the same or a later one.
    pub(crate) fn read(
        &self,
        row: u64,
        last_row: u64,
        cache: &BlockCache,
        outs: (&mut [u8], &mut [u8]),
        scratch: &mut Vec<u8>,
    ) -> Result<(), BufferError> {
        let log = self.environment_of(row);
        let (id, mut next_id) = self.ids_of(row, cache)?;
        if last_row != row {
            next_id = self.ids_of(last_row, cache)?.1;
        }
        log.read_pair((id, next_id), cache, outs, scratch)
    }

    /// Drops what only transitions before `first_row` need.
    pub(crate) fn drop_before(&mut self, first_row: u64, cache: &mut BlockCache) {
        let count = self.environments.len() as u64;
        for row in first_row..(first_row + count).min(self.ids.next()) {
            if let Ok((id, _)) = self.ids_of(row, cache) {
                let log = &mut self.environments[(row % count) as usize];
                let oldest = log.oldest_of(id);
                log.store.drop_before(oldest, cache);
            }
        }
        self.ids.drop_before(first_row, cache);
        self.steps.drop_before(first_row, cache);
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let frames: usize = self
            .environments
            .iter()
            .map(ObservationLog::heap_bytes)
            .sum();
        frames + self.ids.heap_bytes() + self.steps.heap_bytes()
    }

    pub(crate) fn disk_bytes(&self) -> usize {
        let frames: usize = self
            .environments
            .iter()
            .map(|log| log.store.disk_bytes())
            .sum();
        frames + self.ids.disk_bytes() + self.steps.disk_bytes()
    }

    /// Moves the oldest piece of the environment with the most in memory. Returns how many bytes left memory.
    pub(crate) fn spill_oldest(&mut self, folder: &Path) -> Result<usize, BufferError> {
        let mut order: Vec<usize> = (0..self.environments.len()).collect();
        order.sort_by_key(|&index| std::cmp::Reverse(self.environments[index].store.heap_bytes()));
        for index in order {
            let moved = self.environments[index].store.spill_oldest(folder)?;
            if moved > 0 {
                return Ok(moved);
            }
        }
        match self.ids.spill_oldest(folder)? {
            0 => self.steps.spill_oldest(folder),
            moved => Ok(moved),
        }
    }

    pub(crate) fn compress_oldest(&mut self) -> usize {
        self.environments
            .iter_mut()
            .map(|log| log.store.compress_oldest())
            .find(|&saved| saved > 0)
            .unwrap_or(0)
    }
}
