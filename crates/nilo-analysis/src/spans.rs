//! Stretches of time that may overlap: how long they last together, and how many run at once.

/// How long at least one of the spans lasts. A span is (from, to) in nanoseconds.
pub(crate) fn union_nanos(spans: &mut [(u64, u64)]) -> u64 {
    spans.sort_unstable();
    let mut total = 0u64;
    let mut reached = 0;
    for (from, to) in spans.iter().copied() {
        total = total.saturating_add(to.saturating_sub(from.max(reached)));
        reached = reached.max(to);
    }
    total
}

/// How many spans run at once on average while any does; at least one.
///
/// Two ranks beside each other give 2, two attempts one after the other give 1.
pub(crate) fn concurrency(spans: &mut [(u64, u64)]) -> f64 {
    let sum: f64 = spans
        .iter()
        .map(|(from, to)| to.saturating_sub(*from) as f64)
        .sum();
    match union_nanos(spans) {
        0 => spans.len().max(1) as f64,
        union => (sum / union as f64).max(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beside_each_other_is_two_and_after_each_other_is_one() {
        assert_eq!(concurrency(&mut [(0, 10), (0, 10)]), 2.0);
        assert_eq!(concurrency(&mut [(20, 30), (0, 10)]), 1.0);
        assert_eq!(union_nanos(&mut [(5, 15), (0, 10), (20, 30)]), 25);
    }

    #[test]
    fn spans_that_cannot_be_are_survived() {
        assert_eq!(union_nanos(&mut []), 0);
        assert_eq!(concurrency(&mut []), 1.0);
        assert_eq!(union_nanos(&mut [(9, 3)]), 0);
        assert!(concurrency(&mut [(0, u64::MAX), (0, u64::MAX)]) > 1.9);
    }
}
