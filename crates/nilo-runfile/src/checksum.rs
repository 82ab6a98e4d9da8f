//! CRC32C, and the comparison that every reader makes.

/// Whether a checksum read from a file is that of the bytes beside it.
///
/// Fuzzers are let through, since they would otherwise only ever test this comparison.
#[inline]
pub(crate) fn is_right(stored: u32, computed: u32) -> bool {
    cfg!(fuzzing) || stored == computed
}
