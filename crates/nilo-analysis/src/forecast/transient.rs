//! How far the level shoots above its lower edge again and again: the batch, the checkpoint, the evaluation.
//!
//! What kills is the lower edge plus this, so room is measured from here.

use super::envelope::Envelope;

/// Buckets between two heights that count as two.
const APART: usize = 2;

/// Heights over the lower edge.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Transient {
    /// Reached at least twice, at times apart.
    pub(crate) recurring: f64,
    /// Reached once at least.
    pub(crate) largest: f64,
}

/// Looks at every scale whose buckets are no longer than `longest_secs`; `slope` is the trend that is not counted as height.
pub(crate) fn transient(envelope: &Envelope, slope: f64, longest_secs: f64) -> Transient {
    let mut found = Transient::default();
    for scale in envelope.scales() {
        if scale.width_secs > longest_secs {
            break;
        }
        let growth = slope * scale.width_secs;
        let mut best = (0.0_f64, usize::MAX);
        let mut second = 0.0_f64;
        // The lower edge around a bucket: a height that lasts longer than a bucket is still a height.
        let buckets: Vec<_> = scale.settled().collect();
        for (i, bucket) in buckets.iter().enumerate() {
            let before = i
                .checked_sub(1)
                .map_or(bucket.low, |i| buckets[i].low + growth);
            let after = buckets
                .get(i + 1)
                .map_or(bucket.low, |next| next.low - growth);
            let height = bucket.high - bucket.low.min(before).min(after) - growth;
            if height > best.0 {
                if best.1 != usize::MAX && i - best.1 >= APART {
                    second = second.max(best.0);
                }
                best = (height, i);
            } else if i - best.1.min(i) >= APART {
                second = second.max(height);
            }
        }
        found.recurring = found.recurring.max(second);
        found.largest = found.largest.max(best.0);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(level: impl Fn(u32) -> f64) -> Envelope {
        let mut envelope = Envelope::default();
        for i in 0..3000 {
            envelope.put(f64::from(i), level(i), 1.0);
        }
        envelope
    }

    #[test]
    fn a_checkpoint_every_ten_minutes_is_seen() {
        let found = transient(
            &envelope(|i| if i % 600 > 590 { 70.0 } else { 50.0 }),
            0.0,
            600.0,
        );
        assert_eq!(found.recurring, 20.0);
    }

    #[test]
    fn a_single_spike_is_not_recurring() {
        let found = transient(
            &envelope(|i| if i == 1500 { 90.0 } else { 50.0 }),
            0.0,
            600.0,
        );
        assert_eq!((found.recurring, found.largest), (0.0, 40.0));
    }

    #[test]
    fn a_plain_rise_has_no_height() {
        let found = transient(&envelope(|i| f64::from(i) * 0.1), 0.1, 64.0);
        assert!(found.recurring < 0.5, "{found:?}");
    }
}
