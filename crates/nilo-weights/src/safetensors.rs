//! One safetensors file: eight bytes of length, then a JSON object with an entry for each tensor.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read, Seek};
use std::path::Path;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::data_section::{Extent, Gaps, check_extents, check_length};
use crate::header_input::HeaderInput;
use crate::limits::{MAX_HEADER_BYTES, MAX_SHAPE_LENGTH, MAX_TENSORS};
use crate::metadata::keep_texts;
use crate::safetensors_kind::element_bits;
use crate::tensor_names::check_names_in_file;
use crate::weights::count_elements;
use crate::{TensorWeights, Weights, WeightsError, WeightsFormat};

/// The bytes of the header's length, which come before the header.
const LENGTH_BYTES: u64 = 8;

/// Reads the header and checks it against the length of the file.
pub(crate) fn read_safetensors<R: Read + Seek>(
    mut input: HeaderInput<R>,
) -> Result<Weights, WeightsError> {
    let path = input.path().to_path_buf();
    let header = take_header(&mut input)?;
    let header: Header =
        serde_json::from_slice(&header).map_err(|error| WeightsError::InvalidJson {
            problem: error.to_string(),
            path: path.clone(),
        })?;

    let mut tensors = Vec::with_capacity(header.tensors.len());
    let mut extents = Vec::with_capacity(header.tensors.len());
    for (tensor, (name, entry)) in header.tensors.into_iter().enumerate() {
        let [begin, end] = entry.data_offsets;
        tensors.push(entry.into_weights(name, &path)?);
        extents.push(Extent { begin, end, tensor });
    }
    check_names_in_file(&tensors, &path)?;

    let data_bytes = check_extents(&mut extents, &tensors, Gaps::Refused, &path)?;
    let data_end = input.position().checked_add(data_bytes);
    let data_end = data_end.ok_or_else(|| WeightsError::TotalOverflow { path: path.clone() })?;
    check_length(data_end, input.file_bytes(), &path)?;
    if data_end < input.file_bytes() {
        return Err(WeightsError::TrailingBytes {
            bytes: input.file_bytes() - data_end,
            path,
        });
    }

    // Extents hold each tensor once, in the order of the data.
    let mut unordered: Vec<Option<TensorWeights>> = tensors.into_iter().map(Some).collect();
    let tensors = extents
        .iter()
        .filter_map(|extent| unordered[extent.tensor].take())
        .collect();
    Ok(Weights {
        format: WeightsFormat::Safetensors,
        files: 1,
        tensors,
        metadata: keep_texts(header.metadata),
    })
}

/// The bytes of the JSON, if the file has as many as it says.
fn take_header<R: Read + Seek>(input: &mut HeaderInput<R>) -> Result<Vec<u8>, WeightsError> {
    let length = input.take_u64()?;
    let file_bytes = input.file_bytes();
    if length > file_bytes - LENGTH_BYTES {
        let path = input.path().to_path_buf();
        return Err(WeightsError::HeaderLength {
            claimed: length,
            file_bytes,
            path,
        });
    }
    if length > MAX_HEADER_BYTES {
        let path = input.path().to_path_buf();
        return Err(WeightsError::HeaderTooLarge {
            bytes: length,
            limit: MAX_HEADER_BYTES,
            path,
        });
    }
    input.take(length)
}

/// What the header says of one tensor.
#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: HeaderShape,
    data_offsets: [u64; 2],
}

impl Entry {
    /// The tensor, if its offsets agree with its type and shape.
    fn into_weights(self, name: String, path: &Path) -> Result<TensorWeights, WeightsError> {
        let path = path.to_path_buf();
        let [begin, end] = self.data_offsets;
        let Some(bits) = element_bits(&self.dtype) else {
            return Err(WeightsError::UnknownKind {
                tensor: name,
                kind: self.dtype,
                path,
            });
        };
        let Some(bytes) = end.checked_sub(begin) else {
            return Err(WeightsError::OffsetsReversed {
                tensor: name,
                begin,
                end,
                path,
            });
        };
        let parameters = count_elements(&self.shape.0);
        let sizes = parameters.and_then(|elements| Some((elements, elements.checked_mul(bits)?)));
        let Some((parameters, bits)) = sizes else {
            return Err(WeightsError::Overflow { tensor: name, path });
        };
        if !bits.is_multiple_of(8) {
            return Err(WeightsError::PartialByte {
                tensor: name,
                bits,
                path,
            });
        }
        let needed_bytes = bits / 8;
        if needed_bytes != bytes {
            return Err(WeightsError::SizeMismatch {
                tensor: name,
                needed_bytes,
                stored_bytes: bytes,
                path,
            });
        }
        Ok(TensorWeights {
            name,
            kind: self.dtype,
            shape: self.shape.0,
            parameters,
            bytes,
        })
    }
}

/// The JSON of the header; names can be there twice.
struct Header {
    metadata: BTreeMap<String, String>,
    tensors: Vec<(String, Entry)>,
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Header, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = Header;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object with an entry for each tensor")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Header, M::Error> {
        let mut metadata = None;
        let mut tensors = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                let texts: Option<BTreeMap<String, String>> = map.next_value()?;
                if metadata.replace(texts.unwrap_or_default()).is_some() {
                    return Err(M::Error::duplicate_field("__metadata__"));
                }
            } else if tensors.len() as u64 == MAX_TENSORS {
                return Err(M::Error::custom(format_args!(
                    "more than {MAX_TENSORS} tensors"
                )));
            } else {
                tensors.push((name, map.next_value()?));
            }
        }
        Ok(Header {
            metadata: metadata.unwrap_or_default(),
            tensors,
        })
    }
}

/// Dimensions, not more than any library has: a header of nothing but ones would take eight times its size.
struct HeaderShape(Vec<u64>);

impl<'de> Deserialize<'de> for HeaderShape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HeaderShape, D::Error> {
        deserializer.deserialize_seq(HeaderShapeVisitor)
    }
}

struct HeaderShapeVisitor;

impl<'de> Visitor<'de> for HeaderShapeVisitor {
    type Value = HeaderShape;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array of dimensions")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut sequence: S) -> Result<HeaderShape, S::Error> {
        let mut shape = Vec::new();
        while let Some(size) = sequence.next_element()? {
            if shape.len() == MAX_SHAPE_LENGTH {
                return Err(S::Error::custom(format_args!(
                    "more than {MAX_SHAPE_LENGTH} dimensions"
                )));
            }
            shape.push(size);
        }
        Ok(HeaderShape(shape))
    }
}
