//! What the children that a process waited for have used, less what was counted of them while they were seen.
//!
//! The kernel adds a child's CPU time, with that of its own waited-for children, to its parent's `cutime` and `cstime` when the parent waits for it.
//! So a child that came and went between two looks is in there, and one that was seen comes a second time:
//! what was counted of it is owed, and growth pays that first.

use crate::linux::stat::Stat;

/// How soon a process that ran is asked again while its children use nothing, and how seldom at last.
const WAIT_NANOS: (u64, u64) = (100_000_000, 1_000_000_000);

/// The account of one process that may wait for children.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ChildrenCpu {
    /// Who waits for this process itself.
    pub(crate) parent: u32,
    /// That is not sure: its parent and it were gone at the same look, so that anybody further up may have waited for it.
    pub(crate) may_be_orphan: bool,
    /// As last read, and as far as that is in the tree's total.
    read_nanos: u64,
    taken_nanos: u64,
    /// Counted already, of children that are gone. What the parent waited for is in the first reading after that.
    owed_nanos: u64,
    is_outdated: bool,
    /// The process's own clock at the last reading, when the next one is due, and how long that lasts.
    clock_nanos: u64,
    next_nanos: u64,
    wait_nanos: u64,
}

impl ChildrenCpu {
    /// Of a process that joins with this reading; what was used before counts unless it is left out with [`ChildrenCpu::leave_out`].
    pub(crate) fn new(parent: u32, read_nanos: u64) -> ChildrenCpu {
        ChildrenCpu {
            parent,
            read_nanos,
            ..ChildrenCpu::default()
        }
    }

    /// What was read until now does not count.
    pub(crate) fn leave_out(&mut self) {
        self.taken_nanos = self.read_nanos;
    }

    /// Whether the process should be asked, now that its own clock shows this: one that has not run has waited for nobody.
    pub(crate) fn is_due(&self, clock_nanos: u64, now_nanos: u64) -> bool {
        clock_nanos != self.clock_nanos && now_nanos >= self.next_nanos
    }

    /// A new reading, with the process's own clock at that time. A process whose children use CPU time is asked on each tick.
    pub(crate) fn see(&mut self, read_nanos: u64, clock_nanos: u64, now_nanos: u64) {
        let (soonest, latest) = WAIT_NANOS;
        self.wait_nanos = if read_nanos > self.read_nanos {
            0
        } else {
            (2 * self.wait_nanos).clamp(soonest, latest)
        };
        self.next_nanos = now_nanos.saturating_add(self.wait_nanos);
        self.clock_nanos = clock_nanos;
        self.read_nanos = self.read_nanos.max(read_nanos);
        self.is_outdated = false;
    }

    /// It has a child: it is asked on the next tick.
    pub(crate) fn expect(&mut self) {
        (self.next_nanos, self.wait_nanos) = (0, 0);
    }

    /// This much was counted of a child that is gone.
    pub(crate) fn owe(&mut self, nanos: u64) {
        self.owed_nanos = self.owed_nanos.saturating_add(nanos);
        self.is_outdated = true;
    }

    /// Whether the last reading may lack a child that is gone.
    pub(crate) fn is_outdated(&self) -> bool {
        self.is_outdated
    }

    /// Whether there is anything to take.
    pub(crate) fn is_open(&self) -> bool {
        self.is_outdated || self.read_nanos > self.taken_nanos
    }

    /// Growth that no child explains which is known to be gone; and all growth.
    pub(crate) fn unexplained(&self) -> Option<u64> {
        let growth = self.read_nanos - self.taken_nanos;
        (growth > self.owed_nanos).then_some(growth)
    }

    pub(crate) fn read_nanos(&self) -> u64 {
        self.read_nanos
    }

    pub(crate) fn owed_nanos(&self) -> u64 {
        self.owed_nanos
    }

    /// Takes growth into the total, and says how much of it is new, and how much is owed that never came.
    ///
    /// Readings are cut to whole ticks, so up to `rounding_nanos` may still come; what is owed beyond that was not waited for by this process.
    pub(crate) fn take(&mut self, rounding_nanos: u64) -> (u64, u64) {
        let growth = self.read_nanos - self.taken_nanos;
        let paid = growth.min(self.owed_nanos);
        self.taken_nanos = self.read_nanos;
        let left = self.owed_nanos - paid;
        self.owed_nanos = left.min(rounding_nanos);
        (growth - paid, left - self.owed_nanos)
    }
}

/// CPU time of the waited-for children by `stat`; each of its two parts is cut to whole ticks.
pub(crate) fn children_nanos(stat: &Stat<'_>, ticks_per_sec: u64) -> u64 {
    (u128::from(stat.children_ticks) * 1_000_000_000 / u128::from(ticks_per_sec.max(1))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const ROUNDING: u64 = 20 * MS;

    #[test]
    fn a_child_that_nobody_saw_is_new_and_one_that_was_seen_is_not() {
        let mut account = ChildrenCpu::new(1, 0);
        account.see(300 * MS, 1, 0);
        assert_eq!(account.unexplained(), Some(300 * MS));
        assert_eq!(account.take(ROUNDING), (300 * MS, 0));
        // A second of a seen one, of which the last look missed 50 ms.
        account.owe(1000 * MS);
        assert!(account.is_outdated() && account.is_open());
        account.see(1350 * MS, 2, 0);
        assert_eq!(account.take(ROUNDING), (50 * MS, 0));
        assert!(!account.is_open());
    }

    #[test]
    fn what_ticks_cut_off_is_not_counted_when_it_comes() {
        let mut account = ChildrenCpu::new(1, 0);
        let (mut total, mut truth) = (0, 0);
        // Seen children of 15 ms each: the reading rises by 10 and 20 ms in turn.
        for _ in 0..1000 {
            truth += 15 * MS;
            total += 15 * MS;
            account.owe(15 * MS);
            account.see(truth / (10 * MS) * (10 * MS), truth, 0);
            total += account.take(ROUNDING).0;
            assert_eq!(total, truth);
        }
    }

    #[test]
    fn children_that_are_never_waited_for_hide_nothing_that_comes_later() {
        let mut account = ChildrenCpu::new(1, 0);
        account.owe(5000 * MS);
        account.see(0, 1, 0);
        assert_eq!(account.take(ROUNDING), (0, 4980 * MS));
        account.see(300 * MS, 2, 0);
        assert_eq!(account.take(ROUNDING).0, 280 * MS);
    }

    #[test]
    fn what_was_used_before_joining_can_be_left_out() {
        let mut account = ChildrenCpu::new(1, 700 * MS);
        account.leave_out();
        assert!(!account.is_open());
        account.see(800 * MS, 1, 0);
        assert_eq!(account.take(ROUNDING), (100 * MS, 0));
    }

    #[test]
    fn a_process_is_asked_more_rarely_while_nothing_comes() {
        let mut account = ChildrenCpu::new(1, 0);
        assert!(!account.is_due(0, 5) && account.is_due(1, 5));
        account.see(0, 1, 0);
        assert!(!account.is_due(2, 99 * MS) && account.is_due(2, 100 * MS));
        (0..9).for_each(|_| account.see(0, 2, 0));
        assert!(!account.is_due(3, 999 * MS) && account.is_due(3, 1000 * MS));
        account.see(10 * MS, 3, 0);
        assert!(account.is_due(4, 0) && !account.is_due(3, 5000 * MS));
        (0..9).for_each(|_| account.see(10 * MS, 4, 0));
        account.expect();
        assert!(account.is_due(5, 0));
    }
}
