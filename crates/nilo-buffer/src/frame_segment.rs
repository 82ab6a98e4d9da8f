//! Some hundred frames that follow each other, encoded, in one piece of memory or on disk.

use std::path::Path;

use crate::block::Block;
use crate::codec::{ByteCodec, decompress};
use crate::error::BufferError;
use crate::patch;

/// How one frame is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameForm {
    Raw,
    Lz4,
    Zstd,
    /// As differences from the last key frame before it.
    Patch,
}

/// What fills the places of a stack before its first frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Padding {
    Zeros,
    FirstFrame,
}

/// What is known of a frame in one byte: its form, and the stack that ends with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHead {
    pub(crate) form: FrameForm,
    /// How many frames before it belong to its stack; the rest is padding.
    pub(crate) reach_back: u8,
    pub(crate) padding: Padding,
}

/// The segment that is being filled grows by this share of itself.
const OPEN_GROWTH: usize = 4;

/// The most frames in a stack, by the bits that `reach_back` has.
pub(crate) const MOST_STACKED: usize = 32;

impl FrameHead {
    fn to_byte(self) -> u8 {
        let form = match self.form {
            FrameForm::Raw => 0,
            FrameForm::Lz4 => 1,
            FrameForm::Zstd => 2,
            FrameForm::Patch => 3,
        };
        form << 6 | u8::from(self.padding == Padding::FirstFrame) << 5 | self.reach_back & 31
    }

    fn from_byte(byte: u8) -> FrameHead {
        FrameHead {
            form: match byte >> 6 {
                0 => FrameForm::Raw,
                1 => FrameForm::Lz4,
                2 => FrameForm::Zstd,
                _ => FrameForm::Patch,
            },
            reach_back: byte & 31,
            padding: match byte & 32 {
                0 => Padding::Zeros,
                _ => Padding::FirstFrame,
            },
        }
    }
}

/// Frames of one segment. Patches never refer to a key in another one, so that segments can be dropped one by one.
#[derive(Debug)]
pub(crate) struct FrameSegment {
    open: Vec<u8>,
    sealed: Option<Block>,
    /// Where each frame ends in the bytes.
    ends: Vec<u32>,
    heads: Vec<u8>,
    /// The places of the key frames.
    keys: Vec<u32>,
}

impl FrameSegment {
    pub(crate) fn new(frames: usize) -> FrameSegment {
        FrameSegment {
            open: Vec::new(),
            sealed: None,
            ends: Vec::with_capacity(frames),
            heads: Vec::with_capacity(frames),
            keys: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.heads.len()
    }

    pub(crate) fn push(&mut self, head: FrameHead, bytes: &[u8], is_key: bool) {
        if is_key {
            self.keys.push(self.heads.len() as u32);
        }
        if self.open.capacity() - self.open.len() < bytes.len() {
            // Doubling would take up to twice the memory that the frames need.
            let more = bytes.len().max(self.open.len() / OPEN_GROWTH);
            self.open.reserve_exact(more);
        }
        self.open.extend_from_slice(bytes);
        self.ends.push(self.open.len() as u32);
        self.heads.push(head.to_byte());
    }

    /// No frame will be added any more.
    pub(crate) fn seal(&mut self) {
        self.keys.shrink_to_fit();
        self.sealed = Some(Block::Heap(
            std::mem::take(&mut self.open).into_boxed_slice(),
        ));
    }

    pub(crate) fn head(&self, place: usize) -> FrameHead {
        FrameHead::from_byte(self.heads[place])
    }

    /// Decodes one frame into `out`.
    pub(crate) fn read(&self, place: usize, out: &mut [u8]) -> Result<(), BufferError> {
        match self.head(place).form {
            FrameForm::Patch => {
                let key = self
                    .key_of(place)
                    .ok_or(BufferError::Damaged("a frame without its key frame"))?;
                self.read_whole(key, out)?;
                patch::apply(self.stored(place), out)
                    .map_err(|_| BufferError::Damaged("a frame's patch"))
            }
            _ => self.read_whole(place, out),
        }
    }

    fn read_whole(&self, place: usize, out: &mut [u8]) -> Result<(), BufferError> {
        let codec = match self.head(place).form {
            FrameForm::Raw => ByteCodec::Raw,
            FrameForm::Lz4 => ByteCodec::Lz4,
            FrameForm::Zstd => ByteCodec::Zstd,
            FrameForm::Patch => return Err(BufferError::Damaged("a key frame that is a patch")),
        };
        decompress(codec, self.stored(place), 1, out).map_err(|_| BufferError::Damaged("a frame"))
    }

    fn key_of(&self, place: usize) -> Option<usize> {
        let after = self.keys.partition_point(|&key| key as usize <= place);
        Some(self.keys[after.checked_sub(1)?] as usize)
    }

    fn stored(&self, place: usize) -> &[u8] {
        let begin = match place {
            0 => 0,
            _ => self.ends[place - 1] as usize,
        };
        &self.bytes()[begin..self.ends[place] as usize]
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.sealed {
            Some(block) => block.bytes(),
            None => &self.open,
        }
    }

    pub(crate) fn ends(&self) -> &[u32] {
        &self.ends
    }

    pub(crate) fn heads(&self) -> &[u8] {
        &self.heads
    }

    pub(crate) fn keys(&self) -> &[u32] {
        &self.keys
    }

    /// A segment as a file has it; `None` where its parts contradict each other.
    pub(crate) fn from_parts(
        bytes: Vec<u8>,
        ends: Vec<u32>,
        heads: Vec<u8>,
        keys: Vec<u32>,
        frames: usize,
        is_sealed: bool,
    ) -> Option<FrameSegment> {
        let fits = ends.len() == heads.len()
            && ends.len() <= frames
            && ends.is_sorted()
            && ends.last().copied().unwrap_or(0) as usize == bytes.len()
            && keys.is_sorted()
            && keys.last().is_none_or(|&key| (key as usize) < heads.len());
        if !fits {
            return None;
        }
        let mut segment = FrameSegment {
            open: bytes,
            sealed: None,
            ends,
            heads,
            keys,
        };
        if is_sealed {
            segment.seal();
        }
        Some(segment)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let data = self
            .sealed
            .as_ref()
            .map_or(self.open.capacity(), Block::heap_bytes);
        data + self.ends.capacity() * 4 + self.heads.capacity() + self.keys.capacity() * 4
    }

    pub(crate) fn disk_bytes(&self) -> usize {
        self.sealed.as_ref().map_or(0, Block::disk_bytes)
    }

    /// Moves a sealed segment's frames to disk. Returns how many bytes left memory.
    pub(crate) fn spill(&mut self, folder: &Path) -> Result<usize, BufferError> {
        match &mut self.sealed {
            Some(block) => block.spill(folder),
            None => Ok(0),
        }
    }
}
