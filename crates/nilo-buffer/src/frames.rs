//! A log of frames: appended at one end, dropped at the other, each stored once.

use std::collections::VecDeque;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::block_cache::BlockCache;
use crate::codec::{ByteCodec, compress};
use crate::error::BufferError;
use crate::frame_segment::{FrameForm, FrameHead, FrameSegment, Padding};
use crate::frame_trial::FrameTrial;
use crate::patch;

/// How the frames of a column are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrameCodec {
    /// Decided by the first frames.
    Auto,
    /// Not at all.
    Raw,
    /// LZ4, each frame for itself.
    Lz4,
    /// Zstandard, each frame for itself: smaller and three times slower to read than LZ4.
    Zstd,
    /// Differences from key frames.
    Patch,
}

impl FrameCodec {
    /// Its name in statistics and settings.
    pub fn name(self) -> &'static str {
        match self {
            FrameCodec::Auto => "auto",
            FrameCodec::Raw => "raw",
            FrameCodec::Lz4 => "lz4",
            FrameCodec::Zstd => "zstd",
            FrameCodec::Patch => "patch",
        }
    }
}

/// Segments larger than this are not made, whatever the frames' size.
const MOST_SEGMENT_BYTES: usize = 64 << 20;
/// Frames and rows are never numbered higher: sums of two numbers do not overflow, whatever a file says.
pub(crate) const MOST_NUMBER: u64 = 1 << 48;
const MOST_SEGMENT_FRAMES: usize = 512;
/// A key that served fewer frames than this was hardly worth storing raw.
const SHORT_RUN: usize = 8;

/// The key frame that new frames are compared with, and what comparing has cost since.
#[derive(Debug)]
struct KeyFrame {
    frame: Vec<u8>,
    stored_bytes: usize,
    /// What the frame takes with LZ4: no patch should take more.
    lz4_bytes: usize,
    frames: usize,
    patch_bytes: usize,
}

/// Frames of one environment.
#[derive(Debug)]
pub(crate) struct FrameLog {
    frame_bytes: usize,
    segment_frames: usize,
    codec: FrameCodec,
    trial: Option<FrameTrial>,
    segments: VecDeque<FrameSegment>,
    /// The number of the first segment, counted from the first one ever.
    first_segment: u64,
    next: u64,
    key: Option<KeyFrame>,
    scratch: Vec<u8>,
    /// Tells this log's frames from those of others in the cache of decoded ones.
    number: u32,
}

impl FrameLog {
    /// A log that will hold about `expected_frames`.
    pub(crate) fn new(
        frame_bytes: usize,
        expected_frames: usize,
        codec: FrameCodec,
        number: u32,
    ) -> FrameLog {
        let most = MOST_SEGMENT_FRAMES.min((MOST_SEGMENT_BYTES / frame_bytes).max(1));
        let segment_frames = (expected_frames / 8)
            .clamp(16, MOST_SEGMENT_FRAMES)
            .min(most);
        FrameLog {
            frame_bytes,
            segment_frames,
            codec,
            trial: (codec == FrameCodec::Auto).then(FrameTrial::default),
            segments: VecDeque::new(),
            first_segment: 0,
            next: 0,
            key: None,
            scratch: Vec::new(),
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
        self.codec
    }

    pub(crate) fn trial(&self) -> Option<&FrameTrial> {
        self.trial.as_ref()
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
            }
            self.segments
                .push_back(FrameSegment::new(self.segment_frames));
            self.key = None;
        }
        if self.codec == FrameCodec::Auto
            && let Some(trial) = &mut self.trial
            && let Some(decided) =
                trial.add(frame, self.key.as_ref().map(|key| key.frame.as_slice()))
        {
            self.codec = decided;
        }
        self.scratch.clear();
        let (form, is_key) = self.encode(frame);
        let head = FrameHead {
            form,
            reach_back,
            padding,
        };
        let last = self.segments.back_mut().expect("a segment was made above");
        match form {
            FrameForm::Raw => last.push(head, frame, is_key),
            _ => last.push(head, &self.scratch, is_key),
        }
        self.next += 1;
        self.next - 1
    }

    /// Encodes into `scratch`, unless the form is raw. Also says whether the frame is a key.
    fn encode(&mut self, frame: &[u8]) -> (FrameForm, bool) {
        match self.codec {
            FrameCodec::Raw => (FrameForm::Raw, false),
            FrameCodec::Lz4 => (
                self.encode_alone(frame, ByteCodec::Lz4, FrameForm::Lz4),
                false,
            ),
            FrameCodec::Zstd => (
                self.encode_alone(frame, ByteCodec::Zstd, FrameForm::Zstd),
                false,
            ),
            FrameCodec::Auto | FrameCodec::Patch => self.encode_against_key(frame),
        }
    }

    fn encode_alone(&mut self, frame: &[u8], codec: ByteCodec, form: FrameForm) -> FrameForm {
        match compress(codec, frame, 1) {
            Some(small) if small.len() < frame.len() => {
                self.scratch = small;
                form
            }
            _ => FrameForm::Raw,
        }
    }

    /// A patch where it takes less than a frame has cost on average since the key, the key included: then a new key would not pay.
    fn encode_against_key(&mut self, frame: &[u8]) -> (FrameForm, bool) {
        let mut is_short_run = false;
        if let Some(key) = &mut self.key {
            let average = (key.stored_bytes + key.patch_bytes) / key.frames;
            if patch::encode(
                &key.frame,
                frame,
                average.min(key.lz4_bytes),
                &mut self.scratch,
            ) {
                key.frames += 1;
                key.patch_bytes += self.scratch.len();
                return (FrameForm::Patch, false);
            }
            is_short_run = key.frames < SHORT_RUN;
        }
        let lz4 = compress(ByteCodec::Lz4, frame, 1).filter(|small| small.len() < frame.len());
        let lz4_bytes = lz4.as_ref().map_or(frame.len(), Vec::len);
        let form = match lz4 {
            // A raw key is read faster; it is worth its bytes where many frames share it.
            Some(small) if is_short_run => {
                self.scratch = small;
                FrameForm::Lz4
            }
            _ => FrameForm::Raw,
        };
        self.key = Some(KeyFrame {
            frame: frame.to_vec(),
            stored_bytes: if form == FrameForm::Lz4 {
                lz4_bytes
            } else {
                frame.len()
            },
            lz4_bytes,
            frames: 1,
            patch_bytes: 0,
        });
        (form, true)
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
    pub(crate) fn drop_before(&mut self, id: u64) {
        while (self.first_segment + 1) * self.segment_frames as u64 <= id && self.segments.len() > 1
        {
            self.segments.pop_front();
            self.first_segment += 1;
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.segments.iter().map(FrameSegment::heap_bytes).sum()
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
        for segment in &mut self.segments {
            let moved = segment.spill(folder)?;
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

    /// A log as a file has it. The next frame begins with a key, since the last one is not kept decoded.
    pub(crate) fn restore(
        &mut self,
        first_segment: u64,
        segments: Vec<FrameSegment>,
        codec: FrameCodec,
    ) -> Option<()> {
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
        self.segments = segments.into();
        self.codec = codec;
        self.trial = (codec == FrameCodec::Auto).then(FrameTrial::default);
        self.key = None;
        Some(())
    }
}
