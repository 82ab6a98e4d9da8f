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
pub(crate) struct ClimbTracker {
    highest_bytes: u64,
    /// How many more looks may find no rise.
    patience: u32,
    /// The highest level between the last tick and now, and when.
    between: Option<(u64, u64)>,
}

impl ClimbTracker {
    /// When to look again, if before the next tick.
    pub(crate) fn wait_nanos(&self, processes: usize) -> Option<u64> {
        (self.patience > 0 && processes > 1).then_some(EVERY_NANOS)
    }

    /// A look between two ticks.
    pub(crate) fn glance(&mut self, now_nanos: u64, bytes: u64) {
        self.see(bytes);
        if self.between.is_none_or(|(_, highest)| bytes > highest) {
            self.between = Some((now_nanos, bytes));
        }
    }

    /// A tick; gives the time and the level before it that was higher.
    pub(crate) fn tick(&mut self, bytes: u64) -> Option<(u64, u64)> {
        self.see(bytes);
        self.between.take().filter(|(_, between)| *between > bytes)
    }

    fn see(&mut self, bytes: u64) {
        let rises = bytes > self.highest_bytes + self.highest_bytes / RISE_PART;
        self.patience = match rises {
            true => PATIENCE,
            false => self.patience.saturating_sub(1),
        };
        self.highest_bytes = self.highest_bytes.max(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_end_with_the_climb() {
        let mut climb = ClimbTracker::default();
        assert_eq!(climb.tick(1000), None);
        assert!(climb.wait_nanos(2).is_some());
        climb.glance(1, 1200);
        // One process alone has a mark of the kernel's.
        assert_eq!(climb.wait_nanos(1), None);
        for bytes in [1210, 1200, 1190] {
            climb.glance(2, bytes);
            assert!(climb.wait_nanos(2).is_some());
        }
        climb.glance(3, 1180);
        assert_eq!(climb.wait_nanos(2), None);
        assert_eq!(climb.tick(900), Some((2, 1210)));
        assert_eq!(climb.tick(1210), None);
        assert_eq!(climb.wait_nanos(2), None, "it has been there before");
    }

    #[test]
    fn what_the_tick_sees_itself_is_not_told_twice() {
        let mut climb = ClimbTracker::default();
        climb.glance(1, 500);
        assert_eq!(climb.tick(500), None);
        assert_eq!(climb.tick(400), None);
    }
}
