//! Names of tensors: each is there once, in a file and in a checkpoint.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::part_name::file_name;
use crate::{TensorWeights, WeightsError};

/// Refuses a file with two tensors of one name.
pub(crate) fn check_names_in_file(
    tensors: &[TensorWeights],
    path: &Path,
) -> Result<(), WeightsError> {
    let mut names = HashSet::with_capacity(tensors.len());
    match tensors
        .iter()
        .find(|tensor| !names.insert(tensor.name.as_str()))
    {
        None => Ok(()),
        Some(tensor) => Err(WeightsError::DuplicateTensor {
            tensor: tensor.name.clone(),
            path: path.to_path_buf(),
        }),
    }
}

/// Refuses a tensor that two files have; `ends` says where the tensors of each file end.
pub(crate) fn check_names_across_files(
    tensors: &[TensorWeights],
    ends: &[(PathBuf, usize)],
) -> Result<(), WeightsError> {
    let mut order: Vec<usize> = (0..tensors.len()).collect();
    order.sort_unstable_by(|&left, &right| {
        (&tensors[left].name, left).cmp(&(&tensors[right].name, right))
    });
    let same = order
        .windows(2)
        .find(|pair| tensors[pair[0]].name == tensors[pair[1]].name);
    let file_of = |tensor: usize| {
        let file = ends.partition_point(|(_, end)| *end <= tensor);
        ends.get(file)
            .map(|(path, _)| path.as_path())
            .unwrap_or(Path::new(""))
    };
    match same {
        None => Ok(()),
        Some(pair) => Err(WeightsError::DuplicateAcrossFiles {
            tensor: tensors[pair[0]].name.clone(),
            first: file_name(file_of(pair[0])),
            path: file_of(pair[1]).to_path_buf(),
        }),
    }
}
