//! How far the level shoots above its lower edge again and again: the batch, the checkpoint, the evaluation.
//!
//! What kills is the lower edge plus this, so room is measured from here.

use super::envelope::{BucketSeries, Envelope, TimeBucket};

/// Buckets between two heights that count as two.
const APART: usize = 2;

/// Heights over the lower edge.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Transient {
    /// Reached at least twice, at times apart.
    pub(crate) recurring: f64,
    /// Reached once at least.
    pub(crate) largest: f64,
    /// Seconds from one time to the next, where that is long, and when it last came.
    pub(crate) rhythm: Option<Rhythm>,
}

/// Heights that come rarely.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rhythm {
    pub(crate) every_secs: f64,
    pub(crate) last_secs: f64,
}

impl Transient {
    /// Seconds from `now_secs` to the first height at or after `crossing_secs` from now.
    pub(crate) fn next_after(&self, now_secs: f64, crossing_secs: f64) -> f64 {
        let Some(rhythm) = self.rhythm else {
            return crossing_secs;
        };
        let since = now_secs - rhythm.last_secs;
        let beats = ((crossing_secs + since) / rhythm.every_secs)
            .ceil()
            .max(1.0);
        (beats * rhythm.every_secs - since).max(crossing_secs)
    }
}

/// Looks at every scale whose buckets are no longer than `longest_secs`; `slope` is the trend that is not counted as height.
pub(crate) fn transient(envelope: &Envelope, slope: f64, longest_secs: f64) -> Transient {
    let mut found = Transient::default();
    let mut heights = Vec::new();
    for scale in envelope.scales() {
        if scale.width_secs > longest_secs {
            break;
        }
        let growth = slope * scale.width_secs;
        let mut best = (0.0_f64, usize::MAX);
        let mut second = 0.0_f64;
        // A height goes up and comes back: it stands above the lower edge on both sides. A drop or a climb does not.
        heights.clear();
        let buckets: Vec<_> = scale.settled().collect();
        for i in 1..buckets.len().saturating_sub(1) {
            let before = buckets[i - 1].low + growth;
            let after = buckets[i + 1].low - growth;
            let height = buckets[i].high - before.max(after) - growth;
            heights.push(height);
            if height > best.0 {
                if best.1 != usize::MAX && i - best.1 >= APART {
                    second = second.max(best.0);
                }
                best = (height, i);
            } else if i - best.1.min(i) >= APART {
                second = second.max(height);
            }
        }
        if second > 1.2 * found.recurring {
            found.rhythm = rhythm(scale, &heights, 0.7 * second);
        }
        found.recurring = found.recurring.max(second);
        found.largest = found.largest.max(best.0);
    }
    found
}

/// The time between the buckets that reach `least`, if they are rare among all: `heights` begins with the second bucket.
fn rhythm(scale: &BucketSeries, heights: &[f64], least: f64) -> Option<Rhythm> {
    let high = heights
        .iter()
        .enumerate()
        .filter(|(_, height)| **height >= least);
    let (mut first, mut last, mut count) = (usize::MAX, 0, 0);
    for (i, _) in high {
        // One height over the edge of two buckets is one.
        if count == 0 || i > last + 1 {
            count += 1;
        }
        first = first.min(i);
        last = i;
    }
    if count < 2 || 3 * count > heights.len() {
        return None;
    }
    let middle = |bucket: &TimeBucket| (bucket.first_secs + bucket.last_secs) / 2.0;
    let secs = |i: usize| scale.settled().nth(i + 1).map(middle);
    Some(Rhythm {
        every_secs: (secs(last)? - secs(first)?) / (count - 1) as f64,
        last_secs: secs(last)?,
    })
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
