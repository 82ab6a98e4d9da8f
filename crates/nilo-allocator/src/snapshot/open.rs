//! From the bytes of a file to a snapshot: decompresses within a bound, then reads the pickle.

use std::io::Read;

use super::GpuSnapshot;
use super::builder::SnapshotBuilder;
use crate::pickle::{PickleError, run_pickle};

/// How much a file may ask for.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// The most bytes a compressed file may decompress to.
    pub max_decompressed_bytes: u64,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            max_decompressed_bytes: 8 << 30,
        }
    }
}

/// A snapshot that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The pickle is damaged, refused, or not one.
    #[error(transparent)]
    Pickle(#[from] PickleError),
    /// The objects in it are not those of a snapshot.
    #[error("not a memory snapshot: {problem}")]
    NotASnapshot {
        /// What is missing or wrong.
        problem: String,
    },
    /// The compressed data is damaged.
    #[error("damaged {format} data: {cause}")]
    Compression {
        /// gzip or zstd.
        format: &'static str,
        /// What the decompressor says.
        cause: std::io::Error,
    },
    /// It decompresses to more than is allowed.
    #[error("the file decompresses to more than {max_bytes} bytes")]
    TooLarge {
        /// What is allowed.
        max_bytes: u64,
    },
}

pub(crate) fn read(bytes: &[u8], options: &ReadOptions) -> Result<GpuSnapshot, SnapshotError> {
    if bytes.starts_with(&[0x1f, 0x8b]) {
        read_pickle(&decompress(
            "gzip",
            flate2::read::MultiGzDecoder::new(bytes),
            options,
        )?)
    } else if bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let decoder = zstd::Decoder::with_buffer(bytes);
        let decoder = decoder.map_err(|cause| SnapshotError::Compression {
            format: "zstd",
            cause,
        })?;
        read_pickle(&decompress("zstd", decoder, options)?)
    } else {
        read_pickle(bytes)
    }
}

fn read_pickle(bytes: &[u8]) -> Result<GpuSnapshot, SnapshotError> {
    let mut builder = SnapshotBuilder::new(bytes.len());
    let top = run_pickle(bytes, &mut builder)?;
    builder
        .finish(top)
        .map_err(|problem| SnapshotError::NotASnapshot { problem })
}

fn decompress(
    format: &'static str,
    decoder: impl Read,
    options: &ReadOptions,
) -> Result<Vec<u8>, SnapshotError> {
    let max_bytes = options.max_decompressed_bytes;
    let mut bytes = Vec::new();
    let mut bounded = decoder.take(max_bytes.saturating_add(1));
    bounded
        .read_to_end(&mut bytes)
        .map_err(|cause| SnapshotError::Compression { format, cause })?;
    if bytes.len() as u64 > max_bytes {
        return Err(SnapshotError::TooLarge { max_bytes });
    }
    Ok(bytes)
}
