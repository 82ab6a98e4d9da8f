//! How much memory there was. A snapshot does not say, but its failed allocations tell.

use crate::model::AllocatorSettings;
use crate::snapshot::{GpuSnapshot, TraceAction};
use crate::usage::TraceStart;

/// Bounds of the bytes the process could reserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitEstimate {
    /// It reserved that much.
    pub at_least_bytes: u64,
    /// It could not reserve that much; none if nothing ever failed.
    pub below_bytes: Option<u64>,
    /// What the device itself had left at a failure, if that was the reason: the limit is that, plus what was reserved.
    pub device_bytes: Option<u64>,
}

impl LimitEstimate {
    /// These settings with the lowest limit that agrees with the record: what it cannot do without, the real one could not do either.
    pub fn limited(&self, settings: &AllocatorSettings) -> AllocatorSettings {
        let fraction = self.below_bytes.filter(|_| self.device_bytes.is_none());
        AllocatorSettings {
            allowed_bytes: fraction.map(|_| self.at_least_bytes),
            device_bytes: self
                .device_bytes
                .map(|bytes| bytes.max(self.at_least_bytes)),
            ..settings.clone()
        }
    }

    /// These settings with the highest limit of the process that agrees with the record: what fails within it, fails for certain.
    /// None where the limit is known, or nothing failed.
    pub fn highest(&self, settings: &AllocatorSettings) -> Option<AllocatorSettings> {
        let below = self.below_bytes.filter(|_| self.device_bytes.is_none())?;
        Some(AllocatorSettings {
            allowed_bytes: Some(below.saturating_sub(1).max(self.at_least_bytes)),
            ..settings.clone()
        })
    }
}

/// Estimates the limit of a device from its trace.
pub fn estimate_limit(
    snapshot: &GpuSnapshot,
    device: usize,
    settings: &AllocatorSettings,
) -> LimitEstimate {
    let mut reserved = TraceStart::of(snapshot, device).reserved_bytes();
    let mut estimate = LimitEstimate {
        at_least_bytes: reserved,
        below_bytes: None,
        device_bytes: None,
    };
    for index in snapshot.trace(device) {
        let row = snapshot.events.row(index);
        match row.action {
            TraceAction::SegmentAlloc | TraceAction::SegmentMap => {
                reserved = reserved.saturating_add(row.size)
            }
            TraceAction::SegmentFree | TraceAction::SegmentUnmap => {
                reserved = reserved.saturating_sub(row.size)
            }
            TraceAction::Oom => {
                let wanted = settings.segment_bytes(settings.rounded_bytes(row.size));
                let failed = reserved.saturating_add(wanted);
                estimate.below_bytes = Some(
                    estimate
                        .below_bytes
                        .map_or(failed, |below| below.min(failed)),
                );
                if row.address < wanted {
                    estimate.device_bytes = Some(reserved.saturating_add(row.address));
                }
            }
            _ => {}
        }
        estimate.at_least_bytes = estimate.at_least_bytes.max(reserved);
    }
    estimate
}
