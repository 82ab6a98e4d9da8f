//! What a header says besides its tensors: `general.architecture`, `llama.block_count`, `format`.

use std::collections::BTreeMap;

use crate::limits::MAX_KEPT_TEXT_BYTES;

/// One value of the metadata.
#[derive(Debug, Clone, PartialEq)]
pub enum MetadataValue {
    /// A truth value.
    Bool(bool),
    /// An integer of an unsigned type.
    Unsigned(u64),
    /// An integer of a signed type.
    Signed(i64),
    /// A floating-point number.
    Float(f64),
    /// A text of at most [`crate::MAX_KEPT_TEXT_BYTES`]; bytes that are not UTF-8 are replaced.
    Text(String),
    /// Numbers or truth values, such as the number of heads of each layer; at most [`crate::MAX_LIST_LENGTH`].
    List(Vec<MetadataValue>),
}

impl MetadataValue {
    /// The value as a count, where it is an integer that is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            MetadataValue::Unsigned(value) => Some(*value),
            MetadataValue::Signed(value) => u64::try_from(*value).ok(),
            _ => None,
        }
    }

    /// The value as a text, where it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            MetadataValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// About what the value takes in memory.
    pub(crate) fn kept_bytes(&self) -> u64 {
        let own = size_of::<MetadataValue>() as u64;
        own + match self {
            MetadataValue::Text(text) => text.len() as u64,
            MetadataValue::List(values) => values.len() as u64 * own,
            _ => 0,
        }
    }
}

/// Texts as metadata, without the long ones: training tools store whole settings files there.
pub(crate) fn keep_texts(texts: BTreeMap<String, String>) -> BTreeMap<String, MetadataValue> {
    let short = texts
        .into_iter()
        .filter(|(_, text)| text.len() as u64 <= MAX_KEPT_TEXT_BYTES);
    short
        .map(|(key, text)| (key, MetadataValue::Text(text)))
        .collect()
}
