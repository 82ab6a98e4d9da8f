//! How often something may be done whose cost is only known afterwards.

/// A look that took so long is followed by one two thousand times as late: it costs 0.05 % of the time.
const PAUSE_PER_COST: u64 = 2_000;
/// The first look may be a slow one, since it loads and allocates; it must not put off the next one for long.
const LONGEST_PAUSE_NANOS: u64 = 1_000_000_000;

/// Spends a small share of the time.
#[derive(Debug, Default)]
pub(crate) struct TimeBudget {
    due_nanos: u64,
}

impl TimeBudget {
    /// Whether the next look may be taken.
    pub(crate) fn is_due(&self, now_nanos: u64) -> bool {
        now_nanos >= self.due_nanos
    }

    /// A look ended just now and took so long.
    pub(crate) fn spend(&mut self, now_nanos: u64, cost_nanos: u64) {
        let pause = cost_nanos.saturating_mul(PAUSE_PER_COST);
        self.due_nanos = now_nanos.saturating_add(pause.min(LONGEST_PAUSE_NANOS));
    }
}
