//! A log of frames: appended at one end, dropped at the other, each stored once.

use std::collections::VecDeque;
use std::path::Path;

use crate::block_cache::BlockCache;
use crate::error::BufferError;
use crate::frame_encoder::{FrameCodec, FrameEncoder};
use crate::frame_segment::{FrameForm, FrameHead, FrameSegment, Padding};
use crate::frame_trial::FrameTrial;

/// Segments larger than this are not made, whatever the frames' size.
const MOST_SEGMENT_BYTES: usize = 64 << 20;
/// Frames and rows are never numbered higher: sums of two numbers do not overflow, whatever a file says.
pub(crate) const MOST_NUMBER: u64 = 1 << 48;
const MOST_SEGMENT_FRAMES: usize = 512;
const LEAST_SEGMENT_FRAMES: usize = 16;

/// Frames of one environment.
#[derive(Debug)]
pub(crate) struct FrameLog {
    frame_bytes: usize,
    segment_frames: usize,
    encoder: FrameEncoder,
    segments: VecDeque<FrameSegment>,
    /// Bytes in memory of all segments but the last.
    sealed_bytes: usize,
    /// So many of the oldest segments are on disk.
    spilled: usize,
    /// The number of the first segment, counted from the first one ever.
    first_segment: u64,
    next: u64,
    /// Tells this log's frames from those of others in the cache of decoded ones.
    number: u32,
}

impl FrameLog {
    /// A log that will hold about `expected_frames`; the segment that is being filled takes about `most_open_bytes` at most.
    pub(crate) fn new(
        frame_bytes: usize,
        expected_frames: usize,
        most_open_bytes: usize,
        codec: FrameCodec,
        number: u32,
    ) -> FrameLog {
        let most = MOST_SEGMENT_FRAMES.min((MOST_SEGMENT_BYTES / frame_bytes).max(1));
        let segment_frames = (expected_frames / 8)
            .min(most_open_bytes / frame_bytes)
            .clamp(LEAST_SEGMENT_FRAMES, MOST_SEGMENT_FRAMES)
            .min(most);
        FrameLog {
            frame_bytes,
            segment_frames,
            encoder: FrameEncoder::new(codec),
            segments: VecDeque::new(),
            sealed_bytes: 0,
            spilled: 0,
            first_segment: 0,
            next: 0,
            number,
        }
    }

    /// The number that the next frame will have.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn first(&self) -> u64 {
        self.first_segment * self.segment_frames as u64
    }

    pub(crate) fn codec(&self) -> FrameCodec {
        self.encoder.codec()
    }

    pub(crate) fn trial(&self) -> Option<&FrameTrial> {
        self.encoder.trial()
    }

    /// Appends a frame and returns its number.
    pub(crate) fn append(&mut self, frame: &[u8], reach_back: u8, padding: Padding) -> u64 {
        debug_assert_eq!(frame.len(), self.frame_bytes);
        if self
            .segments
            .back()
            .is_none_or(|last| last.len() == self.segment_frames)
        {
            if let Some(last) = self.segments.back_mut() {
                last.seal();
                self.sealed_bytes += last.heap_bytes();
            }
            self.segments
                .push_back(FrameSegment::new(self.segment_frames));
            self.encoder.forget_key();
        }
        let encoded = self.encoder.encode(frame);
        let head = FrameHead {
            form: encoded.form,
            reach_back,
            padding,
        };
        let last = self.segments.back_mut().expect("a segment was made above");
        last.push(head, encoded.bytes, encoded.is_key);
        self.next += 1;
        self.next - 1
    }

    fn locate(&self, id: u64) -> Result<(&FrameSegment, usize), BufferError> {
        let segment = id / self.segment_frames as u64;
        let place = (id % self.segment_frames as u64) as usize;
        segment
            .checked_sub(self.first_segment)
            .and_then(|index| self.segments.get(index as usize))
            .filter(|segment| place < segment.len())
            .map(|segment| (segment, place))
            .ok_or(BufferError::Damaged("a frame that is not there"))
    }

    pub(crate) fn head(&self, id: u64) -> Result<FrameHead, BufferError> {
        let (segment, place) = self.locate(id)?;
        Ok(segment.head(place))
    }

    /// Decodes one frame into `out`. Those of slow codecs go through the cache, where there is one.
    pub(crate) fn read(
        &self,
        id: u64,
        cache: &BlockCache,
        out: &mut [u8],
    ) -> Result<(), BufferError> {
        let (segment, place) = self.locate(id)?;
        if !cache.is_on() || !matches!(segment.head(place).form, FrameForm::Lz4 | FrameForm::Zstd) {
            return segment.read(place, out);
        }
        let decoded = cache.get_or_decode(self.number, id, || {
            let mut frame = vec![0; self.frame_bytes];
            segment.read(place, &mut frame).map(|()| frame)
        })?;
        out.copy_from_slice(&decoded);
        Ok(())
    }

    /// Drops the segments whose frames all come before `id`.
    pub(crate) fn drop_before(&mut self, id: u64, cache: &mut BlockCache) {
        while (self.first_segment + 1) * self.segment_frames as u64 <= id
            && self.segments.len() > 1
            && let Some(segment) = self.segments.pop_front()
        {
            let first = self.first();
            cache.forget(self.number, first..first + segment.len() as u64);
            self.sealed_bytes -= segment.heap_bytes();
            self.spilled = self.spilled.saturating_sub(1);
            self.first_segment += 1;
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.sealed_bytes
            + self.segments.back().map_or(0, FrameSegment::heap_bytes)
            + self.segments.len() * size_of::<FrameSegment>()
            + self.encoder.heap_bytes()
    }

    pub(crate) fn disk_bytes(&self) -> usize {
        self.segments.iter().map(FrameSegment::disk_bytes).sum()
    }

    /// Frames stored, those no transition refers to any more included.
    pub(crate) fn len(&self) -> u64 {
        self.next - self.first()
    }

    /// Moves the oldest segment that is in memory to disk. Returns how many bytes left memory.
    pub(crate) fn spill_oldest(&mut self, folder: &Path) -> Result<usize, BufferError> {
        let sealed = self.segments.len().saturating_sub(1);
        while self.spilled < sealed {
            let moved = self.segments[self.spilled].spill(folder)?;
            self.spilled += 1;
            self.sealed_bytes -= moved;
            if moved > 0 {
                return Ok(moved);
            }
        }
        Ok(0)
    }

    pub(crate) fn segments(&self) -> impl ExactSizeIterator<Item = &FrameSegment> {
        self.segments.iter()
    }

    pub(crate) fn segment_frames(&self) -> usize {
        self.segment_frames
    }

    /// A log as a file has it, with segments of its size. The next frame begins with a key, since the last one is not kept decoded.
    pub(crate) fn restore(
        &mut self,
        segment_frames: usize,
        first_segment: u64,
        segments: Vec<FrameSegment>,
        codec: FrameCodec,
    ) -> Option<()> {
        if !(1..=MOST_SEGMENT_FRAMES).contains(&segment_frames) {
            return None;
        }
        self.segment_frames = segment_frames;
        let (last, full) = segments.split_last()?;
        if full
            .iter()
            .any(|segment| segment.len() != self.segment_frames)
            || last.len() == 0
        {
            return None;
        }
        let before = first_segment.checked_add(full.len() as u64)?;
        self.next = before
            .checked_mul(self.segment_frames as u64)?
            .checked_add(last.len() as u64)?;
        if self.next > MOST_NUMBER {
            return None;
        }
        self.first_segment = first_segment;
        self.sealed_bytes = full.iter().map(FrameSegment::heap_bytes).sum();
        self.spilled = 0;
        self.segments = segments.into();
        self.encoder = FrameEncoder::new(codec);
        Some(())
    }
}
