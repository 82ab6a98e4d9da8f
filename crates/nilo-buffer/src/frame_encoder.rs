//! How a frame is written: as differences from a key frame, compressed, or as it is.

use serde::{Deserialize, Serialize};

use crate::codec::{ByteCodec, compress};
use crate::frame_segment::FrameForm;
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

/// One frame as it is to be stored.
pub(crate) struct EncodedFrame<'a> {
    pub(crate) form: FrameForm,
    pub(crate) is_key: bool,
    pub(crate) bytes: &'a [u8],
}

/// Encodes frames that follow each other.
#[derive(Debug)]
pub(crate) struct FrameEncoder {
    codec: FrameCodec,
    trial: Option<FrameTrial>,
    key: Option<KeyFrame>,
    scratch: Vec<u8>,
}

impl FrameEncoder {
    pub(crate) fn new(codec: FrameCodec) -> FrameEncoder {
        FrameEncoder {
            codec,
            trial: (codec == FrameCodec::Auto).then(FrameTrial::default),
            key: None,
            scratch: Vec::new(),
        }
    }

    pub(crate) fn codec(&self) -> FrameCodec {
        self.codec
    }

    pub(crate) fn trial(&self) -> Option<&FrameTrial> {
        self.trial.as_ref()
    }

    /// Bytes of the key frame and of the latest encoded one.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.key.as_ref().map_or(0, |key| key.frame.capacity()) + self.scratch.capacity()
    }

    /// The next frame will be a key, where keys are used.
    pub(crate) fn forget_key(&mut self) {
        self.key = None;
    }

    pub(crate) fn encode<'a>(&'a mut self, frame: &'a [u8]) -> EncodedFrame<'a> {
        if self.codec == FrameCodec::Auto
            && let Some(trial) = &mut self.trial
            && let Some(decided) =
                trial.add(frame, self.key.as_ref().map(|key| key.frame.as_slice()))
        {
            self.codec = decided;
        }
        self.scratch.clear();
        let (form, is_key) = self.choose(frame);
        EncodedFrame {
            form,
            is_key,
            bytes: if form == FrameForm::Raw {
                frame
            } else {
                &self.scratch
            },
        }
    }

    /// Encodes into `scratch`, unless the form is raw. Also says whether the frame is a key.
    fn choose(&mut self, frame: &[u8]) -> (FrameForm, bool) {
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
}
