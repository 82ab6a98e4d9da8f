//! CRC32C of short records, and the comparison that every reader makes.
//!
//! The `crc32c` crate is made for long buffers: it walks to an aligned address byte by byte, which is most of the work for a record of 20 to 60 bytes.
//! Reading unaligned words instead takes a third off a raw chart, and half off an append (`benches/runfile.rs`). Long buffers go to the crate.

use crate::record::RowFields;

/// From here on the crate's three parallel lanes win.
#[cfg(target_arch = "x86_64")]
const SHORT_LEN: usize = 256;

/// CRC32C of `bytes`, continued from `start`.
#[inline]
pub(crate) fn crc32c_from(start: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() < SHORT_LEN && is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instruction.
        return unsafe { short(start, bytes) };
    }
    crc32c::crc32c_append(start, bytes)
}

/// CRC32C of a row's body, from what it was made of.
///
/// A body read back at once would wait: its words lie across two of the stores that made it, which have to reach the cache first.
#[inline]
pub(crate) fn crc32c_of_row(start: u32, row: &RowFields<'_>, body: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if body.len() < SHORT_LEN && is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instruction.
        return unsafe { short_row(start, row) };
    }
    crc32c_from(start, body)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn short_row(start: u32, row: &RowFields<'_>) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u32, _mm_crc32_u64};

    let mut crc = u64::from(_mm_crc32_u32(!start, row.table));
    crc = _mm_crc32_u64(crc, row.time_nanos);
    if let Some(step) = row.step {
        crc = _mm_crc32_u64(crc, step as u64);
    }
    for value in row.values {
        crc = _mm_crc32_u64(crc, value.to_bits());
    }
    !(crc as u32)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn short(start: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64};

    use crate::header::{u32_at, u64_at};

    let mut crc = u64::from(!start);
    let words = bytes.chunks_exact(8);
    let rest = words.remainder();
    for word in words {
        crc = _mm_crc32_u64(crc, u64_at(word, 0));
    }
    let mut crc = crc as u32;
    let mut tail = rest;
    if tail.len() >= 4 {
        crc = _mm_crc32_u32(crc, u32_at(tail, 0));
        tail = &tail[4..];
    }
    for byte in tail {
        crc = _mm_crc32_u8(crc, *byte);
    }
    !crc
}

/// Whether a checksum read from a file is that of the bytes beside it.
///
/// Fuzzers are let through, since they would otherwise only ever test this comparison.
#[inline]
#[allow(unexpected_cfgs, reason = "set by cargo-fuzz, unknown to cargo")]
pub(crate) fn is_right(stored: u32, computed: u32) -> bool {
    cfg!(fuzzing) || stored == computed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{fill_row, row_body_len};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_row_has_the_checksum_of_its_body(
            start: u32,
            table: u32,
            time_nanos: u64,
            step: Option<i64>,
            values in prop::collection::vec(any::<f64>(), 0..60),
        ) {
            let row = RowFields { table, time_nanos, step, values: &values };
            let mut body = vec![0; row_body_len(values.len(), step.is_some())];
            fill_row(&mut body, &row);
            prop_assert_eq!(crc32c_of_row(start, &row, &body), crc32c::crc32c_append(start, &body));
        }

        #[test]
        fn the_short_way_gives_the_crates_checksum(start: u32, bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            prop_assert_eq!(crc32c_from(start, &bytes), crc32c::crc32c_append(start, &bytes));
        }
    }
}
