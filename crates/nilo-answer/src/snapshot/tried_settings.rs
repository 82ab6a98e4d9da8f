//! Whether other settings would have served a request that failed, by replaying the trace under each.

use nilo_allocator::GpuSnapshot;
use schemars::JsonSchema;
use serde::Serialize;

use super::settings_text::SettingsChange;
use super::whatif::{DeviceReplay, ReplayedSettings};

/// Between what the limit of a process lies. A snapshot does not say it; its failed allocations tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
pub struct LimitRange {
    /// So much was reserved.
    pub at_least_bytes: u64,
    /// So much could not be reserved.
    pub below_bytes: u64,
}

/// The trace under other settings, within the lowest limit that agrees with it: what is served within that is served for certain.
pub(crate) struct TriedSettings {
    /// None where segments were expandable.
    pub(crate) expandable: Option<ReplayedSettings>,
    pub(crate) others: Vec<ReplayedSettings>,
    /// Between what the limit lies, where the trace does not tell it.
    limit_range: Option<LimitRange>,
}

impl TriedSettings {
    pub(crate) fn new(snapshot: &GpuSnapshot, device: usize) -> Self {
        let replay = DeviceReplay::new(snapshot, device, None);
        let mut changes = replay.worth_a_try();
        // Nobody turns them off against running out of memory.
        changes.retain(|change| change.expandable_segments != Some(false));
        let is_expandable: fn(&SettingsChange) -> bool =
            |change| change.expandable_segments == Some(true);
        let expandable = changes.iter().position(is_expandable);
        let mut outcomes = replay.try_all(&changes, is_expandable);
        Self {
            expandable: expandable.map(|place| outcomes.remove(place)),
            others: outcomes,
            limit_range: replay.limit_range(),
        }
    }

    /// Whether expandable segments would have served the request of an event. None where they were on, or where that depends on the limit:
    /// then what the limit lies between is there as well.
    pub(crate) fn expandable_would_serve(&self, event: u64) -> (Option<bool>, Option<LimitRange>) {
        let Some(outcome) = &self.expandable else {
            return (None, None);
        };
        match outcome.depends_on_limit_oom_events.contains(&event) {
            true => (None, self.limit_range),
            false => (Some(serves(outcome, event)), None),
        }
    }
}

/// Whether a setting serves the request of an event without failing elsewhere before it.
pub(crate) fn serves(outcome: &ReplayedSettings, event: u64) -> bool {
    outcome.new_ooms == 0 && outcome.avoided_oom_events.contains(&event)
}
