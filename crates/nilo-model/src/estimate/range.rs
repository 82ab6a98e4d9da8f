//! Bytes that are expected, and between which figures the true ones should be.

/// An estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteRange {
    /// The true figure should not be below.
    pub low: u64,
    /// The best guess.
    pub expected: u64,
    /// The true figure should not be above.
    pub high: u64,
}

/// Against the measured cases (docs/benchmarks/fit.md) allocated memory was within 1 %, reserved memory within 5 %.
const ALLOCATED_SPREAD: f64 = 0.01;
const RESERVED_SPREAD: f64 = 0.05;
/// Several GPUs were never measured: what libraries buffer between them is known from their documentation only.
const SHARDED_SPREAD: f64 = 0.1;

/// How far an estimate may be off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EstimateSpread {
    /// What tensors take on one GPU.
    Allocated,
    /// What PyTorch, or the process, takes on one GPU.
    Reserved,
    /// Anything where several GPUs share the work.
    Sharded,
}

impl ByteRange {
    /// A figure and its surroundings.
    pub fn around(expected: u64, spread: EstimateSpread) -> Self {
        let share = match spread {
            EstimateSpread::Allocated => ALLOCATED_SPREAD,
            EstimateSpread::Reserved => RESERVED_SPREAD,
            EstimateSpread::Sharded => SHARDED_SPREAD,
        };
        Self {
            low: (expected as f64 * (1.0 - share)) as u64,
            expected,
            high: (expected as f64 * (1.0 + share)) as u64,
        }
    }

    /// Whether it fits into a memory: none where that lies within the range.
    pub fn fits(self, memory_bytes: u64) -> Option<bool> {
        if self.high <= memory_bytes {
            return Some(true);
        }
        match self.low > memory_bytes {
            true => Some(false),
            false => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_within_the_range_is_neither_yes_nor_no() {
        let range = ByteRange::around(1000, EstimateSpread::Reserved);
        assert_eq!((range.low, range.high), (950, 1050));
        assert_eq!(range.fits(1050), Some(true));
        assert_eq!(range.fits(1000), None);
        assert_eq!(range.fits(949), Some(false));
    }
}
