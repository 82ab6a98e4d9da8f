//! The level's lower and upper edge at many time scales, kept up sample by sample in bounded memory.
//!
//! Each scale holds the newest [`WINDOW`] buckets of its width, and widths double from scale to scale.
//! What leaks shows in the lower edge (what is still held when everything that can be freed was freed), what kills in the upper one.
//! A bucket longer than a training step holds both edges of a whole step: at some scale every sawtooth has clean edges, and no period needs to be known.
//! Time is the time in which samples came: a gap counts as nothing, so that no slope runs across it.

use std::collections::VecDeque;

/// Buckets that a scale keeps. Fits compare all pairs, so this bounds the cost of a judgement.
pub(crate) const WINDOW: usize = 32;
/// Scales at most: from a tenth of a second on, the largest window spans more than a year.
const MAX_SCALES: usize = 28;

/// A stretch of time and the level's extremes in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TimeBucket {
    /// Its number: start divided by the scale's width.
    index: u64,
    /// Time of the first and last sample in it.
    pub(crate) first_secs: f64,
    pub(crate) last_secs: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl TimeBucket {
    fn absorb(&mut self, other: &TimeBucket) {
        self.last_secs = self.last_secs.max(other.last_secs);
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
    }
}

/// The extremes of the level since a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LevelRange {
    /// The time of the first sample of which they are.
    pub(crate) first_secs: f64,
    pub(crate) lowest: f64,
    pub(crate) highest: f64,
}

impl LevelRange {
    pub(crate) fn height(&self) -> f64 {
        self.highest - self.lowest
    }
}

/// The newest buckets of one width.
#[derive(Debug, Clone)]
pub(crate) struct BucketSeries {
    /// Seconds a bucket.
    pub(crate) width_secs: f64,
    buckets: VecDeque<TimeBucket>,
}

impl BucketSeries {
    fn put(&mut self, secs: f64, level: f64) {
        let index = (secs / self.width_secs) as u64;
        let sample = TimeBucket {
            index,
            first_secs: secs,
            last_secs: secs,
            low: level,
            high: level,
        };
        self.push(sample);
    }

    fn push(&mut self, bucket: TimeBucket) {
        match self.buckets.back_mut() {
            Some(open) if open.index == bucket.index => open.absorb(&bucket),
            _ => {
                if self.buckets.len() == WINDOW + 1 {
                    self.buckets.pop_front();
                }
                self.buckets.push_back(bucket);
            }
        }
    }

    /// Full buckets, oldest first; the open one belongs to them once it is three quarters full.
    pub(crate) fn settled(&self) -> impl ExactSizeIterator<Item = &TimeBucket> + Clone {
        let open_is_thin = self.buckets.back().is_some_and(|open| {
            open.last_secs - open.index as f64 * self.width_secs < 0.75 * self.width_secs
        });
        let count = self.buckets.len() - usize::from(open_is_thin);
        self.buckets.range(count.saturating_sub(WINDOW)..count)
    }

    fn is_full(&self) -> bool {
        self.buckets.len() > WINDOW
    }

    /// The next scale, twice as wide, with what this one still knows.
    fn doubled(&self) -> BucketSeries {
        let mut wider = BucketSeries {
            width_secs: self.width_secs * 2.0,
            buckets: VecDeque::with_capacity(WINDOW + 1),
        };
        for bucket in &self.buckets {
            wider.push(TimeBucket {
                index: bucket.index / 2,
                ..*bucket
            });
        }
        wider
    }
}

/// A series' edges at all time scales.
#[derive(Debug, Clone, Default)]
pub(crate) struct Envelope {
    scales: Vec<BucketSeries>,
}

/// Times that differ by less are the same.
const ROUNDING_SECS: f64 = 1e-6;
/// A smallest bucket has about so many samples.
const SAMPLES_A_BUCKET: f64 = 2.0;
/// ... but is never shorter than this.
const NARROWEST_SECS: f64 = 0.1;

impl Envelope {
    /// Adds a sample. `interval_secs` is the usual time between samples; the first call settles the smallest bucket by it.
    pub(crate) fn put(&mut self, secs: f64, level: f64, interval_secs: f64) {
        if self.scales.is_empty() {
            // A power of two, so that scales of different series fall together.
            let wanted = (interval_secs * SAMPLES_A_BUCKET).max(NARROWEST_SECS);
            self.scales.push(BucketSeries {
                width_secs: wanted.log2().ceil().exp2(),
                buckets: VecDeque::with_capacity(WINDOW + 1),
            });
        }
        for scale in &mut self.scales {
            scale.put(secs, level);
        }
        if self.scales.len() < MAX_SCALES
            && let Some(widest) = self.scales.last()
            && widest.is_full()
        {
            let wider = widest.doubled();
            self.scales.push(wider);
        }
    }

    /// From the narrowest to the widest.
    pub(crate) fn scales(&self) -> &[BucketSeries] {
        &self.scales
    }

    /// The highest level that ended before a time, as far as it is remembered.
    pub(crate) fn highest_before(&self, secs: f64) -> f64 {
        let buckets = self.scales.iter().flat_map(|scale| &scale.buckets);
        buckets
            .filter(|bucket| bucket.last_secs < secs)
            .map(|bucket| bucket.high)
            .fold(0.0, f64::max)
    }

    /// The lowest and the highest level in the buckets that began since then, at the finest scale that reaches back so far.
    pub(crate) fn range_since(&self, secs: f64) -> Option<LevelRange> {
        let scale = self.scale_since(secs)?;
        let buckets = scale.buckets.iter();
        let since = buckets.filter(|bucket| bucket.first_secs >= secs - ROUNDING_SECS);
        let ranges = since.map(|bucket| LevelRange {
            first_secs: bucket.first_secs,
            lowest: bucket.low,
            highest: bucket.high,
        });
        ranges.reduce(|one, other| LevelRange {
            first_secs: one.first_secs,
            lowest: one.lowest.min(other.lowest),
            highest: one.highest.max(other.highest),
        })
    }

    /// How far the lower edge has risen since then.
    pub(crate) fn rise_since(&self, secs: f64) -> Option<f64> {
        let buckets = self.scale_since(secs)?.buckets.iter();
        let mut lows = buckets
            .filter(|bucket| bucket.last_secs >= secs)
            .map(|bucket| bucket.low);
        let first = lows.next()?;
        Some(lows.next_back().unwrap_or(first) - first)
    }

    fn scale_since(&self, secs: f64) -> Option<&BucketSeries> {
        let reaches = |scale: &&BucketSeries| {
            let oldest = scale.buckets.front();
            oldest.is_some_and(|oldest| oldest.first_secs <= secs)
        };
        self.scales.iter().find(reaches).or(self.scales.last())
    }

    /// How far the lower edge rose over the window of the scale with this width.
    pub(crate) fn rise(&self, width_secs: f64) -> Option<f64> {
        let scale = self
            .scales
            .iter()
            .find(|scale| scale.width_secs == width_secs)?;
        let mut lows = scale.settled().map(|bucket| bucket.low);
        let first = lows.next()?;
        Some(lows.last()? - first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ramp(samples: u32) -> Envelope {
        let mut envelope = Envelope::default();
        for i in 0..samples {
            envelope.put(f64::from(i), f64::from(i), 1.0);
        }
        envelope
    }

    #[test]
    fn every_scale_knows_the_newest_level() {
        for scale in ramp(1000).scales() {
            assert_eq!(scale.buckets.back().unwrap().high, 999.0);
        }
    }

    #[test]
    fn the_widest_scale_reaches_back_to_the_beginning() {
        let envelope = ramp(5000);
        let widest = envelope.scales().last().unwrap();
        assert_eq!(widest.buckets.front().unwrap().low, 0.0);
    }

    #[test]
    fn memory_is_bounded() {
        let envelope = ramp(200_000);
        assert!(envelope.scales().len() <= MAX_SCALES);
        assert!(
            envelope
                .scales()
                .iter()
                .all(|scale| scale.buckets.len() <= WINDOW + 1)
        );
    }

    #[test]
    fn a_bucket_as_long_as_the_period_has_clean_edges() {
        let mut envelope = Envelope::default();
        for i in 0..4096 {
            envelope.put(f64::from(i), f64::from(i % 16), 1.0);
        }
        let scale = envelope
            .scales()
            .iter()
            .find(|scale| scale.width_secs == 16.0)
            .unwrap();
        for bucket in scale.settled() {
            assert_eq!((bucket.low, bucket.high), (0.0, 15.0));
        }
    }

    #[test]
    fn a_wider_scale_made_late_equals_one_kept_from_the_start() {
        let envelope = ramp(300);
        let scale = &envelope.scales()[2];
        let highs: Vec<f64> = scale.settled().map(|bucket| bucket.high).collect();
        let steps: Vec<f64> = highs.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(steps.iter().all(|step| *step == scale.width_secs));
    }
}
