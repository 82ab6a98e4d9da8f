//! From the bytes of a file to a snapshot: decompresses within a bound, then reads the pickle.

use std::io::Read;

use flate2::bufread::GzDecoder;

use super::GpuSnapshot;
use super::builder::SnapshotBuilder;
use crate::pickle::{PickleError, run_pickle};

/// Compressed files may decompress to this much, however small they are.
const ALWAYS_ALLOWED_BYTES: u64 = 64 << 20;
/// And to so many times their size: snapshots of a real GPU come to 6 to 14 times with gzip, to 21 times with `zstd -19`.
const MOST_TIMES_LARGER: u64 = 200;
/// Room for decompressed bytes is made in steps of at least this.
const LEAST_STEP_BYTES: usize = 1 << 20;

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

impl ReadOptions {
    /// The most bytes that a compressed file of this size may decompress to, and the error of one that has more.
    fn bound(&self, format: &'static str, file_bytes: u64) -> (u64, SnapshotError) {
        let proportionate = file_bytes.saturating_mul(MOST_TIMES_LARGER);
        let plausible = proportionate.max(ALWAYS_ALLOWED_BYTES);
        match plausible < self.max_decompressed_bytes {
            true => {
                let error = SnapshotError::Disproportionate {
                    format,
                    file_bytes,
                    max_bytes: plausible,
                };
                (plausible, error)
            }
            false => {
                let max_bytes = self.max_decompressed_bytes;
                (max_bytes, SnapshotError::TooLarge { max_bytes })
            }
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
    /// It decompresses to far more than a snapshot of its size would.
    #[error(
        "{file_bytes} bytes of {format} data decompress to more than {max_bytes}; a snapshot would be 6 to 30 times as large"
    )]
    Disproportionate {
        /// gzip or zstd.
        format: &'static str,
        /// The size of the file.
        file_bytes: u64,
        /// What is allowed.
        max_bytes: u64,
    },
    /// There is no memory for what it decompresses to.
    #[error("not enough memory to decompress the {format} data: {needed}")]
    OutOfMemory {
        /// gzip or zstd.
        format: &'static str,
        /// What could not be allocated, in words.
        needed: String,
    },
}

pub(crate) fn read(bytes: &[u8], options: &ReadOptions) -> Result<GpuSnapshot, SnapshotError> {
    let file_bytes = bytes.len() as u64;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let decoder = GzipFile::new(bytes);
        let bound = options.bound("gzip", file_bytes);
        read_pickle(&decompress("gzip", decoder, bound)?)
    } else if bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let decoder = zstd::Decoder::with_buffer(bytes).map_err(|cause| failed("zstd", cause))?;
        let bound = options.bound("zstd", file_bytes);
        read_pickle(&decompress("zstd", decoder, bound)?)
    } else {
        read_pickle(bytes)
    }
}

/// The streams of a gzip file, one after another. Zeros behind the last one are padding, as of tapes and blocks, and mean nothing to `gunzip` either.
struct GzipFile<'a> {
    stream: Option<GzDecoder<&'a [u8]>>,
}

impl<'a> GzipFile<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            stream: Some(GzDecoder::new(bytes)),
        }
    }
}

impl Read for GzipFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while let Some(stream) = &mut self.stream {
            let read = stream.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let rest: &[u8] = stream.get_ref();
            let is_padding = rest.iter().all(|byte| *byte == 0);
            self.stream = (!is_padding).then(|| GzDecoder::new(rest));
        }
        Ok(0)
    }
}

fn read_pickle(bytes: &[u8]) -> Result<GpuSnapshot, SnapshotError> {
    let mut builder = SnapshotBuilder::new(bytes.len());
    let top = run_pickle(bytes, &mut builder)?;
    builder
        .finish(top)
        .map_err(|problem| SnapshotError::NotASnapshot { problem })
}

/// All bytes of a decoder, or the error that belongs to the bound; of what lies beyond the bound one byte is read.
fn decompress(
    format: &'static str,
    decoder: impl Read,
    (max_bytes, beyond): (u64, SnapshotError),
) -> Result<Vec<u8>, SnapshotError> {
    let mut bytes = Vec::new();
    let mut bounded = decoder.take(max_bytes.saturating_add(1));
    while bounded.limit() > 0 {
        let step = bytes.len().max(LEAST_STEP_BYTES);
        let step = step.min(usize::try_from(bounded.limit()).unwrap_or(usize::MAX));
        reserve(format, &mut bytes, step)?;
        let room = bytes.capacity() - bytes.len();
        // It never grows the buffer: there is room for all that it may read.
        let read = bounded.by_ref().take(room as u64).read_to_end(&mut bytes);
        if read.map_err(|cause| failed(format, cause))? < room {
            break;
        }
    }
    match bytes.len() as u64 > max_bytes {
        true => Err(beyond),
        false => Ok(bytes),
    }
}

fn reserve(format: &'static str, bytes: &mut Vec<u8>, step: usize) -> Result<(), SnapshotError> {
    let needed = bytes.len().saturating_add(step);
    bytes
        .try_reserve_exact(step)
        .map_err(|_| SnapshotError::OutOfMemory {
            format,
            needed: format!("{needed} bytes could not be allocated"),
        })
}

/// What a decoder says is the data's fault, unless it is for want of memory. zstd tells that in words only.
fn failed(format: &'static str, cause: std::io::Error) -> SnapshotError {
    let said = cause.to_string();
    let is_memory = cause.kind() == std::io::ErrorKind::OutOfMemory
        || said.contains("Allocation error")
        || said.contains("too much memory");
    match is_memory {
        true => SnapshotError::OutOfMemory {
            format,
            needed: said,
        },
        false => SnapshotError::Compression { format, cause },
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, repeat};

    use super::*;

    /// Counts what is taken from it.
    struct Counted<R>(R, u64);

    impl<R: Read> Read for Counted<R> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let read = self.0.read(buffer)?;
            self.1 += read as u64;
            Ok(read)
        }
    }

    fn bound_of(file_bytes: u64) -> (u64, SnapshotError) {
        ReadOptions::default().bound("gzip", file_bytes)
    }

    #[test]
    fn the_bound_is_a_multiple_of_the_file_above_a_least_and_below_a_most() {
        assert_eq!(bound_of(1000).0, 64 << 20);
        assert_eq!(bound_of(1 << 20).0, 200 << 20);
        let (most, error) = bound_of(1 << 30);
        assert_eq!(most, 8 << 30);
        assert!(matches!(error, SnapshotError::TooLarge { .. }));
        assert_eq!(bound_of(u64::MAX).0, 8 << 30);
    }

    #[test]
    fn nothing_is_read_beyond_the_bound() {
        let mut endless = Counted(repeat(0), 0);
        let refused = decompress("gzip", &mut endless, bound_of(400_000)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "400000 bytes of gzip data decompress to more than 80000000; a snapshot would be 6 to 30 times as large"
        );
        assert_eq!(endless.1, 80_000_001);
        let bytes = decompress("gzip", repeat(7).take(3 << 20), bound_of(1)).unwrap();
        assert_eq!(bytes.len(), 3 << 20);
        let exact = decompress("gzip", repeat(7).take(80_000_000), bound_of(400_000)).unwrap();
        assert_eq!(exact.len(), 80_000_000);
    }

    fn gzipped(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        io::Write::write_all(&mut encoder, bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn read_all(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        GzipFile::new(bytes).read_to_end(&mut all).map(|_| all)
    }

    #[test]
    fn zeros_behind_gzip_streams_are_padding_and_nothing_else_is() {
        let two = [gzipped(b"one "), gzipped(b"two")].concat();
        assert_eq!(read_all(&two).unwrap(), b"one two");
        for zeros in [1, 10, 511, 100_000] {
            let padded = [two.clone(), vec![0; zeros]].concat();
            assert_eq!(read_all(&padded).unwrap(), b"one two");
            let damaged = [padded, vec![1]].concat();
            read_all(&damaged).unwrap_err();
        }
        for kept in 1..two.len() {
            let is_whole = kept == gzipped(b"one ").len();
            assert_eq!(read_all(&two[..kept]).is_ok(), is_whole, "{kept}");
        }
    }

    #[test]
    fn want_of_memory_is_no_damage() {
        let mut bytes = Vec::new();
        let error = reserve("gzip", &mut bytes, isize::MAX as usize).unwrap_err();
        assert_eq!(
            error.to_string(),
            "not enough memory to decompress the gzip data: 9223372036854775807 bytes could not be allocated"
        );
        for cause in [
            io::Error::from(io::ErrorKind::OutOfMemory),
            io::Error::other("Allocation error : not enough memory"),
            io::Error::other("Frame requires too much memory for decoding"),
        ] {
            let error = failed("zstd", cause);
            assert!(
                matches!(error, SnapshotError::OutOfMemory { .. }),
                "{error}"
            );
        }
        let damaged = failed("zstd", io::Error::other("Data corruption detected"));
        assert!(matches!(damaged, SnapshotError::Compression { .. }));
    }
}
