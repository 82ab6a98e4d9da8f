//! A budget of CPU time for what is dear to read.

/// CPU time that may be spent, earned as a share of one core and saved up to a burst.
#[derive(Debug)]
pub(crate) struct CpuBudget {
    share: f64,
    burst_nanos: f64,
    balance_nanos: f64,
    refilled_at_nanos: Option<u64>,
}

impl CpuBudget {
    pub(crate) fn new(share: f64, burst_nanos: u64) -> CpuBudget {
        CpuBudget {
            share: share.max(0.0),
            burst_nanos: burst_nanos as f64,
            balance_nanos: if share > 0.0 { burst_nanos as f64 } else { 0.0 },
            refilled_at_nanos: None,
        }
    }

    pub(crate) fn refill(&mut self, now_nanos: u64) {
        let passed = now_nanos.saturating_sub(self.refilled_at_nanos.unwrap_or(now_nanos));
        self.refilled_at_nanos = Some(now_nanos);
        self.balance_nanos =
            (self.balance_nanos + passed as f64 * self.share).min(self.burst_nanos);
    }

    /// A debt after a dear read must be earned back before the next.
    pub(crate) fn allows(&self) -> bool {
        self.balance_nanos > 0.0
    }

    /// Whether something of this price can be paid without a debt.
    pub(crate) fn affords(&self, nanos: u64) -> bool {
        nanos as f64 <= self.balance_nanos
    }

    /// Which part of what can be saved up is there.
    pub(crate) fn saved_part(&self) -> f64 {
        self.balance_nanos / self.burst_nanos.max(1.0)
    }

    pub(crate) fn spend(&mut self, nanos: u64) {
        self.balance_nanos -= nanos as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NANOS_PER_SEC: u64 = 1_000_000_000;

    #[test]
    fn a_debt_is_earned_back_at_the_share() {
        let mut budget = CpuBudget::new(0.001, 1_000_000);
        budget.refill(0);
        assert!(budget.allows());
        budget.spend(3_000_000);
        budget.refill(NANOS_PER_SEC);
        assert!(!budget.allows());
        budget.refill(3 * NANOS_PER_SEC);
        assert!(budget.allows());
    }

    #[test]
    fn savings_never_exceed_the_burst() {
        let mut budget = CpuBudget::new(0.5, 100);
        budget.refill(0);
        budget.refill(u64::MAX);
        budget.spend(101);
        assert!(!budget.allows());
    }

    #[test]
    fn without_a_share_nothing_is_ever_allowed() {
        let mut budget = CpuBudget::new(0.0, 1_000_000);
        budget.refill(0);
        budget.refill(u64::MAX);
        assert!(!budget.allows());
    }
}
