//! The numbers in a column.

use serde::{Deserialize, Serialize};

/// The kind of one element of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ElementKind {
    /// `bool`, one byte.
    Bool,
    /// `uint8`.
    U8,
    /// `int8`.
    I8,
    /// `uint16`.
    U16,
    /// `int16`.
    I16,
    /// `uint32`.
    U32,
    /// `int32`.
    I32,
    /// `uint64`.
    U64,
    /// `int64`.
    I64,
    /// `float16`.
    F16,
    /// `float32`.
    F32,
    /// `float64`.
    F64,
}

impl ElementKind {
    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            ElementKind::Bool | ElementKind::U8 | ElementKind::I8 => 1,
            ElementKind::U16 | ElementKind::I16 | ElementKind::F16 => 2,
            ElementKind::U32 | ElementKind::I32 | ElementKind::F32 => 4,
            ElementKind::U64 | ElementKind::I64 | ElementKind::F64 => 8,
        }
    }

    /// The kind that numpy writes as this letter and size, such as `f` and 4.
    pub fn from_numpy(letter: u8, size: usize) -> Option<ElementKind> {
        Some(match (letter, size) {
            (b'b', 1) => ElementKind::Bool,
            (b'u', 1) => ElementKind::U8,
            (b'i', 1) => ElementKind::I8,
            (b'u', 2) => ElementKind::U16,
            (b'i', 2) => ElementKind::I16,
            (b'u', 4) => ElementKind::U32,
            (b'i', 4) => ElementKind::I32,
            (b'u', 8) => ElementKind::U64,
            (b'i', 8) => ElementKind::I64,
            (b'f', 2) => ElementKind::F16,
            (b'f', 4) => ElementKind::F32,
            (b'f', 8) => ElementKind::F64,
            _ => return None,
        })
    }

    /// The name numpy has for it.
    pub fn numpy_name(self) -> &'static str {
        match self {
            ElementKind::Bool => "bool",
            ElementKind::U8 => "uint8",
            ElementKind::I8 => "int8",
            ElementKind::U16 => "uint16",
            ElementKind::I16 => "int16",
            ElementKind::U32 => "uint32",
            ElementKind::I32 => "int32",
            ElementKind::U64 => "uint64",
            ElementKind::I64 => "int64",
            ElementKind::F16 => "float16",
            ElementKind::F32 => "float32",
            ElementKind::F64 => "float64",
        }
    }
}
