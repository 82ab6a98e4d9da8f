//! Allocated and reserved bytes over a trace, reduced to a bounded number of buckets that keep every peak.

use std::ops::Range;

use super::layout::MemoryLayout;
use super::start::TraceStart;
use crate::snapshot::GpuSnapshot;

/// The levels within a few events that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelineBucket {
    /// The time of its first event, in microseconds since 1970; 0 where the file does not say. Never before an earlier bucket's.
    pub time_micros: u64,
    /// The most in blocks that the program had.
    pub most_allocated_bytes: u64,
    /// The least.
    pub least_allocated_bytes: u64,
    /// The most in segments.
    pub most_reserved_bytes: u64,
}

/// A device's memory over its trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryTimeline {
    /// How many events a bucket has, a power of two; the last one may have fewer.
    pub events_per_bucket: usize,
    /// The buckets, oldest first.
    pub buckets: Vec<TimelineBucket>,
}

impl MemoryTimeline {
    /// Follows these events of a device; the level that they began with belongs to the first bucket.
    pub fn within(
        snapshot: &GpuSnapshot,
        device: usize,
        rows: Range<usize>,
        most_buckets: usize,
    ) -> Self {
        let trace = snapshot.trace(device);
        let rows = rows.start.max(trace.start)..rows.end.min(trace.end);
        let fewest = rows.len().div_ceil(most_buckets.max(1)).max(1);
        let events_per_bucket = fewest.next_power_of_two();
        let mut layout = MemoryLayout::new(snapshot, TraceStart::of(snapshot, device));
        for index in trace.start..rows.start {
            layout.apply(snapshot.events.row(index));
        }
        let mut buckets: Vec<TimelineBucket> = Vec::new();
        let (mut allocated, mut time_micros) = (layout.allocated_bytes(), 0);
        for (place, index) in rows.enumerate() {
            if place % events_per_bucket == 0 {
                // Threads write their events with clocks of their own.
                time_micros = snapshot.events.time_micros(index).max(time_micros);
                let level = match place {
                    0 => (allocated, allocated, layout.reserved_bytes()),
                    _ => (0, u64::MAX, 0),
                };
                buckets.push(TimelineBucket {
                    time_micros,
                    most_allocated_bytes: level.0,
                    least_allocated_bytes: level.1,
                    most_reserved_bytes: level.2,
                });
            }
            layout.apply(snapshot.events.row(index));
            allocated = layout.allocated_bytes();
            if let Some(bucket) = buckets.last_mut() {
                bucket.most_allocated_bytes = bucket.most_allocated_bytes.max(allocated);
                bucket.least_allocated_bytes = bucket.least_allocated_bytes.min(allocated);
                let reserved = layout.reserved_bytes();
                bucket.most_reserved_bytes = bucket.most_reserved_bytes.max(reserved);
            }
        }
        Self {
            events_per_bucket,
            buckets,
        }
    }
}
