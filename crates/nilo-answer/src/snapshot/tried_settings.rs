//! Whether other settings would have served a request that failed, by replaying the trace under each.

use nilo_allocator::GpuSnapshot;

use super::settings_text::SettingsChange;
use super::whatif::{DeviceReplay, ReplayedSettings};

/// The trace under other settings.
pub(crate) struct TriedSettings {
    /// None where segments were expandable.
    pub(crate) expandable: Option<ReplayedSettings>,
    pub(crate) others: Vec<ReplayedSettings>,
}

impl TriedSettings {
    pub(crate) fn new(snapshot: &GpuSnapshot, device: usize) -> Self {
        let replay = DeviceReplay::new(snapshot, device, None);
        let mut changes = replay.worth_a_try();
        // Nobody turns them off against running out of memory.
        changes.retain(|change| change.expandable_segments != Some(false));
        let is_expandable = |change: &SettingsChange| change.expandable_segments == Some(true);
        let expandable = changes.iter().position(is_expandable);
        let mut outcomes = replay.try_all(&changes);
        Self {
            expandable: expandable.map(|place| outcomes.remove(place)),
            others: outcomes,
        }
    }
}

/// Whether a setting serves the request of an event without failing elsewhere before it.
pub(crate) fn serves(outcome: &ReplayedSettings, event: u64) -> bool {
    outcome.new_ooms == 0 && outcome.avoided_oom_events.contains(&event)
}
