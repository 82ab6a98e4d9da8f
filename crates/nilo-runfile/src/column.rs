//! One compressed column: numbers to bytes and back, every bit of them.
//!
//! Numbers are compressed by `pco`. The result is decoded again and compared; should it differ in one bit (a NaN's payload, say), the column is stored as it is.
//! A column with absent values is split into the runs of presence and the values that are there, since one odd NaN in a column of byte counts spoils the compression of all.

use nilo_sample::is_absent;
use pco::ChunkConfig;
use pco::data_types::Number;
use pco::standalone::{simple_compress, simple_decompress_into};

use crate::bytes::ByteReader;
use crate::header::u64_at;

const RAW: u8 = 0;
const PCO: u8 = 1;
const SPARSE: u8 = 2;

/// Below the default of `pco` (8), since compaction runs beside the job; a random walk still takes 6.6 bytes a point (`benches/runfile.rs`).
const LEVEL: usize = 6;

/// Bytes of a column and how they were made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packed {
    pub(crate) encoding: u8,
    pub(crate) bytes: Vec<u8>,
}

/// A number that a column can hold.
pub(crate) trait Num: Number + Default {
    fn bits(self) -> u64;
    fn from_bits(bits: u64) -> Self;
}

impl Num for u64 {
    fn bits(self) -> u64 {
        self
    }
    fn from_bits(bits: u64) -> u64 {
        bits
    }
}

impl Num for i64 {
    fn bits(self) -> u64 {
        self as u64
    }
    fn from_bits(bits: u64) -> i64 {
        bits as i64
    }
}

impl Num for f64 {
    fn bits(self) -> u64 {
        self.to_bits()
    }
    fn from_bits(bits: u64) -> f64 {
        f64::from_bits(bits)
    }
}

/// Compresses numbers.
pub(crate) fn pack<T: Num>(numbers: &[T]) -> Packed {
    let raw_len = numbers.len() * 8;
    let config = ChunkConfig::default().with_compression_level(LEVEL);
    if let Ok(bytes) = simple_compress(numbers, &config)
        && bytes.len() < raw_len
    {
        let packed = Packed {
            encoding: PCO,
            bytes,
        };
        let again = unpack::<T>(packed.encoding, &packed.bytes, numbers.len());
        let is_same = again.is_some_and(|again| {
            let pairs = again.iter().zip(numbers);
            again.len() == numbers.len() && pairs.into_iter().all(|(a, b)| a.bits() == b.bits())
        });
        if is_same {
            return packed;
        }
    }
    let mut bytes = Vec::with_capacity(raw_len);
    for number in numbers {
        bytes.extend_from_slice(&number.bits().to_le_bytes());
    }
    Packed {
        encoding: RAW,
        bytes,
    }
}

/// Compresses values of which some may be absent.
pub(crate) fn pack_values(values: &[f64]) -> Packed {
    if !values.iter().any(|value| is_absent(*value)) {
        return pack(values);
    }
    let present: Vec<f64> = values.iter().copied().filter(|v| !is_absent(*v)).collect();
    // Lengths of runs, present and absent in turn, beginning with present.
    let mut runs: Vec<u64> = vec![0];
    let mut in_present = true;
    for value in values {
        if is_absent(*value) == in_present {
            runs.push(0);
            in_present = !in_present;
        }
        if let Some(run) = runs.last_mut() {
            *run += 1;
        }
    }
    let (runs_count, runs) = (runs.len() as u32, pack(&runs));
    let present = pack(&present);
    let mut bytes = Vec::with_capacity(10 + runs.bytes.len() + present.bytes.len());
    bytes.extend_from_slice(&runs_count.to_le_bytes());
    bytes.extend_from_slice(&(runs.bytes.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&[runs.encoding, present.encoding]);
    bytes.extend_from_slice(&runs.bytes);
    bytes.extend_from_slice(&present.bytes);
    Packed {
        encoding: SPARSE,
        bytes,
    }
}

/// Decompresses exactly `count` numbers; the caller has bounded `count`. `None`: the bytes do not hold them.
pub(crate) fn unpack<T: Num>(encoding: u8, bytes: &[u8], count: usize) -> Option<Vec<T>> {
    let mut numbers = vec![T::default(); count];
    unpack_into(encoding, bytes, &mut numbers)?;
    Some(numbers)
}

/// Decompresses as many numbers as there is room for. `None`: the bytes do not hold exactly these; the room may then contain anything.
pub(crate) fn unpack_into<T: Num>(encoding: u8, bytes: &[u8], room: &mut [T]) -> Option<()> {
    match encoding {
        RAW => {
            if bytes.len() != room.len().checked_mul(8)? {
                return None;
            }
            for (number, word) in room.iter_mut().zip(bytes.chunks_exact(8)) {
                *number = T::from_bits(u64_at(word, 0));
            }
            Some(())
        }
        PCO => {
            let progress = simple_decompress_into(bytes, room).ok()?;
            (progress.finished && progress.n_processed == room.len()).then_some(())
        }
        _ => None,
    }
}

/// Decompresses values of which some may be absent.
pub(crate) fn unpack_values(encoding: u8, bytes: &[u8], count: usize) -> Option<Vec<f64>> {
    let mut values = vec![0.0; count];
    unpack_values_into(encoding, bytes, &mut values)?;
    Some(values)
}

/// Decompresses as many values, of which some may be absent, as there is room for.
pub(crate) fn unpack_values_into(encoding: u8, bytes: &[u8], room: &mut [f64]) -> Option<()> {
    if encoding != SPARSE {
        return unpack_into(encoding, bytes, room);
    }
    let mut cursor = ByteReader::new(bytes);
    let runs_count = cursor.u32()? as usize;
    let runs_len = cursor.u32()? as usize;
    let (runs_encoding, present_encoding) = (cursor.u8()?, cursor.u8()?);
    // Only the first run may be empty, so there are never more runs than values and one.
    if runs_count > room.len() + 1 {
        return None;
    }
    let runs: Vec<u64> = unpack(runs_encoding, cursor.take(runs_len)?, runs_count)?;
    let mut total = 0u64;
    let mut present_count = 0u64;
    for (index, run) in runs.iter().enumerate() {
        total = total.checked_add(*run)?;
        if index % 2 == 0 {
            present_count += run;
        }
    }
    if total != room.len() as u64 {
        return None;
    }
    let present: Vec<f64> = unpack(present_encoding, cursor.rest(), present_count as usize)?;
    let mut present = present.as_slice();
    let mut room = room;
    for (index, run) in runs.iter().enumerate() {
        let stretch = room.split_off_mut(..*run as usize)?;
        if index % 2 == 0 {
            stretch.copy_from_slice(present.split_off(..stretch.len())?);
        } else {
            stretch.fill(nilo_sample::ABSENT);
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::ABSENT;
    use proptest::prelude::*;

    fn value() -> impl Strategy<Value = f64> {
        prop_oneof![
            4 => (0u32..1 << 20).prop_map(|pages| f64::from(pages) * 4096.0),
            2 => any::<u64>().prop_map(f64::from_bits),
            2 => Just(ABSENT),
            1 => prop::sample::select(vec![f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, f64::MIN_POSITIVE / 2.0]),
        ]
    }

    proptest! {
        #[test]
        fn every_bit_of_every_value_survives(values in prop::collection::vec(value(), 0..600)) {
            let packed = pack_values(&values);
            let back = unpack_values(packed.encoding, &packed.bytes, values.len()).unwrap();
            let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&back), bits(&values));
        }

        #[test]
        fn times_and_steps_survive(numbers in prop::collection::vec(any::<u64>(), 0..600)) {
            let packed = pack(&numbers);
            prop_assert_eq!(unpack::<u64>(packed.encoding, &packed.bytes, numbers.len()), Some(numbers.clone()));
            let signed: Vec<i64> = numbers.iter().map(|n| *n as i64).collect();
            let packed = pack(&signed);
            prop_assert_eq!(unpack::<i64>(packed.encoding, &packed.bytes, signed.len()), Some(signed));
        }

        #[test]
        fn garbage_is_refused_without_panic(encoding in 0u8..4, bytes in prop::collection::vec(any::<u8>(), 0..300), count in 0usize..5000) {
            if let Some(values) = unpack_values(encoding, &bytes, count) {
                prop_assert_eq!(values.len(), count);
            }
        }
    }
}
