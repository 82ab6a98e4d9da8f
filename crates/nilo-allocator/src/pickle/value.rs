//! A value on the stack or in the memo: eight bytes, whatever it is.
//!
//! Containers and texts are numbers that the builder knows, so a value that is used a million times is stored once.

/// What a [`PickleValue`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PickleKind {
    /// `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// A whole number of less than 60 bits.
    Int(i64),
    /// A larger whole number up to 2^64 - 1, kept by the builder.
    Wide(u32),
    /// A float, kept by the builder.
    Float(u32),
    /// A text, kept by the builder.
    Text(u32),
    /// A dict, kept by the builder.
    Dict(u32),
    /// A list or a set, kept by the builder.
    List(u32),
    /// A tuple, kept by the builder.
    Tuple(u32),
    /// Something nothing is ever asked of: bytes, numbers of more than 64 bits.
    Opaque,
}

/// A packed [`PickleKind`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PickleValue(u64);

const TAG_BITS: u32 = 4;
const INT_BITS: u32 = 64 - TAG_BITS;

impl PickleValue {
    /// Packs a kind. Whole numbers must fit; see [`PickleValue::fits`].
    pub fn new(kind: PickleKind) -> Self {
        let (tag, payload) = match kind {
            PickleKind::None => (0, 0),
            PickleKind::Bool(value) => (1, u64::from(value)),
            PickleKind::Int(value) => (2, value as u64),
            PickleKind::Wide(id) => (3, u64::from(id)),
            PickleKind::Float(id) => (4, u64::from(id)),
            PickleKind::Text(id) => (5, u64::from(id)),
            PickleKind::Dict(id) => (6, u64::from(id)),
            PickleKind::List(id) => (7, u64::from(id)),
            PickleKind::Tuple(id) => (8, u64::from(id)),
            PickleKind::Opaque => (9, 0),
        };
        Self(payload << TAG_BITS | tag)
    }

    /// Whether a whole number can be packed as [`PickleKind::Int`].
    pub fn fits(value: i64) -> bool {
        let bound = 1_i64 << (INT_BITS - 1);
        (-bound..bound).contains(&value)
    }

    /// What it is.
    pub fn kind(self) -> PickleKind {
        let id = (self.0 >> TAG_BITS) as u32;
        match self.0 & ((1 << TAG_BITS) - 1) {
            0 => PickleKind::None,
            1 => PickleKind::Bool(id != 0),
            2 => PickleKind::Int(self.0 as i64 >> TAG_BITS),
            3 => PickleKind::Wide(id),
            4 => PickleKind::Float(id),
            5 => PickleKind::Text(id),
            6 => PickleKind::Dict(id),
            7 => PickleKind::List(id),
            8 => PickleKind::Tuple(id),
            _ => PickleKind::Opaque,
        }
    }
}

impl std::fmt::Debug for PickleValue {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.kind().fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_and_unpacking_gives_the_same_kind() {
        let bound = 1_i64 << 59;
        for kind in [
            PickleKind::None,
            PickleKind::Bool(true),
            PickleKind::Bool(false),
            PickleKind::Int(0),
            PickleKind::Int(-1),
            PickleKind::Int(bound - 1),
            PickleKind::Int(-bound),
            PickleKind::Wide(u32::MAX),
            PickleKind::Float(7),
            PickleKind::Text(1),
            PickleKind::Dict(2),
            PickleKind::List(3),
            PickleKind::Tuple(u32::MAX),
            PickleKind::Opaque,
        ] {
            assert_eq!(PickleValue::new(kind).kind(), kind);
        }
        assert!(PickleValue::fits(bound - 1) && PickleValue::fits(-bound));
        assert!(!PickleValue::fits(bound) && !PickleValue::fits(-bound - 1));
    }
}
