//! General codecs for bytes.

use std::cell::RefCell;

use serde::{Deserialize, Serialize};

/// How bytes are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ByteCodec {
    /// As they are.
    Raw,
    /// LZ4: fast to read.
    Lz4,
    /// Zstandard, level 1.
    Zstd,
    /// The bytes of equal significance together, then Zstandard: for numbers.
    ShuffleZstd,
}

impl ByteCodec {
    /// Its name in statistics.
    pub fn name(self) -> &'static str {
        match self {
            ByteCodec::Raw => "raw",
            ByteCodec::Lz4 => "lz4",
            ByteCodec::Zstd => "zstd",
            ByteCodec::ShuffleZstd => "shuffle+zstd",
        }
    }
}

/// What cannot be decompressed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadBytes;

// A context for each thread: making one for each frame takes longer than the frame.
thread_local! {
    static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// The compressed bytes, or nothing where the codec fails; `element_bytes` is the size of the numbers in them.
pub(crate) fn compress(codec: ByteCodec, bytes: &[u8], element_bytes: usize) -> Option<Vec<u8>> {
    match codec {
        ByteCodec::Raw => Some(bytes.to_vec()),
        ByteCodec::Lz4 => lz4::block::compress(bytes, None, false).ok(),
        ByteCodec::Zstd => zstd_compress(bytes),
        ByteCodec::ShuffleZstd => zstd_compress(&shuffle(bytes, element_bytes)),
    }
}

/// Decompresses into `out`, which must be filled exactly.
pub(crate) fn decompress(
    codec: ByteCodec,
    bytes: &[u8],
    element_bytes: usize,
    out: &mut [u8],
) -> Result<(), BadBytes> {
    let length = match codec {
        ByteCodec::Raw if bytes.len() == out.len() => {
            out.copy_from_slice(bytes);
            out.len()
        }
        ByteCodec::Raw => return Err(BadBytes),
        ByteCodec::Lz4 => {
            let most = i32::try_from(out.len()).map_err(|_| BadBytes)?;
            lz4::block::decompress_to_buffer(bytes, Some(most), out).map_err(|_| BadBytes)?
        }
        ByteCodec::Zstd => zstd_decompress(bytes, out)?,
        ByteCodec::ShuffleZstd => {
            let mut shuffled = vec![0; out.len()];
            let length = zstd_decompress(bytes, &mut shuffled)?;
            unshuffle(&shuffled, element_bytes, out);
            length
        }
    };
    if length == out.len() {
        Ok(())
    } else {
        Err(BadBytes)
    }
}

fn zstd_compress(bytes: &[u8]) -> Option<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|kept| {
        if kept.is_none() {
            *kept = zstd::bulk::Compressor::new(1).ok();
        }
        kept.as_mut()?.compress(bytes).ok()
    })
}

fn zstd_decompress(bytes: &[u8], out: &mut [u8]) -> Result<usize, BadBytes> {
    DECOMPRESSOR.with_borrow_mut(|kept| {
        if kept.is_none() {
            *kept = zstd::bulk::Decompressor::new().ok();
        }
        let context = kept.as_mut().ok_or(BadBytes)?;
        context
            .decompress_to_buffer(bytes, out)
            .map_err(|_| BadBytes)
    })
}

fn shuffle(bytes: &[u8], element_bytes: usize) -> Vec<u8> {
    let count = bytes.len() / element_bytes;
    let mut out = vec![0; bytes.len()];
    for (place, element) in bytes.chunks_exact(element_bytes).enumerate() {
        for (significance, &byte) in element.iter().enumerate() {
            out[significance * count + place] = byte;
        }
    }
    out[count * element_bytes..].copy_from_slice(&bytes[count * element_bytes..]);
    out
}

fn unshuffle(shuffled: &[u8], element_bytes: usize, out: &mut [u8]) {
    let count = out.len() / element_bytes;
    for (place, element) in out.chunks_exact_mut(element_bytes).enumerate() {
        for (significance, byte) in element.iter_mut().enumerate() {
            *byte = shuffled[significance * count + place];
        }
    }
    out[count * element_bytes..].copy_from_slice(&shuffled[count * element_bytes..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [ByteCodec; 4] = [
        ByteCodec::Raw,
        ByteCodec::Lz4,
        ByteCodec::Zstd,
        ByteCodec::ShuffleZstd,
    ];

    proptest! {
        #[test]
        fn what_is_compressed_comes_back(bytes in prop::collection::vec(0_u8..5, 1..2000), element_bytes in 1_usize..9) {
            for codec in ALL {
                let small = compress(codec, &bytes, element_bytes).expect("compresses");
                let mut out = vec![0; bytes.len()];
                prop_assert_eq!(decompress(codec, &small, element_bytes, &mut out), Ok(()));
                prop_assert_eq!(&out, &bytes);
            }
        }

        #[test]
        fn any_bytes_are_decompressed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for codec in ALL {
                let _ = decompress(codec, &bytes, 4, &mut [0; 100]);
            }
        }
    }
}
