//! `model.safetensors.index.json`: which file of a checkpoint holds which tensor.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::WeightsError;
use crate::limits::MAX_TENSORS;

/// An index, by file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardIndex {
    /// The tensors of each shard. The names are file names, never paths.
    pub shards: BTreeMap<String, Vec<String>>,
    /// `total_size` as it is written there, in bytes; tools do not agree on what it includes.
    pub total_size_bytes: Option<u64>,
}

impl ShardIndex {
    /// Parses the bytes of an index; `path` is for the errors.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<ShardIndex, WeightsError> {
        let json: IndexJson =
            serde_json::from_slice(bytes).map_err(|error| WeightsError::InvalidJson {
                problem: error.to_string(),
                path: path.to_path_buf(),
            })?;
        let mut places = json.weight_map.0;
        if places.is_empty() {
            return Err(WeightsError::EmptyIndex {
                path: path.to_path_buf(),
            });
        }
        places.sort_unstable();
        if let Some(pair) = places.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let tensor = pair[0].0.clone();
            return Err(WeightsError::DuplicateTensor {
                tensor,
                path: path.to_path_buf(),
            });
        }
        let mut shards: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (tensor, shard) in places {
            if !is_file_name(&shard) {
                return Err(WeightsError::ShardOutside {
                    shard,
                    path: path.to_path_buf(),
                });
            }
            shards.entry(shard).or_default().push(tensor);
        }
        let total_size = json.metadata.and_then(|metadata| metadata.total_size);
        Ok(ShardIndex {
            shards,
            total_size_bytes: total_size.as_ref().and_then(whole_number),
        })
    }
}

/// Whether a name stays in its folder, on any operating system.
fn is_file_name(name: &str) -> bool {
    let leaves = |character: char| matches!(character, '/' | '\\' | ':' | '\0');
    !name.is_empty() && name != "." && name != ".." && !name.contains(leaves)
}

/// An integer; some tools write it as a floating-point number.
fn whole_number(number: &serde_json::Number) -> Option<u64> {
    let float = || {
        number
            .as_f64()
            .filter(|value| value.fract() == 0.0 && (0.0..9e15).contains(value))
    };
    number
        .as_u64()
        .or_else(|| float().map(|value| value as u64))
}

#[derive(Deserialize)]
struct IndexJson {
    metadata: Option<IndexMetadata>,
    weight_map: WeightMap,
}

#[derive(Deserialize)]
struct IndexMetadata {
    total_size: Option<serde_json::Number>,
}

/// Tensors with their files; tensors can be there twice.
struct WeightMap(Vec<(String, String)>);

impl<'de> Deserialize<'de> for WeightMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WeightMap, D::Error> {
        deserializer.deserialize_map(WeightMapVisitor)
    }
}

struct WeightMapVisitor;

impl<'de> Visitor<'de> for WeightMapVisitor {
    type Value = WeightMap;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object with a file name for each tensor")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<WeightMap, M::Error> {
        let mut places = Vec::new();
        while let Some(place) = map.next_entry()? {
            if places.len() as u64 == MAX_TENSORS {
                return Err(M::Error::custom(format_args!(
                    "more than {MAX_TENSORS} tensors"
                )));
            }
            places.push(place);
        }
        Ok(WeightMap(places))
    }
}
