//! The element types of safetensors and their bits.

/// The types of safetensors 0.8, in the words of its headers.
const ELEMENT_BITS: [(&str, u64); 22] = [
    ("BOOL", 8),
    ("F4", 4),
    ("F6_E2M3", 6),
    ("F6_E3M2", 6),
    ("U8", 8),
    ("I8", 8),
    ("F8_E5M2", 8),
    ("F8_E4M3", 8),
    ("F8_E8M0", 8),
    ("F8_E4M3FNUZ", 8),
    ("F8_E5M2FNUZ", 8),
    ("I16", 16),
    ("U16", 16),
    ("F16", 16),
    ("BF16", 16),
    ("I32", 32),
    ("U32", 32),
    ("F32", 32),
    ("C64", 64),
    ("F64", 64),
    ("I64", 64),
    ("U64", 64),
];

/// The bits of one element, where the type is known.
pub(crate) fn element_bits(kind: &str) -> Option<u64> {
    ELEMENT_BITS
        .iter()
        .find(|(name, _)| *name == kind)
        .map(|(_, bits)| *bits)
}
