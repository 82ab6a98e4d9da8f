//! A checkpoint at a path: a file, a folder, an index, or one of several parts.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::folder::{FolderModel, INDEX_SUFFIX, choose, list_names};
use crate::limits::{KeptBytes, MAX_HEADER_BYTES, MAX_TENSORS};
use crate::part_name::{PartName, file_name};
use crate::tensor_names::check_names_across_files;
use crate::{MetadataValue, ShardIndex, TensorWeights, Weights, WeightsError, WeightsFormat};

/// The key of an index's `total_size` in the metadata.
const TOTAL_SIZE_KEY: &str = "total_size";

/// How many tensors a split GGUF file has in all its parts.
const SPLIT_TENSORS_KEY: &str = "split.tensors.count";

impl Weights {
    /// Reads the headers of a checkpoint.
    ///
    /// A folder is searched for an index, for safetensors files, and for a GGUF file, in this order.
    /// An index stands for the files that it names, and one part (`model-00001-of-00003.gguf`) for all parts beside it.
    pub fn read(path: &Path) -> Result<Weights, WeightsError> {
        let about = std::fs::metadata(path).map_err(|source| WeightsError::Read {
            path: path.to_path_buf(),
            source,
        })?;
        if about.is_dir() {
            return match choose(&list_names(path)?, path)? {
                FolderModel::Index(name) => read_index(&path.join(name)),
                FolderModel::Files(names) => read_files(path, names, path),
            };
        }
        let name = file_name(path);
        if name.ends_with(INDEX_SUFFIX) {
            return read_index(path);
        }
        match PartName::parse(&name) {
            Some(part) => read_files(folder_of(path), part.all(), path),
            None => read_file(path),
        }
    }
}

/// The folder in which a file lies.
fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// An ordinary file; opening a pipe would wait for its writer.
fn open(path: &Path) -> Result<File, WeightsError> {
    let failed = |source| WeightsError::Read {
        path: path.to_path_buf(),
        source,
    };
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(WeightsError::NotAFile {
            path: path.to_path_buf(),
        });
    }
    File::open(path).map_err(failed)
}

fn read_file(path: &Path) -> Result<Weights, WeightsError> {
    Weights::read_one_file(open(path)?, path)
}

/// A file that has to be there because `promised_by` says so.
fn read_shard(
    folder: &Path,
    name: &str,
    promised_by: &Path,
) -> Result<(PathBuf, Weights), WeightsError> {
    let path = folder.join(name);
    if path
        .symlink_metadata()
        .is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
    {
        return Err(WeightsError::MissingShard {
            shard: name.to_owned(),
            path: promised_by.to_path_buf(),
        });
    }
    let weights = read_file(&path)?;
    Ok((path, weights))
}

/// Reads files beside each other as one checkpoint.
fn read_files(
    folder: &Path,
    names: impl IntoIterator<Item = String>,
    promised_by: &Path,
) -> Result<Weights, WeightsError> {
    let mut whole = WholeCheckpoint::new();
    for name in names {
        let (path, weights) = read_shard(folder, &name, promised_by)?;
        whole.add(path, weights)?;
    }
    let first = whole
        .ends
        .first()
        .map(|(path, _)| path.clone())
        .unwrap_or_default();
    let weights = whole.finish()?;
    let claimed = weights
        .metadata
        .get(SPLIT_TENSORS_KEY)
        .and_then(MetadataValue::as_u64);
    let found = weights.tensors.len() as u64;
    match claimed.filter(|claimed| weights.files > 1 && *claimed != found) {
        Some(claimed) => Err(WeightsError::SplitTensors {
            found,
            claimed,
            path: first,
        }),
        None => Ok(weights),
    }
}

fn read_index(path: &Path) -> Result<Weights, WeightsError> {
    let file = open(path)?;
    let failed = |source| WeightsError::Read {
        path: path.to_path_buf(),
        source,
    };
    let file_bytes = file.metadata().map_err(failed)?.len();
    if file_bytes > MAX_HEADER_BYTES {
        let path = path.to_path_buf();
        return Err(WeightsError::HeaderTooLarge {
            bytes: file_bytes,
            limit: MAX_HEADER_BYTES,
            path,
        });
    }
    let mut bytes = Vec::new();
    file.take(MAX_HEADER_BYTES)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    let index = ShardIndex::parse(&bytes, path)?;
    drop(bytes);

    let mut whole = WholeCheckpoint::new();
    for (shard, tensors) in index.shards {
        let (shard_path, weights) = read_shard(folder_of(path), &shard, path)?;
        let names: HashSet<&str> = weights
            .tensors
            .iter()
            .map(|tensor| tensor.name.as_str())
            .collect();
        if let Some(tensor) = tensors
            .into_iter()
            .find(|tensor| !names.contains(tensor.as_str()))
        {
            return Err(WeightsError::NotInShard {
                tensor,
                shard,
                path: path.to_path_buf(),
            });
        }
        whole.add(shard_path, weights)?;
    }
    let mut weights = whole.finish()?;
    if let Some(total_size_bytes) = index.total_size_bytes {
        let value = MetadataValue::Unsigned(total_size_bytes);
        weights.metadata.insert(TOTAL_SIZE_KEY.to_owned(), value);
    }
    Ok(weights)
}

/// A checkpoint that grows file by file.
struct WholeCheckpoint {
    format: Option<WeightsFormat>,
    tensors: Vec<TensorWeights>,
    metadata: BTreeMap<String, MetadataValue>,
    /// Each file with the number of tensors up to its end.
    ends: Vec<(PathBuf, usize)>,
    kept: KeptBytes,
    total_bytes: u64,
    total_parameters: u64,
}

impl WholeCheckpoint {
    fn new() -> WholeCheckpoint {
        WholeCheckpoint {
            format: None,
            tensors: Vec::new(),
            metadata: BTreeMap::new(),
            ends: Vec::new(),
            kept: KeptBytes::new(),
            total_bytes: 0,
            total_parameters: 0,
        }
    }

    fn add(&mut self, path: PathBuf, weights: Weights) -> Result<(), WeightsError> {
        if *self.format.get_or_insert(weights.format) != weights.format {
            return Err(WeightsError::MixedFormats { path });
        }
        let count = (self.tensors.len() + weights.tensors.len()) as u64;
        if count > MAX_TENSORS {
            return Err(WeightsError::TooMany {
                what: "tensors",
                count,
                limit: MAX_TENSORS,
                path,
            });
        }
        for tensor in weights.tensors {
            self.kept.charge(tensor.name.len() as u64, &path)?;
            let bytes = self.total_bytes.checked_add(tensor.bytes);
            let parameters = self.total_parameters.checked_add(tensor.parameters);
            let Some((bytes, parameters)) = bytes.zip(parameters) else {
                return Err(WeightsError::TotalOverflow { path });
            };
            (self.total_bytes, self.total_parameters) = (bytes, parameters);
            self.tensors.push(tensor);
        }
        for (key, value) in weights.metadata {
            if !self.metadata.contains_key(&key) {
                self.kept
                    .charge(key.len() as u64 + value.kept_bytes(), &path)?;
                self.metadata.insert(key, value);
            }
        }
        self.ends.push((path, self.tensors.len()));
        Ok(())
    }

    fn finish(self) -> Result<Weights, WeightsError> {
        check_names_across_files(&self.tensors, &self.ends)?;
        Ok(Weights {
            format: self.format.unwrap_or(WeightsFormat::Safetensors),
            files: self.ends.len(),
            tensors: self.tensors,
            metadata: self.metadata,
        })
    }
}
