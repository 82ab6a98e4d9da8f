//! From a million points to as many as a screen has columns, without hiding a spike or a gap.
//!
//! Each bucket keeps its first, smallest, largest and last value (M4: Jugel et al., VLDB 2014), which draws the same line as all its points would.
//! A pause longer than `gap_nanos` always begins a bucket of its own or is marked inside one.

use nilo_sample::is_absent;
use serde::Serialize;

use crate::pyramid::PyramidCell;

/// A value and its time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// Nanoseconds, on the axis of the times given.
    pub time_nanos: u64,
    /// The value.
    pub value: f64,
}

/// The points under one column of pixels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PixelColumn {
    /// The first measured point. Where nothing was measured, all four are [`nilo_sample::ABSENT`] at the bucket's first time.
    pub first: Point,
    /// The smallest.
    pub min: Point,
    /// The largest.
    pub max: Point,
    /// The last.
    pub last: Point,
    /// Measured values.
    pub count: u64,
    /// Values that are NaN.
    pub nan_count: u64,
    /// Rows without a value.
    pub absent_count: u64,
    /// Nothing was recorded for longer than `gap_nanos` before this bucket: the line is interrupted here.
    pub gap_before: bool,
    /// There are more such gaps inside, too close to be drawn apart.
    pub gap_inside: bool,
}

/// Downsamples a series to about `pixels` buckets over `from..=to`; times ascend.
///
/// There is at most one bucket for each pixel, or two where a gap divides it; pixels without points have none.
pub fn m4(
    times: &[u64],
    values: &[f64],
    from: u64,
    to: u64,
    pixels: usize,
    gap_nanos: Option<u64>,
) -> Vec<PixelColumn> {
    let mut buckets = Buckets::new(from, to, pixels, gap_nanos);
    for (time, value) in times.iter().zip(values) {
        buckets.add_point(*time, *value);
    }
    buckets.finish()
}

/// Buckets being filled, in the order of time.
pub(crate) struct Buckets {
    from: u64,
    to: u64,
    pixels: usize,
    gap_nanos: Option<u64>,
    /// Each with the number of its pixel.
    done: Vec<(usize, PixelColumn)>,
    open: Option<(usize, PixelColumn)>,
    first_time: Option<u64>,
    last_time: Option<u64>,
    /// The first time after the open pixel, so that most points need no division.
    pixel_end: u64,
    /// A gap has already divided the open pixel.
    is_divided: bool,
}

impl Buckets {
    pub(crate) fn new(from: u64, to: u64, pixels: usize, gap_nanos: Option<u64>) -> Buckets {
        Buckets {
            from,
            to,
            pixels: pixels.max(1),
            gap_nanos,
            done: Vec::new(),
            open: None,
            first_time: None,
            last_time: None,
            pixel_end: 0,
            is_divided: false,
        }
    }

    /// Time under one pixel, rounded down.
    pub(crate) fn pixel_nanos(&self) -> u64 {
        self.to.saturating_sub(self.from) / self.pixels as u64
    }

    fn pixel_of(&self, time: u64) -> usize {
        let span = u128::from(self.to - self.from) + 1;
        (u128::from(time - self.from) * self.pixels as u128 / span) as usize
    }

    /// The smallest time of a pixel, the inverse of [`Buckets::pixel_of`].
    fn pixel_start(&self, pixel: usize) -> u64 {
        let span = u128::from(self.to - self.from) + 1;
        let offset = (pixel as u128 * span).div_ceil(self.pixels as u128);
        u64::try_from(u128::from(self.from) + offset).unwrap_or(u64::MAX)
    }

    #[inline]
    pub(crate) fn add_point(&mut self, time: u64, value: f64) {
        if time < self.from || time > self.to {
            return;
        }
        let is_gap = self.is_gap_before(time);
        let bucket = self.bucket_at(time, is_gap);
        if is_absent(value) {
            bucket.absent_count += 1;
        } else if value.is_nan() {
            bucket.nan_count += 1;
        } else {
            bucket.add(time, time, value, value, value, value, 1);
        }
        self.last_time = Some(time);
        self.first_time.get_or_insert(time);
    }

    /// Adds many points at once; none of them may be further apart than `gap_nanos`.
    pub(crate) fn add_cell(&mut self, first_time: u64, last_time: u64, cell: &PyramidCell) {
        let is_gap = self.is_gap_before(first_time);
        let bucket = self.bucket_at(first_time, is_gap);
        bucket.nan_count += u64::from(cell.nan_count);
        bucket.absent_count += u64::from(cell.absent_count);
        if cell.count > 0 {
            let count = u64::from(cell.count);
            bucket.add(
                first_time, last_time, cell.first, cell.min, cell.max, cell.last, count,
            );
        }
        self.last_time = Some(last_time);
        self.first_time.get_or_insert(first_time);
    }

    /// Adds the buckets over the times after these, made apart: the result is that of one pass.
    pub(crate) fn append(&mut self, later: Buckets) {
        let Some(first_time) = later.first_time else {
            return;
        };
        let mut is_gap = Some(self.is_gap_before(first_time));
        for (pixel, mut bucket) in later.done.into_iter().chain(later.open) {
            bucket.gap_before |= is_gap.take().unwrap_or(false);
            match &mut self.open {
                Some((open, before)) if *open == pixel => {
                    if bucket.gap_before && !self.is_divided {
                        self.done.push((pixel, std::mem::replace(before, bucket)));
                        self.is_divided = true;
                    } else {
                        before.gap_inside |= bucket.gap_before;
                        before.merge(&bucket);
                    }
                }
                _ => {
                    self.done.extend(self.open.replace((pixel, bucket)));
                    self.pixel_end = self.pixel_start(pixel + 1);
                    self.is_divided = false;
                }
            }
        }
        self.first_time = self.first_time.or(later.first_time);
        self.last_time = later.last_time;
    }

    #[inline]
    fn is_gap_before(&self, time: u64) -> bool {
        match (self.gap_nanos, self.last_time) {
            (Some(gap), Some(last)) => time.saturating_sub(last) > gap,
            _ => false,
        }
    }

    #[inline]
    fn bucket_at(&mut self, time: u64, is_gap: bool) -> &mut PixelColumn {
        if self.open.is_none() || time >= self.pixel_end || is_gap {
            self.turn_to(time, is_gap);
        }
        &mut self
            .open
            .get_or_insert_with(|| (0, PixelColumn::empty(time, is_gap)))
            .1
    }

    /// Opens the bucket for a time, unless a gap falls into a pixel that was already divided once.
    fn turn_to(&mut self, time: u64, is_gap: bool) {
        let pixel = self.pixel_of(time);
        match &mut self.open {
            Some((open, bucket)) if *open == pixel => {
                if is_gap && self.is_divided {
                    bucket.gap_inside = true;
                } else if is_gap {
                    let full = std::mem::replace(bucket, PixelColumn::empty(time, true));
                    self.done.push((pixel, full));
                    self.is_divided = true;
                }
            }
            _ => {
                let full = self.open.replace((pixel, PixelColumn::empty(time, is_gap)));
                self.done.extend(full);
                self.pixel_end = self.pixel_start(pixel + 1);
                self.is_divided = false;
            }
        }
    }

    pub(crate) fn finish(self) -> Vec<PixelColumn> {
        let all = self.done.into_iter().chain(self.open);
        let mut buckets: Vec<PixelColumn> = all.map(|(_, bucket)| bucket).collect();
        // Only a table that was defined twice at once is out of order.
        if !buckets.is_sorted_by_key(|bucket| bucket.first.time_nanos) {
            buckets.sort_by_key(|bucket| bucket.first.time_nanos);
        }
        buckets
    }
}

impl PixelColumn {
    fn empty(time_nanos: u64, gap_before: bool) -> PixelColumn {
        let nothing = Point {
            time_nanos,
            value: nilo_sample::ABSENT,
        };
        PixelColumn {
            first: nothing,
            min: nothing,
            max: nothing,
            last: nothing,
            count: 0,
            nan_count: 0,
            absent_count: 0,
            gap_before,
            gap_inside: false,
        }
    }

    /// Takes in the bucket that follows in the same pixel.
    fn merge(&mut self, later: &PixelColumn) {
        if later.count > 0 {
            if self.count == 0 {
                (self.first, self.min, self.max) = (later.first, later.min, later.max);
            }
            if later.min.value < self.min.value {
                self.min = later.min;
            }
            if later.max.value > self.max.value {
                self.max = later.max;
            }
            self.last = later.last;
        }
        self.count += later.count;
        self.nan_count += later.nan_count;
        self.absent_count += later.absent_count;
        self.gap_inside |= later.gap_inside;
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "the fields of a cell, in its order"
    )]
    #[inline]
    fn add(
        &mut self,
        first_time: u64,
        last_time: u64,
        first: f64,
        min: f64,
        max: f64,
        last: f64,
        count: u64,
    ) {
        let at = |time_nanos, value| Point { time_nanos, value };
        if self.count == 0 {
            self.first = at(first_time, first);
            self.min = at(first_time, min);
            self.max = at(first_time, max);
        }
        if min < self.min.value {
            self.min = at(first_time, min);
        }
        if max > self.max.value {
            self.max = at(first_time, max);
        }
        self.last = at(last_time, last);
        self.count += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::ABSENT;
    use proptest::prelude::*;

    fn series() -> impl Strategy<Value = (Vec<u64>, Vec<f64>)> {
        let value = prop_oneof![6 => -1e9..1e9, 1 => Just(f64::NAN), 1 => Just(ABSENT), 1 => Just(f64::INFINITY)];
        prop::collection::vec((0u64..1000, value), 1..500).prop_map(|rows| {
            let mut time = 0;
            rows.into_iter()
                .map(|(step, value)| {
                    time += step;
                    (time, value)
                })
                .unzip()
        })
    }

    proptest! {
        #[test]
        fn no_spike_is_hidden((times, values) in series(), pixels in 1usize..200) {
            let (from, to) = (times[0], times[times.len() - 1]);
            let buckets = m4(&times, &values, from, to, pixels, None);
            prop_assert!(buckets.len() <= pixels);
            let measured = || values.iter().copied().filter(|v| !v.is_nan());
            let max = measured().fold(f64::NEG_INFINITY, f64::max);
            let min = measured().fold(f64::INFINITY, f64::min);
            let with_values = || buckets.iter().filter(|b| b.count > 0);
            prop_assert_eq!(with_values().map(|b| b.max.value).fold(f64::NEG_INFINITY, f64::max), max);
            prop_assert_eq!(with_values().map(|b| b.min.value).fold(f64::INFINITY, f64::min), min);
            for bucket in with_values() {
                let inside: Vec<f64> = times.iter().zip(&values)
                    .filter(|(t, v)| (bucket.first.time_nanos..=bucket.last.time_nanos).contains(*t) && !v.is_nan())
                    .map(|(_, v)| *v)
                    .collect();
                prop_assert!(inside.contains(&bucket.min.value) && inside.contains(&bucket.max.value));
                prop_assert!(inside.iter().all(|v| bucket.min.value <= *v && *v <= bucket.max.value));
            }
        }

        #[test]
        fn every_row_is_counted_once((times, values) in series(), pixels in 1usize..200, gap in prop::option::of(0u64..900)) {
            let (from, to) = (times[0], times[times.len() - 1]);
            let buckets = m4(&times, &values, from, to, pixels, gap);
            let total: u64 = buckets.iter().map(|b| b.count + b.nan_count + b.absent_count).sum();
            prop_assert_eq!(total as usize, values.len());
            prop_assert!(buckets.len() <= 2 * pixels);
        }

        #[test]
        fn every_gap_is_marked((times, values) in series(), pixels in 1usize..200, gap in 0u64..900) {
            let (from, to) = (times[0], times[times.len() - 1]);
            let has_gap = times.windows(2).any(|pair| pair[1] - pair[0] > gap);
            let buckets = m4(&times, &values, from, to, pixels, Some(gap));
            prop_assert_eq!(buckets.iter().any(|b| b.gap_before || b.gap_inside), has_gap);
        }

        #[test]
        fn buckets_made_in_parts_are_those_of_one_pass((times, values) in series(), pixels in 1usize..100, gap in prop::option::of(0u64..900), cuts in (any::<prop::sample::Index>(), any::<prop::sample::Index>())) {
            let (from, to) = (times[0], times[times.len() - 1]);
            let (a, b) = (cuts.0.index(times.len()), cuts.1.index(times.len()));
            let mut whole = Buckets::new(from, to, pixels, gap);
            for range in [0..a.min(b), a.min(b)..a.max(b), a.max(b)..times.len()] {
                let mut part = Buckets::new(from, to, pixels, gap);
                for (time, value) in times[range.clone()].iter().zip(&values[range]) {
                    part.add_point(*time, *value);
                }
                whole.append(part);
            }
            let expected = m4(&times, &values, from, to, pixels, gap);
            prop_assert_eq!(format!("{:?}", whole.finish()), format!("{expected:?}"));
        }

        #[test]
        fn any_range_is_survived((times, values) in series(), from: u64, to: u64, pixels in 0usize..50) {
            let _ = m4(&times, &values, from, to, pixels, Some(5));
            let _ = m4(&times, &values, 0, u64::MAX, pixels, Some(5));
        }
    }

    #[test]
    fn a_gap_within_a_pixel_divides_it() {
        let times = [0, 1, 2, 50, 51, 52];
        let buckets = m4(&times, &[1.0; 6], 0, 1000, 1, Some(10));
        assert_eq!(buckets.len(), 2);
        assert!(!buckets[0].gap_before && buckets[1].gap_before);
        assert_eq!(buckets[0].last.time_nanos, 2);
    }
}
