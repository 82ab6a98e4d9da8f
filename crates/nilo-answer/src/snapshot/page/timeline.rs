//! The curve of allocated and reserved bytes, in at most as many buckets as can be looked at closely.

use std::ops::Range;

use nilo_allocator::GpuSnapshot;
use nilo_allocator::usage::{MemoryTimeline, TimelineBucket};
use serde::Serialize;

use super::packed::{PackedNumbers, common_divisor};

/// A million events are four to a bucket, about three megabytes.
const MOST_BUCKETS: usize = 1 << 18;

/// A curve.
#[derive(Debug, Serialize)]
pub struct PackedTimeline {
    /// The number of the first event, from 1.
    pub first_event: u64,
    /// How many events it has.
    pub events: u64,
    /// How many events a bucket has; the last may have fewer.
    pub events_per_bucket: u64,
    /// How many buckets.
    pub buckets: u64,
    /// What the bytes are multiples of.
    pub unit_bytes: u64,
    /// Whether the file has times.
    pub has_times: bool,
    /// Seconds from the first event of the trace to the first one here.
    pub start_secs: f64,
    /// Seconds from the first event of the trace to the last one here.
    pub end_secs: f64,
    /// For each bucket: microseconds since the one before, the change of the most allocated units, how far the least is below,
    /// the change of the most reserved units.
    pub data: String,
}

impl PackedTimeline {
    pub(crate) fn of(snapshot: &GpuSnapshot, device: usize, rows: Range<usize>) -> Self {
        let trace = snapshot.trace(device);
        let timeline = MemoryTimeline::within(snapshot, device, rows.clone(), MOST_BUCKETS);
        let buckets = &timeline.buckets;
        let unit = common_divisor(buckets.iter().flat_map(levels));
        let time = |row: usize| snapshot.events.time_micros(row);
        let since_first = |micros: u64| micros.saturating_sub(time(trace.start)) as f64 / 1e6;
        let mut packed = PackedNumbers::default();
        let first_time = buckets.first().map_or(0, |bucket| bucket.time_micros);
        let mut before = (first_time, 0, 0);
        for bucket in buckets {
            let [most, least, reserved] = levels(bucket).map(|bytes| bytes / unit);
            packed.push(bucket.time_micros - before.0);
            packed.push_change(before.1, most);
            packed.push(most - least);
            packed.push_change(before.2, reserved);
            before = (bucket.time_micros, most, reserved);
        }
        Self {
            first_event: (rows.start - trace.start + 1) as u64,
            events: rows.len() as u64,
            events_per_bucket: timeline.events_per_bucket as u64,
            buckets: buckets.len() as u64,
            unit_bytes: unit,
            has_times: first_time > 0 && before.0 > first_time,
            start_secs: since_first(first_time),
            end_secs: since_first(time(rows.end - 1).max(before.0)),
            data: packed.into_base64(),
        }
    }
}

fn levels(bucket: &TimelineBucket) -> [u64; 3] {
    [
        bucket.most_allocated_bytes,
        bucket.least_allocated_bytes,
        bucket.most_reserved_bytes,
    ]
}
