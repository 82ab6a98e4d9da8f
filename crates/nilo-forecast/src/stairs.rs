//! Growth in steps: a batch size or a sequence length that is raised every so often, an epoch that keeps something.
//!
//! A line through such a level says too little: what kills is the next step, however far the level is from the limit.
//! Steps are looked for in the upper edge, at each time scale: a ramp of the batch size raises what a training step needs at its peak, and hardly what it leaves behind.

use super::envelope::{BucketSeries, Envelope, TimeBucket};

/// Steps that make a staircase. Fewer are model, optimizer and first batch.
const FEWEST_STEPS: usize = 3;
/// A step is at least this share of the limit ...
const LEAST_STEP: f64 = 0.01;
/// ... and this many times what the level usually moves by from bucket to bucket: a slope has no steps.
const STEP_OVER_DRIFT: f64 = 4.0;
/// Between two steps the level moves by at most this share of the smaller one.
const FLAT: f64 = 0.35;
/// Heights within this factor are the same height.
const SAME_HEIGHT: f64 = 2.5;
/// Heights that grow by a factor in this range, and by nearly the same one each time, go on growing by it.
const GROWING: std::ops::Range<f64> = 1.4..3.2;
const SAME_FACTOR: f64 = 1.6;
/// Times between steps within this factor belong to one staircase.
const SAME_PACE: f64 = 5.0;
/// A step that is late by this factor does not come any more.
const OVERDUE: f64 = 1.5;
/// Looked ahead by this many steps at most.
const FARTHEST: usize = 16;

/// A level that rises in steps and still does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stairs {
    /// Steps seen.
    pub(crate) steps: usize,
    /// Level before the first step, and of the newest flat part.
    pub(crate) base: f64,
    pub(crate) level: f64,
    /// Height of the next step, and what each further one is multiplied by.
    pub(crate) next_height: f64,
    pub(crate) growth: f64,
    /// Seconds from one step to the next: the usual time, and the longest.
    pub(crate) every_secs: f64,
    pub(crate) longest_secs: f64,
    /// Later half of the times over the earlier: above 1 when steps come more and more slowly.
    pub(crate) slowing: f64,
    /// Seconds since the newest step.
    pub(crate) since_secs: f64,
    /// Seconds from the first step to now.
    pub(crate) lasted_secs: f64,
    /// Seconds that the level stood still before the first step.
    pub(crate) still_secs: f64,
    /// What is reserved for each byte of the level at its peak, at most: peaks between samples are not seen.
    pub(crate) unseen: f64,
}

impl Stairs {
    /// How many more steps reach the limit, and in how many seconds the last of them comes.
    pub(crate) fn until(&self, limit: f64) -> Option<(usize, f64)> {
        let mut level = self.level;
        let mut height = self.next_height;
        for count in 1..=FARTHEST {
            level += height;
            height *= self.growth;
            if level * self.unseen > limit {
                let next_secs = (self.every_secs - self.since_secs).max(0.0);
                return Some((count, next_secs + (count - 1) as f64 * self.every_secs));
            }
        }
        None
    }
}

/// Room to work in, kept so that a look allocates nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct StairsFinder {
    highs: Vec<f64>,
    moves: Vec<f64>,
    flats: Vec<Flat>,
    sorted: Vec<f64>,
}

/// A stretch of buckets without a step.
#[derive(Debug, Clone, Copy)]
struct Flat {
    first: usize,
    /// Behind the last bucket.
    end: usize,
    level: f64,
}

/// Peaks of an allocator that samples miss are at most this much higher.
const MOST_UNSEEN: f64 = 1.35;

impl StairsFinder {
    /// The staircase with most steps that a level is on. `reserve` is what an allocator keeps for it, if one does.
    pub(crate) fn find(
        &mut self,
        level: &Envelope,
        reserve: Option<&Envelope>,
        limit: f64,
        now_secs: f64,
    ) -> Option<Stairs> {
        let mut best: Option<Stairs> = None;
        for (number, scale) in level.scales().iter().enumerate() {
            let Some(mut stairs) = self.at(level, scale, limit, now_secs) else {
                continue;
            };
            if let Some(reserve) = reserve.and_then(|reserve| reserve.scales().get(number)) {
                stairs.unseen = self.unseen(reserve);
            }
            if best.is_none_or(|best| stairs.steps > best.steps) {
                best = Some(stairs);
            }
        }
        best
    }

    /// The staircase at one scale.
    fn at(
        &mut self,
        level: &Envelope,
        scale: &BucketSeries,
        limit: f64,
        now_secs: f64,
    ) -> Option<Stairs> {
        let buckets = scale.settled();
        let count = buckets.len();
        if count < 2 * FEWEST_STEPS {
            return None;
        }
        self.highs.clear();
        self.highs.extend(buckets.clone().map(|bucket| bucket.high));
        let lowest = self.highs.iter().copied().fold(f64::INFINITY, f64::min);
        let least_rise = FEWEST_STEPS as f64 * LEAST_STEP * limit;
        // Most series do not rise, and this costs nothing.
        if self.highs[count - 1].max(self.highs[count - 2]) - lowest < least_rise {
            return None;
        }
        self.remove_spikes();
        let drift = self.usual_move();
        let step = (LEAST_STEP * limit).max(STEP_OVER_DRIFT * drift);
        self.split(step);
        let start = |flat: &Flat| {
            buckets
                .clone()
                .nth(flat.first)
                .map(|it: &TimeBucket| it.first_secs)
        };
        // A level that was there before is a swing, not a step further.
        let is_new =
            |flat: &Flat| start(flat).is_some_and(|secs| level.highest_before(secs) <= flat.level);
        let from = self.regular_from(is_new)?;
        let flats = &self.flats[from..];
        let steps = flats.len() - 1;
        self.sorted.clear();
        for pair in flats[1..].windows(2) {
            self.sorted.push(start(&pair[1])? - start(&pair[0])?);
        }
        let (early, late) = self.sorted.split_at(self.sorted.len() / 2);
        let mean = |secs: &[f64]| secs.iter().sum::<f64>() / secs.len().max(1) as f64;
        let slowing = mean(late) / mean(early).max(scale.width_secs);
        self.sorted.sort_by(f64::total_cmp);
        let (shortest, longest_secs) = (*self.sorted.first()?, *self.sorted.last()?);
        let every_secs = self.sorted[self.sorted.len() / 2];
        if longest_secs > SAME_PACE * shortest.max(scale.width_secs) {
            return None;
        }
        let newest = flats[steps];
        let since_secs = now_secs - start(&newest)?;
        if since_secs > OVERDUE * longest_secs + scale.width_secs {
            return None;
        }
        let (next_height, growth) = next_height(flats, &mut self.sorted)?;
        Some(Stairs {
            steps,
            base: flats[0].level,
            level: newest.level,
            next_height,
            growth,
            every_secs,
            longest_secs,
            slowing,
            since_secs,
            lasted_secs: now_secs - start(&flats[1])?,
            still_secs: start(&flats[1])? - start(&flats[0])?,
            unseen: 1.0,
        })
    }

    /// Takes out what one bucket alone reaches or falls to; steps stay where they are.
    fn remove_spikes(&mut self) {
        let mut before = self.highs[0];
        for i in 1..self.highs.len() - 1 {
            let (here, after) = (self.highs[i], self.highs[i + 1]);
            let middle = before.min(here).max(before.max(here).min(after));
            before = here;
            self.highs[i] = middle;
        }
    }

    /// The median move from bucket to bucket, up or down.
    fn usual_move(&mut self) -> f64 {
        self.moves.clear();
        let moves = self.highs.windows(2).map(|pair| (pair[1] - pair[0]).abs());
        self.moves.extend(moves);
        let middle = self.moves.len() / 2;
        *self.moves.select_nth_unstable_by(middle, f64::total_cmp).1
    }

    /// Splits the newest stretch without a fall into flat parts; buckets on the way up belong to none.
    fn split(&mut self, step: f64) {
        self.flats.clear();
        let mut first = 0;
        for i in 1..self.highs.len() {
            let moved = self.highs[i] - self.highs[i - 1];
            if moved < -step {
                self.flats.clear();
                first = i;
            } else if moved > step {
                self.end_flat(first, i);
                first = i;
            }
        }
        self.end_flat(first, self.highs.len());
    }

    /// A part of one bucket is on the way up, or a spike, unless it is the first.
    fn end_flat(&mut self, first: usize, end: usize) {
        if end - first < 2 && !self.flats.is_empty() {
            return;
        }
        self.sorted.clear();
        self.sorted.extend_from_slice(&self.highs[first..end]);
        self.sorted.sort_by(f64::total_cmp);
        let level = self.sorted[self.sorted.len() / 2];
        self.flats.push(Flat { first, end, level });
    }

    /// Where the longest regular staircase that reaches to now begins.
    fn regular_from(&self, is_new: impl Fn(&Flat) -> bool) -> Option<usize> {
        let height = |i: usize| self.flats[i].level - self.flats[i - 1].level;
        let is_flat = |i: usize, beside: f64| {
            let part = &self.highs[self.flats[i].first..self.flats[i].end];
            let (low, high) = part
                .iter()
                .fold((f64::INFINITY, f64::NEG_INFINITY), |range, &it| {
                    (range.0.min(it), range.1.max(it))
                });
            high - low <= FLAT * beside
        };
        let last = self.flats.len().checked_sub(1)?;
        let (mut lowest, mut highest) = (f64::INFINITY, 0.0_f64);
        let mut factors = (f64::INFINITY, 0.0_f64);
        let mut from = last;
        while from > 0 {
            let here = height(from);
            if here <= 0.0 || !is_flat(from, here.min(lowest)) {
                break;
            }
            let same = highest.max(here) <= SAME_HEIGHT * lowest.min(here);
            let growing = from < last && {
                let factor = height(from + 1) / here;
                let range = (factors.0.min(factor), factors.1.max(factor));
                let fits = GROWING.contains(&factor) && range.1 <= SAME_FACTOR * range.0;
                if fits {
                    factors = range;
                }
                fits
            };
            if (!same && !growing) || !is_new(&self.flats[from]) {
                break;
            }
            (lowest, highest) = (lowest.min(here), highest.max(here));
            from -= 1;
        }
        (last - from >= FEWEST_STEPS).then_some(from)
    }

    /// The least that was reserved for each byte of the level over a flat part: the peak between samples is no higher.
    fn unseen(&self, reserve: &BucketSeries) -> f64 {
        let least = self.flats.iter().filter_map(|flat| {
            let part = reserve
                .settled()
                .skip(flat.first)
                .take(flat.end - flat.first);
            let reserved = part.map(|bucket| bucket.high).reduce(f64::max)?;
            Some(reserved / flat.level.max(1.0))
        });
        least.fold(MOST_UNSEEN, f64::min).max(1.0)
    }
}

/// The height of the step to come, and the factor from step to step.
fn next_height(flats: &[Flat], sorted: &mut Vec<f64>) -> Option<(f64, f64)> {
    let heights = flats.windows(2).map(|pair| pair[1].level - pair[0].level);
    sorted.clear();
    sorted.extend(heights.clone());
    let newest = *sorted.last()?;
    let factors = sorted.windows(2).map(|pair| pair[1] / pair[0]);
    if sorted.len() >= FEWEST_STEPS && factors.clone().all(|factor| GROWING.contains(&factor)) {
        let factor = (newest / sorted[0]).powf(1.0 / (sorted.len() - 1) as f64);
        return Some((newest * factor, factor));
    }
    sorted.sort_by(f64::total_cmp);
    Some((sorted[sorted.len() / 2], 1.0))
}
