//! What newborn processes of a family copy of their inheritance, as measurements teach it.
//!
//! Workers that live for a few samples are gone before they can be measured. Those that were measured speak for their siblings.

/// What the last two measurements found of processes that were just born.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct BirthCopies {
    /// Which share of their faults without growth were copies.
    shares: [Option<f64>; 2],
    /// The most that one of them had copied.
    most_bytes: [u64; 2],
}

impl BirthCopies {
    /// Newborn processes were measured: so much was copied of what might have been, and so much by one of them.
    pub(crate) fn learn(&mut self, copied: u64, claimed: u64, most_bytes: u64) {
        if claimed == 0 {
            return;
        }
        let share = (copied as f64 / claimed as f64).clamp(0.0, 1.0);
        self.shares = [self.shares[1], Some(share)];
        self.most_bytes = [self.most_bytes[1], most_bytes];
    }

    /// How much of so many bytes that a newborn may have copied it is taken to have copied: what both of the last two
    /// measurements say, and nothing before there were two, because a peak once claimed is never taken back.
    pub(crate) fn expected(&self, possible: u64) -> u64 {
        let [Some(one), Some(other)] = self.shares else {
            return 0;
        };
        let [most_of_one, most_of_other] = self.most_bytes;
        ((possible as f64 * one.min(other)) as u64).min(most_of_one.max(most_of_other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn two_measurements_speak_for_the_siblings() {
        let mut copies = BirthCopies::default();
        copies.learn(60 * MIB, 60 * MIB, 30 * MIB);
        assert_eq!(copies.expected(30 * MIB), 0);
        copies.learn(45 * MIB, 60 * MIB, 25 * MIB);
        assert_eq!(copies.expected(20 * MIB), 15 * MIB);
        // None has copied more than 30 MiB so far.
        assert_eq!(copies.expected(400 * MIB), 30 * MIB);
    }

    #[test]
    fn faults_that_turned_out_to_be_no_copies_are_none() {
        let mut copies = BirthCopies::default();
        copies.learn(60 * MIB, 60 * MIB, 30 * MIB);
        copies.learn(0, 60 * MIB, 0);
        assert_eq!(copies.expected(30 * MIB), 0);
    }
}
