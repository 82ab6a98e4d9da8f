//! One metadata value of a GGUF file, kept or passed over.

use std::io::{Read, Seek};

use crate::header_input::HeaderInput;
use crate::limits::{
    MAX_ARRAY_DEPTH, MAX_ARRAY_ITEMS, MAX_KEPT_TEXT_BYTES, MAX_LIST_LENGTH, MAX_STRING_BYTES,
};
use crate::{MetadataValue, WeightsError};

/// The number of the type `string`.
const STRING: u32 = 8;

/// The number of the type `array`.
const ARRAY: u32 = 9;

/// Whether a value is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// It is, if it is short.
    Short,
    /// It is not.
    Nothing,
}

/// Reads values one after another.
pub(crate) struct ValueReader {
    /// Strings and arrays met within arrays.
    items: u64,
}

impl ValueReader {
    pub(crate) fn new() -> ValueReader {
        ValueReader { items: 0 }
    }

    /// The value at the input, where it is to be kept; the input is behind it in any case.
    pub(crate) fn take<R: Read + Seek>(
        &mut self,
        input: &mut HeaderInput<R>,
        key: &str,
        keep: Keep,
    ) -> Result<Option<MetadataValue>, WeightsError> {
        let value_type = input.take_u32()?;
        match value_type {
            STRING => take_text(input, keep),
            ARRAY => self.take_array(input, key, keep),
            _ => {
                let value = take_scalar(input, key, value_type)?;
                Ok(Some(value).filter(|_| keep == Keep::Short))
            }
        }
    }

    fn take_array<R: Read + Seek>(
        &mut self,
        input: &mut HeaderInput<R>,
        key: &str,
        keep: Keep,
    ) -> Result<Option<MetadataValue>, WeightsError> {
        let mut array = take_array_head(input, key)?;
        if array.scalar_bytes.is_none() {
            self.skip_items(input, key, array)?;
            return Ok(None);
        }
        if keep == Keep::Nothing || array.left > MAX_LIST_LENGTH {
            skip_scalars(input, &array)?;
            return Ok(None);
        }
        let mut values = Vec::new();
        while array.left > 0 {
            values.push(take_scalar(input, key, array.element_type)?);
            array.left -= 1;
        }
        Ok(Some(MetadataValue::List(values)))
    }

    /// Passes over strings and inner arrays; a list of open arrays takes the place of recursion.
    fn skip_items<R: Read + Seek>(
        &mut self,
        input: &mut HeaderInput<R>,
        key: &str,
        array: ArrayHead,
    ) -> Result<(), WeightsError> {
        let mut open = vec![array];
        while let Some(array) = open.last_mut() {
            let Some(left) = array.left.checked_sub(1) else {
                open.pop();
                continue;
            };
            array.left = left;
            self.count_item(input)?;
            if array.element_type == STRING {
                skip_string(input)?;
                continue;
            }
            let inner = take_array_head(input, key)?;
            if inner.scalar_bytes.is_some() {
                skip_scalars(input, &inner)?;
            } else if open.len() == MAX_ARRAY_DEPTH {
                let path = input.path().to_path_buf();
                return Err(WeightsError::NestedTooDeep {
                    key: key.to_owned(),
                    limit: MAX_ARRAY_DEPTH,
                    path,
                });
            } else {
                open.push(inner);
            }
        }
        Ok(())
    }

    fn count_item<R: Read + Seek>(&mut self, input: &HeaderInput<R>) -> Result<(), WeightsError> {
        self.items += 1;
        if self.items <= MAX_ARRAY_ITEMS {
            return Ok(());
        }
        Err(WeightsError::TooMany {
            what: "strings in arrays",
            count: self.items,
            limit: MAX_ARRAY_ITEMS,
            path: input.path().to_path_buf(),
        })
    }
}

/// The beginning of an array.
struct ArrayHead {
    element_type: u32,
    /// The bytes of an element; none where it is a string or an array.
    scalar_bytes: Option<u64>,
    /// The elements that are still to come.
    left: u64,
}

/// Reads the type and the number of the elements, if the file has room for as many.
fn take_array_head<R: Read + Seek>(
    input: &mut HeaderInput<R>,
    key: &str,
) -> Result<ArrayHead, WeightsError> {
    let element_type = input.take_u32()?;
    let least_bytes = match element_type {
        STRING => 8,
        ARRAY => 12,
        _ => scalar_bytes(element_type).ok_or_else(|| unknown_type(input, key, element_type))?,
    };
    let left = input.take_u64()?;
    check_count(input, "array elements", left, least_bytes)?;
    Ok(ArrayHead {
        element_type,
        scalar_bytes: scalar_bytes(element_type),
        left,
    })
}

/// Refuses a number of things that cannot fit into the rest of the file.
pub(crate) fn check_count<R: Read + Seek>(
    input: &HeaderInput<R>,
    what: &'static str,
    count: u64,
    least_bytes: u64,
) -> Result<(), WeightsError> {
    let left_bytes = input.left_bytes();
    if count <= left_bytes / least_bytes {
        return Ok(());
    }
    Err(WeightsError::CountBeyondFile {
        what,
        count,
        left_bytes,
        path: input.path().to_path_buf(),
    })
}

fn skip_scalars<R: Read + Seek>(
    input: &mut HeaderInput<R>,
    array: &ArrayHead,
) -> Result<(), WeightsError> {
    // The head was checked: as many bytes are left.
    input.skip(array.left.saturating_mul(array.scalar_bytes.unwrap_or(0)))
}

/// The length of a string, if it is sensible and the file has as much.
pub(crate) fn take_string_length<R: Read + Seek>(
    input: &mut HeaderInput<R>,
) -> Result<u64, WeightsError> {
    let bytes = input.take_u64()?;
    check_count(input, "bytes of a string", bytes, 1)?;
    if bytes > MAX_STRING_BYTES {
        let path = input.path().to_path_buf();
        return Err(WeightsError::StringTooLong {
            bytes,
            limit: MAX_STRING_BYTES,
            path,
        });
    }
    Ok(bytes)
}

fn skip_string<R: Read + Seek>(input: &mut HeaderInput<R>) -> Result<(), WeightsError> {
    let length = take_string_length(input)?;
    input.skip(length)
}

fn take_text<R: Read + Seek>(
    input: &mut HeaderInput<R>,
    keep: Keep,
) -> Result<Option<MetadataValue>, WeightsError> {
    let length = take_string_length(input)?;
    if keep == Keep::Nothing || length > MAX_KEPT_TEXT_BYTES {
        input.skip(length)?;
        return Ok(None);
    }
    let bytes = input.take(length)?;
    Ok(Some(MetadataValue::Text(
        String::from_utf8_lossy(&bytes).into_owned(),
    )))
}

/// The bytes of a number or a truth value; none for other types.
fn scalar_bytes(value_type: u32) -> Option<u64> {
    match value_type {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

fn take_scalar<R: Read + Seek>(
    input: &mut HeaderInput<R>,
    key: &str,
    value_type: u32,
) -> Result<MetadataValue, WeightsError> {
    Ok(match value_type {
        0 => MetadataValue::Unsigned(u8::from_le_bytes(input.take_array()?).into()),
        1 => MetadataValue::Signed(i8::from_le_bytes(input.take_array()?).into()),
        2 => MetadataValue::Unsigned(u16::from_le_bytes(input.take_array()?).into()),
        3 => MetadataValue::Signed(i16::from_le_bytes(input.take_array()?).into()),
        4 => MetadataValue::Unsigned(u32::from_le_bytes(input.take_array()?).into()),
        5 => MetadataValue::Signed(i32::from_le_bytes(input.take_array()?).into()),
        6 => MetadataValue::Float(f32::from_le_bytes(input.take_array()?).into()),
        7 => MetadataValue::Bool(input.take_array::<1>()? != [0]),
        10 => MetadataValue::Unsigned(u64::from_le_bytes(input.take_array()?)),
        11 => MetadataValue::Signed(i64::from_le_bytes(input.take_array()?)),
        12 => MetadataValue::Float(f64::from_le_bytes(input.take_array()?)),
        _ => return Err(unknown_type(input, key, value_type)),
    })
}

fn unknown_type<R: Read + Seek>(
    input: &HeaderInput<R>,
    key: &str,
    value_type: u32,
) -> WeightsError {
    WeightsError::UnknownValueType {
        key: key.to_owned(),
        value_type,
        path: input.path().to_path_buf(),
    }
}
