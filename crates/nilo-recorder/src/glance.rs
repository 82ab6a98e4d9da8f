//! Looks between two ticks while a tree of several processes climbs to where it has never been.
//!
//! The kernel keeps a high-water mark for each process and none for a tree, so what several of them held at once between two samples would be lost.
//! One of four looks must find one part in a hundred more than ever before, or they end until the next tick: however a job behaves, there are only so many.

/// Looks come this often.
const EVERY_NANOS: u64 = 25_000_000;
/// A rise by less than one part in this many of the highest level is none.
const RISE_PART: u64 = 100;
/// So many looks in a row without a rise end the climb: a busy machine holds jobs up for that long.
const PATIENCE: u32 = 4;

/// What was seen of the tree's level, on ticks and between them.
#[derive(Debug, Default)]
pub(crate) struct Climb {
    highest_bytes: u64,
    /// How many more looks may find no rise.
    patience: u32,
}

impl Climb {
    /// When to look again, if before the next tick.
    pub(crate) fn wait_nanos(&self, processes: usize) -> Option<u64> {
        (self.patience > 0 && processes > 1).then_some(EVERY_NANOS)
    }

    /// The tree holds so much now; says whether it never held as much, so that it is worth a sample.
    pub(crate) fn see(&mut self, bytes: u64) -> bool {
        let rises = bytes > self.highest_bytes + self.highest_bytes / RISE_PART;
        self.patience = match rises {
            true => PATIENCE,
            false => self.patience.saturating_sub(1),
        };
        self.highest_bytes = self.highest_bytes.max(bytes);
        rises
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_end_with_the_climb() {
        let mut climb = Climb::default();
        assert!(climb.see(1000));
        assert!(climb.wait_nanos(2).is_some());
        assert!(climb.see(1200));
        // One process alone has a mark of the kernel's.
        assert_eq!(climb.wait_nanos(1), None);
        for bytes in [1210, 1200, 1190] {
            assert!(!climb.see(bytes));
            assert!(climb.wait_nanos(2).is_some());
        }
        climb.see(1180);
        assert_eq!(climb.wait_nanos(2), None);
        assert!(!climb.see(1210), "it has been there before");
        assert_eq!(climb.wait_nanos(2), None);
    }
}
