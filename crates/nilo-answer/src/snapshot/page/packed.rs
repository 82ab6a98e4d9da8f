//! Numbers in few bytes: seven bits a byte, the lowest first, a set high bit says that more follow; the whole as base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// A list of whole numbers.
#[derive(Debug, Default)]
pub(crate) struct PackedNumbers {
    bytes: Vec<u8>,
}

impl PackedNumbers {
    pub(crate) fn push(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    /// A difference: even numbers are not negative, odd ones are.
    pub(crate) fn push_change(&mut self, before: u64, after: u64) {
        match after >= before {
            true => self.push((after - before).saturating_mul(2)),
            false => self.push((before - after).saturating_mul(2) - 1),
        }
    }

    pub(crate) fn into_base64(self) -> String {
        STANDARD.encode(self.bytes)
    }
}

/// The largest number that divides all of these; 1 where there is none.
pub(crate) fn common_divisor(numbers: impl Iterator<Item = u64>) -> u64 {
    let divisor = numbers.fold(0, |mut divisor, mut number| {
        while number > 0 {
            (divisor, number) = (number, divisor % number);
        }
        divisor
    });
    divisor.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_few_bytes() {
        let mut packed = PackedNumbers::default();
        packed.push(5);
        packed.push(300);
        packed.push_change(10, 7);
        packed.push_change(7, 7);
        assert_eq!(packed.bytes, [5, 0xac, 2, 5, 0]);
        assert_eq!(packed.into_base64(), "BawCBQA=");
    }

    #[test]
    fn the_common_divisor_divides_everything() {
        assert_eq!(common_divisor([1024, 512, 0, 1536].into_iter()), 512);
        assert_eq!(common_divisor([7, 3].into_iter()), 1);
        assert_eq!(common_divisor(std::iter::empty()), 1);
        assert_eq!(common_divisor([0, 0].into_iter()), 1);
    }
}
