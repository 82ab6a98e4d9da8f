//! Which codec suits a column of frames, tried on the first of them.

use crate::codec::{ByteCodec, compress};
use crate::frame_encoder::FrameCodec;
use crate::patch;

/// Frames that are tried.
const FRAMES: usize = 64;
/// A codec that saves less than this share is not worth its time.
const LEAST_SAVING: f64 = 0.10;

/// What the first frames took with each codec.
#[derive(Debug, Clone, Default)]
pub(crate) struct FrameTrial {
    frames: usize,
    pub(crate) raw_bytes: usize,
    pub(crate) lz4_bytes: usize,
    pub(crate) zstd_bytes: usize,
    pub(crate) patch_bytes: usize,
}

impl FrameTrial {
    /// Tries one more frame; the decision after the last.
    ///
    /// Zstandard is measured but never chosen: it reads three times slower than LZ4, and sampling is what buffers are for.
    pub(crate) fn add(&mut self, frame: &[u8], key: Option<&[u8]>) -> Option<FrameCodec> {
        let mut patched = Vec::new();
        let lz4_bytes = compress(ByteCodec::Lz4, frame, 1).map_or(frame.len(), |small| small.len());
        let is_patched = key
            .is_some_and(|key| patch::encode(key, frame, lz4_bytes.min(frame.len()), &mut patched));
        self.frames += 1;
        self.raw_bytes += frame.len();
        self.lz4_bytes += lz4_bytes.min(frame.len());
        self.zstd_bytes +=
            compress(ByteCodec::Zstd, frame, 1).map_or(frame.len(), |small| small.len());
        self.patch_bytes += if is_patched {
            patched.len()
        } else {
            frame.len()
        };
        (self.frames == FRAMES).then(|| self.decide())
    }

    fn decide(&self) -> FrameCodec {
        let most = self.raw_bytes as f64 * (1.0 - LEAST_SAVING);
        if (self.patch_bytes.min(self.lz4_bytes) as f64) > most {
            FrameCodec::Raw
        } else if self.patch_bytes <= self.lz4_bytes {
            FrameCodec::Patch
        } else {
            FrameCodec::Lz4
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(mut frame_at: impl FnMut(usize) -> Vec<u8>) -> FrameCodec {
        let mut trial = FrameTrial::default();
        let key = frame_at(0);
        (0..FRAMES)
            .find_map(|number| trial.add(&frame_at(number), (number > 0).then_some(&key)))
            .expect("decided by the last")
    }

    #[test]
    fn noise_stays_raw() {
        let mut random = fastrand::Rng::with_seed(1);
        assert_eq!(
            decided(|_| (0..1000).map(|_| random.u8(..)).collect()),
            FrameCodec::Raw
        );
    }

    #[test]
    fn a_still_background_is_patched() {
        let background: Vec<u8> = (0..4000_u32).map(|at| ((at * at) >> 3) as u8).collect();
        let codec = decided(|number| {
            let mut frame = background.clone();
            frame[number * 9..number * 9 + 20].fill(255);
            frame
        });
        assert_eq!(codec, FrameCodec::Patch);
    }

    #[test]
    fn a_moving_smooth_picture_takes_lz4() {
        let codec = decided(|number| {
            (0..4000)
                .map(|at| ((at / 40 + number * 7) % 251) as u8)
                .collect()
        });
        assert_eq!(codec, FrameCodec::Lz4);
    }
}
