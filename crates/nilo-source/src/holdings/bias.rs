//! In which direction the laws were off, as measurements teach it.
//!
//! The laws take freed memory for the process's own, new file pages for known ones, and faults for no copies until they
//! are measured. In a tree where that keeps turning out wrong in the same direction, the estimate is corrected at once.

/// Doubts smaller than this teach nothing.
const LEARN_FROM_BYTES: u64 = 2 << 20;
/// Off by less than this share of the doubt, the laws were right.
const RIGHT: f64 = 0.02;
/// What a doubt is worth where the laws keep being right: half after the first time, less with each further one.
const FIRST_WEIGHT: f64 = 0.5;
const LEAST_WEIGHT: f64 = 0.03;

/// Shares of the doubt by which the last two measurements were above the laws; negative: below.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Bias {
    last: [Option<f64>; 2],
    /// Measurements in a row that found the laws right.
    confirmations: u32,
}

impl Bias {
    /// The laws said so much with so much in doubt, and so much was measured.
    pub(crate) fn learn(&mut self, by_laws: u64, measured: u64, doubt_bytes: u64) {
        if doubt_bytes < LEARN_FROM_BYTES {
            return;
        }
        let share = (measured as f64 - by_laws as f64) / doubt_bytes as f64;
        self.last = [self.last[1], Some(share.clamp(-1.0, 1.0))];
        self.confirmations = match share.abs() < RIGHT {
            true => self.confirmations.saturating_add(1),
            false => 0,
        };
    }

    /// How much a doubt counts.
    pub(crate) fn weight(&self) -> f64 {
        match self.confirmations {
            0 => 1.0,
            times => (FIRST_WEIGHT / f64::from(times)).max(LEAST_WEIGHT),
        }
    }

    /// What to add for a new doubt: the smaller of the last two shares, and nothing where they disagree.
    pub(crate) fn of(&self, doubt_bytes: u64) -> i64 {
        let [Some(one), Some(other)] = self.last else {
            return 0;
        };
        if one * other <= 0.0 {
            return 0;
        }
        (one.abs().min(other.abs()).copysign(one) * doubt_bytes as f64) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn only_what_two_measurements_in_a_row_say_is_corrected() {
        let mut bias = Bias::default();
        bias.learn(100 * MIB, 110 * MIB, 20 * MIB);
        assert_eq!(bias.of(8 * MIB), 0);
        bias.learn(110 * MIB, 115 * MIB, 20 * MIB);
        assert_eq!(bias.of(8 * MIB), 2 * MIB as i64);
        bias.learn(115 * MIB, 114 * MIB, 20 * MIB);
        assert_eq!(bias.of(8 * MIB), 0);
        bias.learn(115 * MIB, 105 * MIB, 20 * MIB);
        assert_eq!(bias.of(20 * MIB), -(MIB as i64));
    }

    #[test]
    fn doubts_count_less_while_the_laws_are_right() {
        let mut bias = Bias::default();
        assert_eq!(bias.weight(), 1.0);
        bias.learn(100 * MIB, 100 * MIB, 20 * MIB);
        bias.learn(100 * MIB, 100 * MIB, 20 * MIB);
        assert_eq!(bias.weight(), 0.25);
        bias.learn(100 * MIB, 99 * MIB, 20 * MIB);
        assert_eq!(bias.weight(), 1.0);
    }

    #[test]
    fn small_doubts_teach_nothing() {
        let mut bias = Bias::default();
        bias.learn(100 * MIB, 101 * MIB, MIB);
        bias.learn(100 * MIB, 101 * MIB, MIB);
        assert_eq!(bias, Bias::default());
    }
}
