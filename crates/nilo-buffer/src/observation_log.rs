//! The observations of one environment: each frame once, found again by its number.

use std::path::Path;

use crate::block_cache::BlockCache;
use crate::error::BufferError;
use crate::frame_segment::{FrameForm, FrameHead, Padding};
use crate::frames::FrameLog;
use crate::rows::RowLog;
use crate::stacking::StackLayout;

/// Where the frames lie. Short rows of numbers need neither a codec nor an index.
#[derive(Debug)]
pub(crate) enum FrameStore {
    Frames(FrameLog),
    Rows(RowLog),
}

impl FrameStore {
    fn append(&mut self, frame: &[u8], reach_back: u8, padding: Padding) -> u64 {
        match self {
            FrameStore::Frames(log) => log.append(frame, reach_back, padding),
            FrameStore::Rows(log) => log.append(frame),
        }
    }

    pub(crate) fn next(&self) -> u64 {
        match self {
            FrameStore::Frames(log) => log.next(),
            FrameStore::Rows(log) => log.next(),
        }
    }

    fn head(&self, id: u64) -> Result<FrameHead, BufferError> {
        match self {
            FrameStore::Frames(log) => log.head(id),
            FrameStore::Rows(_) => Ok(FrameHead {
                form: FrameForm::Raw,
                reach_back: 0,
                padding: Padding::Zeros,
            }),
        }
    }

    fn read(&self, id: u64, cache: &BlockCache, out: &mut [u8]) -> Result<(), BufferError> {
        match self {
            FrameStore::Frames(log) => log.read(id, cache, out),
            FrameStore::Rows(log) => log.read(id, cache, out),
        }
    }

    pub(crate) fn drop_before(&mut self, id: u64, cache: &mut BlockCache) {
        match self {
            FrameStore::Frames(log) => log.drop_before(id, cache),
            FrameStore::Rows(log) => log.drop_before(id, cache),
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            FrameStore::Frames(log) => log.heap_bytes(),
            FrameStore::Rows(log) => log.heap_bytes(),
        }
    }

    pub(crate) fn disk_bytes(&self) -> usize {
        match self {
            FrameStore::Frames(log) => log.disk_bytes(),
            FrameStore::Rows(log) => log.disk_bytes(),
        }
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            FrameStore::Frames(log) => log.len(),
            FrameStore::Rows(log) => log.next() - log.first(),
        }
    }

    pub(crate) fn spill_oldest(&mut self, folder: &Path) -> Result<usize, BufferError> {
        match self {
            FrameStore::Frames(log) => log.spill_oldest(folder),
            FrameStore::Rows(log) => log.spill_oldest(folder),
        }
    }

    pub(crate) fn compress_oldest(&mut self) -> usize {
        match self {
            FrameStore::Frames(_) => 0,
            FrameStore::Rows(log) => log.compress_oldest(),
        }
    }
}

/// Observations of one environment in the order of time.
#[derive(Debug)]
pub(crate) struct ObservationLog {
    layout: StackLayout,
    pub(crate) store: FrameStore,
    /// The next observation of the latest transition, as frames, and its number: the following observation is most often the same.
    latest: Vec<u8>,
    pub(crate) latest_id: Option<u64>,
    observation: Vec<u8>,
    next_observation: Vec<u8>,
}

impl ObservationLog {
    pub(crate) fn new(layout: StackLayout, store: FrameStore) -> ObservationLog {
        ObservationLog {
            layout,
            store,
            latest: Vec::new(),
            latest_id: None,
            observation: Vec::new(),
            next_observation: Vec::new(),
        }
    }

    /// Bytes in memory, those of the latest transition included, which is held as it came.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.store.heap_bytes()
            + self.latest.capacity()
            + self.observation.capacity()
            + self.next_observation.capacity()
    }

    /// Stores what is new of a transition. Returns the number of its observation and how far from it that of the next one is.
    pub(crate) fn add(&mut self, observation: &[u8], next_observation: &[u8]) -> (u64, u8) {
        self.layout.separate(observation, &mut self.observation);
        self.layout
            .separate(next_observation, &mut self.next_observation);
        let id = match self.latest_id {
            Some(id) if self.latest == self.observation => id,
            _ => append_stack(&mut self.store, self.layout, &self.observation),
        };
        let next_id = if self.next_observation == self.observation {
            id
        } else if self.layout.stack > 1
            && self
                .layout
                .is_shifted(&self.observation, &self.next_observation)
        {
            // The number is that of the newest frame, so the new one follows it.
            let head = self.store.head(id).expect("just stored, or the latest");
            let reach_back = (head.reach_back + 1).min(self.layout.stack as u8 - 1);
            let newest = &self.next_observation[self.layout.bytes() - self.layout.frame_bytes..];
            self.store.append(newest, reach_back, head.padding)
        } else {
            append_stack(&mut self.store, self.layout, &self.next_observation)
        };
        std::mem::swap(&mut self.latest, &mut self.next_observation);
        self.latest_id = Some(next_id);
        (id, (next_id - id) as u8)
    }

    /// Reads the stack that ends with a frame into the user's array.
    pub(crate) fn read(
        &self,
        id: u64,
        cache: &BlockCache,
        out: &mut [u8],
        scratch: &mut Vec<u8>,
    ) -> Result<(), BufferError> {
        if !self.layout.is_interleaved() {
            return self.read_frames(id, cache, out);
        }
        scratch.resize(self.layout.bytes(), 0);
        self.read_frames(id, cache, scratch)?;
        self.layout.interleave(scratch, out);
        Ok(())
    }

    /// Reads an observation and the one after it; what they share is decoded once.
    pub(crate) fn read_pair(
        &self,
        ids: (u64, u64),
        cache: &BlockCache,
        outs: (&mut [u8], &mut [u8]),
        scratch: &mut Vec<u8>,
    ) -> Result<(), BufferError> {
        let (head, next_head) = (self.store.head(ids.0)?, self.store.head(ids.1)?);
        let most = self.layout.stack as u8 - 1;
        let is_shifted = ids.1 == ids.0 + 1
            && most > 0
            && next_head.padding == head.padding
            && next_head.reach_back == (head.reach_back + 1).min(most);
        if !is_shifted {
            self.read(ids.0, cache, outs.0, scratch)?;
            return self.read(ids.1, cache, outs.1, scratch);
        }
        let kept = self.layout.bytes() - self.layout.frame_bytes;
        if self.layout.is_interleaved() {
            scratch.resize(self.layout.bytes() + self.layout.frame_bytes, 0);
            let (stack, newest) = scratch.split_at_mut(self.layout.bytes());
            self.read_frames(ids.0, cache, stack)?;
            self.store.read(ids.1, cache, newest)?;
            self.layout
                .interleave(&scratch[..self.layout.bytes()], outs.0);
            self.layout
                .interleave(&scratch[self.layout.frame_bytes..], outs.1);
        } else {
            self.read_frames(ids.0, cache, outs.0)?;
            outs.1[..kept].copy_from_slice(&outs.0[self.layout.frame_bytes..]);
            self.store.read(ids.1, cache, &mut outs.1[kept..])?;
        }
        Ok(())
    }

    fn read_frames(&self, id: u64, cache: &BlockCache, out: &mut [u8]) -> Result<(), BufferError> {
        let head = self.store.head(id)?;
        let reach_back = usize::from(head.reach_back);
        let wrong = || BufferError::Damaged("a stack that reaches too far back");
        let padded = (self.layout.stack - 1)
            .checked_sub(reach_back)
            .ok_or_else(wrong)?;
        let first = id.checked_sub(reach_back as u64).ok_or_else(wrong)?;
        let (padding, frames) = out.split_at_mut(padded * self.layout.frame_bytes);
        for (id, frame) in (first..).zip(frames.chunks_exact_mut(self.layout.frame_bytes)) {
            self.store.read(id, cache, frame)?;
        }
        match head.padding {
            Padding::Zeros => padding.fill(0),
            Padding::FirstFrame => {
                let first = &frames[..self.layout.frame_bytes];
                padding
                    .chunks_exact_mut(self.layout.frame_bytes)
                    .for_each(|frame| frame.copy_from_slice(first));
            }
        }
        Ok(())
    }

    /// The oldest frame that the stack ending with `id` needs.
    pub(crate) fn oldest_of(&self, id: u64) -> u64 {
        self.store
            .head(id)
            .map_or(0, |head| id.saturating_sub(u64::from(head.reach_back)))
    }

    /// After loading: the latest next observation is decoded, so that the following transition links to it.
    pub(crate) fn restore_latest(
        &mut self,
        id: Option<u64>,
        cache: &BlockCache,
    ) -> Result<(), BufferError> {
        if let Some(id) = id {
            let mut latest = vec![0; self.layout.bytes()];
            self.read_frames(id, cache, &mut latest)?;
            // A shifted stack would be appended after the newest frame; that must be this one.
            if id + 1 != self.store.next() {
                return Err(BufferError::Damaged("frames after the latest observation"));
            }
            self.latest = latest;
        }
        self.latest_id = id;
        Ok(())
    }
}

/// Stores a stack that continues nothing, padding left out.
fn append_stack(store: &mut FrameStore, layout: StackLayout, frames: &[u8]) -> u64 {
    let (padded, padding) = layout.padding(frames);
    let mut id = 0;
    for (place, frame) in frames
        .chunks_exact(layout.frame_bytes)
        .skip(padded)
        .enumerate()
    {
        id = store.append(frame, place as u8, padding);
    }
    id
}
