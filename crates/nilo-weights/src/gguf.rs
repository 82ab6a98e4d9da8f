//! One GGUF file: counts, metadata, then an entry for each tensor; the data follows at the next aligned byte.

use std::collections::BTreeMap;
use std::io::{Read, Seek};
use std::path::Path;

use crate::data_section::{Extent, Gaps, check_extents, check_length};
use crate::ggml_kind::{GgmlKind, ggml_kind};
use crate::gguf_value::{Keep, ValueReader, check_count, take_string_length};
use crate::header_input::HeaderInput;
use crate::limits::{KeptBytes, MAX_GGML_DIMENSIONS, MAX_KEYS, MAX_TENSORS};
use crate::tensor_names::check_names_in_file;
use crate::weights::count_elements;
use crate::{MetadataValue, TensorWeights, Weights, WeightsError, WeightsFormat};

/// The first bytes of a GGUF file.
pub(crate) const MAGIC: [u8; 4] = *b"GGUF";

/// Where tensors may begin, unless the metadata says otherwise.
const DEFAULT_ALIGNMENT: u64 = 32;

/// The key of another alignment.
const ALIGNMENT_KEY: &str = "general.alignment";

/// What begins the keys of a tokenizer, which say nothing of memory and fill most of the header.
const TOKENIZER_PREFIX: &str = "tokenizer.";

/// The least that a key with its value takes: a length, a type and one byte.
const LEAST_KEY_BYTES: u64 = 8 + 4 + 1;

/// The least that an entry of a tensor takes: a length, the number of dimensions, a type and an offset.
const LEAST_ENTRY_BYTES: u64 = 8 + 4 + 4 + 8;

/// Reads the header and checks it against the length of the file.
pub(crate) fn read_gguf<R: Read + Seek>(
    mut input: HeaderInput<R>,
) -> Result<Weights, WeightsError> {
    let path = input.path().to_path_buf();
    if input.take_array()? != MAGIC {
        return Err(WeightsError::UnknownFormat { path });
    }
    check_version(input.take_u32()?, &path)?;
    let tensor_count = take_count(&mut input, "tensors", MAX_TENSORS, LEAST_ENTRY_BYTES)?;
    let key_count = take_count(&mut input, "metadata keys", MAX_KEYS, LEAST_KEY_BYTES)?;

    let mut kept = KeptBytes::new();
    let metadata = take_metadata(&mut input, key_count, &mut kept)?;
    let alignment = alignment(&metadata, &path)?;
    let (tensors, mut extents) = take_tensors(&mut input, tensor_count, alignment, &mut kept)?;
    check_names_in_file(&tensors, &path)?;

    let data_bytes = check_extents(&mut extents, &tensors, Gaps::Allowed, &path)?;
    if data_bytes > 0 {
        let data_begin = input.position().checked_next_multiple_of(alignment);
        let data_end = data_begin.and_then(|begin| begin.checked_add(data_bytes));
        let data_end =
            data_end.ok_or_else(|| WeightsError::TotalOverflow { path: path.clone() })?;
        check_length(data_end, input.file_bytes(), &path)?;
    }
    Ok(Weights {
        format: WeightsFormat::Gguf,
        files: 1,
        tensors,
        metadata,
    })
}

fn check_version(version: u32, path: &Path) -> Result<(), WeightsError> {
    match version {
        2 | 3 => Ok(()),
        // A small number with its bytes the other way round.
        1.. if version.trailing_zeros() >= 16 => Err(WeightsError::BigEndian {
            path: path.to_path_buf(),
        }),
        _ => Err(WeightsError::GgufVersion {
            version,
            path: path.to_path_buf(),
        }),
    }
}

/// A number of things, if it is sensible and the file has room for as many.
fn take_count<R: Read + Seek>(
    input: &mut HeaderInput<R>,
    what: &'static str,
    limit: u64,
    least_bytes: u64,
) -> Result<u64, WeightsError> {
    let count = input.take_u64()?;
    if count > limit {
        return Err(WeightsError::TooMany {
            what,
            count,
            limit,
            path: input.path().to_path_buf(),
        });
    }
    check_count(input, what, count, least_bytes)?;
    Ok(count)
}

fn take_name<R: Read + Seek>(
    input: &mut HeaderInput<R>,
    kept: &mut KeptBytes,
) -> Result<String, WeightsError> {
    let length = take_string_length(input)?;
    kept.charge(length, input.path())?;
    let bytes = input.take(length)?;
    String::from_utf8(bytes).map_err(|_| WeightsError::NotUtf8 {
        offset: input.position(),
        path: input.path().to_path_buf(),
    })
}

fn take_metadata<R: Read + Seek>(
    input: &mut HeaderInput<R>,
    count: u64,
    kept: &mut KeptBytes,
) -> Result<BTreeMap<String, MetadataValue>, WeightsError> {
    let mut metadata = BTreeMap::new();
    let mut values = ValueReader::new();
    for _ in 0..count {
        let key = take_name(input, kept)?;
        let keep = if key.starts_with(TOKENIZER_PREFIX) {
            Keep::Nothing
        } else {
            Keep::Short
        };
        let Some(value) = values.take(input, &key, keep)? else {
            continue;
        };
        kept.charge(value.kept_bytes(), input.path())?;
        if metadata.contains_key(&key) {
            return Err(WeightsError::DuplicateKey {
                key,
                path: input.path().to_path_buf(),
            });
        }
        metadata.insert(key, value);
    }
    Ok(metadata)
}

fn alignment(metadata: &BTreeMap<String, MetadataValue>, path: &Path) -> Result<u64, WeightsError> {
    let Some(value) = metadata.get(ALIGNMENT_KEY) else {
        return Ok(DEFAULT_ALIGNMENT);
    };
    let usable = |alignment: &u64| alignment.is_power_of_two() && u32::try_from(*alignment).is_ok();
    value
        .as_u64()
        .filter(usable)
        .ok_or_else(|| WeightsError::Alignment {
            value: match value {
                MetadataValue::Unsigned(value) => value.to_string(),
                MetadataValue::Signed(value) => value.to_string(),
                _ => "not an integer".to_owned(),
            },
            path: path.to_path_buf(),
        })
}

fn take_tensors<R: Read + Seek>(
    input: &mut HeaderInput<R>,
    count: u64,
    alignment: u64,
    kept: &mut KeptBytes,
) -> Result<(Vec<TensorWeights>, Vec<Extent>), WeightsError> {
    let path = input.path().to_path_buf();
    let mut tensors = Vec::new();
    let mut extents = Vec::new();
    for _ in 0..count {
        let name = take_name(input, kept)?;
        let dimensions = input.take_u32()?;
        if dimensions > MAX_GGML_DIMENSIONS {
            let limit = MAX_GGML_DIMENSIONS;
            return Err(WeightsError::TooManyDimensions {
                tensor: name,
                dimensions,
                limit,
                path,
            });
        }
        let shape = (0..dimensions)
            .map(|_| input.take_u64())
            .collect::<Result<Vec<_>, _>>()?;
        let number = input.take_u32()?;
        let offset = input.take_u64()?;
        let Some(kind) = ggml_kind(number) else {
            return Err(WeightsError::UnknownKind {
                tensor: name,
                kind: number.to_string(),
                path,
            });
        };
        if !offset.is_multiple_of(alignment) {
            return Err(WeightsError::Misaligned {
                tensor: name,
                offset,
                alignment,
                path,
            });
        }
        let tensor = into_weights(name, kind, shape, &path)?;
        let Some(end) = offset.checked_add(tensor.bytes) else {
            return Err(WeightsError::Overflow {
                tensor: tensor.name,
                path,
            });
        };
        extents.push(Extent {
            begin: offset,
            end,
            tensor: tensors.len(),
        });
        tensors.push(tensor);
    }
    Ok((tensors, extents))
}

/// The tensor of a shape in ggml's order, whose first dimension is the row.
fn into_weights(
    name: String,
    kind: GgmlKind,
    mut shape: Vec<u64>,
    path: &Path,
) -> Result<TensorWeights, WeightsError> {
    let GgmlKind {
        name: kind,
        block_length,
        block_bytes,
        ..
    } = kind;
    let row_length = shape.first().copied().unwrap_or(1);
    if !row_length.is_multiple_of(block_length) {
        let path = path.to_path_buf();
        return Err(WeightsError::PartialBlock {
            tensor: name,
            row_length,
            kind,
            block_length,
            path,
        });
    }
    let parameters = count_elements(&shape);
    let sizes = parameters.and_then(|elements| {
        Some((
            elements,
            (elements / block_length).checked_mul(block_bytes)?,
        ))
    });
    let Some((parameters, bytes)) = sizes else {
        return Err(WeightsError::Overflow {
            tensor: name,
            path: path.to_path_buf(),
        });
    };
    shape.reverse();
    Ok(TensorWeights {
        name,
        kind: kind.to_owned(),
        shape,
        parameters,
        bytes,
    })
}
