//! The tensor types of ggml: a row is a sequence of blocks, each with as many bytes.

/// One tensor type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GgmlKind {
    /// Its number in the file.
    pub(crate) number: u32,
    /// Its name in ggml.
    pub(crate) name: &'static str,
    /// The elements of a block.
    pub(crate) block_length: u64,
    /// The bytes of a block.
    pub(crate) block_bytes: u64,
}

const fn kind(number: u32, name: &'static str, block_length: u64, block_bytes: u64) -> GgmlKind {
    GgmlKind {
        number,
        name,
        block_length,
        block_bytes,
    }
}

/// `enum ggml_type` with the sizes of its blocks; the numbers that are left out have been withdrawn.
///
/// The Python package `gguf` says 40 bytes for `Q8_1`, whose block in ggml has two 16-bit numbers and 32 bytes.
const KINDS: [GgmlKind; 35] = [
    kind(0, "F32", 1, 4),
    kind(1, "F16", 1, 2),
    kind(2, "Q4_0", 32, 18),
    kind(3, "Q4_1", 32, 20),
    kind(6, "Q5_0", 32, 22),
    kind(7, "Q5_1", 32, 24),
    kind(8, "Q8_0", 32, 34),
    kind(9, "Q8_1", 32, 36),
    kind(10, "Q2_K", 256, 84),
    kind(11, "Q3_K", 256, 110),
    kind(12, "Q4_K", 256, 144),
    kind(13, "Q5_K", 256, 176),
    kind(14, "Q6_K", 256, 210),
    kind(15, "Q8_K", 256, 292),
    kind(16, "IQ2_XXS", 256, 66),
    kind(17, "IQ2_XS", 256, 74),
    kind(18, "IQ3_XXS", 256, 98),
    kind(19, "IQ1_S", 256, 50),
    kind(20, "IQ4_NL", 32, 18),
    kind(21, "IQ3_S", 256, 110),
    kind(22, "IQ2_S", 256, 82),
    kind(23, "IQ4_XS", 256, 136),
    kind(24, "I8", 1, 1),
    kind(25, "I16", 1, 2),
    kind(26, "I32", 1, 4),
    kind(27, "I64", 1, 8),
    kind(28, "F64", 1, 8),
    kind(29, "IQ1_M", 256, 56),
    kind(30, "BF16", 1, 2),
    kind(34, "TQ1_0", 256, 54),
    kind(35, "TQ2_0", 256, 66),
    kind(39, "MXFP4", 32, 17),
    kind(40, "NVFP4", 64, 36),
    kind(41, "Q1_0", 128, 18),
    kind(42, "Q2_0", 64, 18),
];

/// The type of a number, where there is one.
pub(crate) fn ggml_kind(number: u32) -> Option<GgmlKind> {
    KINDS.iter().find(|kind| kind.number == number).copied()
}
