//! How much of an untrusted header is read and kept.

use std::path::Path;

use crate::WeightsError;

/// Bytes of a safetensors header or an index, and of the names and metadata that are kept of a checkpoint: the limit of the safetensors format.
pub const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Tensors of a checkpoint; the largest published ones have about 200,000.
pub const MAX_TENSORS: u64 = 1_000_000;

/// Metadata keys of a GGUF file.
pub const MAX_KEYS: u64 = 1_000_000;

/// Bytes of one string in a GGUF file.
pub const MAX_STRING_BYTES: u64 = 64 << 20;

/// Bytes of a metadata text that is kept; longer ones are left out.
pub const MAX_KEPT_TEXT_BYTES: u64 = 4096;

/// Elements of a metadata array that is kept; longer ones are left out.
pub const MAX_LIST_LENGTH: u64 = 4096;

/// Strings and arrays inside of the metadata arrays of a GGUF file; the largest vocabularies have about a million tokens and merges.
pub(crate) const MAX_ARRAY_ITEMS: u64 = 16_000_000;

/// Arrays within arrays; known files have none.
pub(crate) const MAX_ARRAY_DEPTH: usize = 8;

/// Dimensions of a safetensors tensor; PyTorch and NumPy have at most 64.
pub(crate) const MAX_SHAPE_LENGTH: usize = 64;

/// Dimensions of a ggml tensor (`GGML_MAX_DIMS`).
pub(crate) const MAX_GGML_DIMENSIONS: u32 = 4;

/// What names and metadata may still take in memory.
pub(crate) struct KeptBytes {
    left: u64,
}

impl KeptBytes {
    pub(crate) fn new() -> KeptBytes {
        KeptBytes {
            left: MAX_HEADER_BYTES,
        }
    }

    /// Takes some of it, or says that there is not enough left.
    pub(crate) fn charge(&mut self, bytes: u64, path: &Path) -> Result<(), WeightsError> {
        self.left = self
            .left
            .checked_sub(bytes)
            .ok_or_else(|| WeightsError::KeptTooLarge {
                limit: MAX_HEADER_BYTES,
                path: path.to_path_buf(),
            })?;
        Ok(())
    }
}
