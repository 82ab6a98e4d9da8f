//! Where the tensors of a file lie in its data: none in the bytes of another, none behind the end of the file.

use std::path::Path;

use crate::{TensorWeights, WeightsError};

/// The bytes of one tensor, counted from the beginning of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Extent {
    /// Its first byte.
    pub(crate) begin: u64,
    /// The byte after its last.
    pub(crate) end: u64,
    /// Which tensor it is.
    pub(crate) tensor: usize,
}

/// Whether bytes may lie between two tensors.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gaps {
    /// As in GGUF, which pads.
    Allowed,
    /// As in safetensors.
    Refused,
}

/// Puts the extents in order and checks them against each other; where the last one ends.
pub(crate) fn check_extents(
    extents: &mut [Extent],
    tensors: &[TensorWeights],
    gaps: Gaps,
    path: &Path,
) -> Result<u64, WeightsError> {
    extents.sort_unstable();
    let name = |extent: &Extent| tensors[extent.tensor].name.clone();
    let mut covered = 0;
    let mut previous = None;
    for extent in extents.iter() {
        if let Some(previous) = previous.filter(|_| extent.begin < covered) {
            return Err(WeightsError::Overlap {
                first: name(previous),
                second: name(extent),
                path: path.to_path_buf(),
            });
        }
        if gaps == Gaps::Refused && extent.begin > covered {
            let bytes = extent.begin - covered;
            return Err(WeightsError::Gap {
                bytes,
                tensor: name(extent),
                path: path.to_path_buf(),
            });
        }
        covered = extent.end;
        previous = Some(extent);
    }
    Ok(covered)
}

/// Refuses data that ends behind the end of the file.
pub(crate) fn check_length(
    data_end: u64,
    file_bytes: u64,
    path: &Path,
) -> Result<(), WeightsError> {
    match data_end.checked_sub(file_bytes) {
        None | Some(0) => Ok(()),
        Some(missing_bytes) => Err(WeightsError::Truncated {
            missing_bytes,
            path: path.to_path_buf(),
        }),
    }
}
