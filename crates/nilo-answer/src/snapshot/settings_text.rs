//! The allocator's settings as `PYTORCH_CUDA_ALLOC_CONF` takes them.

use nilo_allocator::model::AllocatorSettings;
use nilo_allocator::snapshot::RecordedSettings;
use schemars::JsonSchema;
use serde::Serialize;

/// Size classes of `roundup_power2_divisions`: up to 1 MiB, 2 MiB and so on.
const SIZE_CLASSES: usize = 16;

/// The settings that a snapshot was recorded with; what the file does not say is PyTorch's default.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct SnapshotSettings {
    /// The environment variable; empty if it was not set.
    pub configuration: String,
    /// Whether segments are expandable.
    pub expandable_segments: bool,
    /// Blocks of at least so many bytes are not split.
    pub max_split_bytes: Option<u64>,
    /// From which part of the allowed memory on unused segments are given back early; 0 is never.
    pub garbage_collection_threshold: f64,
    /// Divisions between powers of two, by size class; 0 is rounding to 512 bytes.
    pub roundup_power2_divisions: Vec<u64>,
}

impl From<&RecordedSettings> for SnapshotSettings {
    fn from(recorded: &RecordedSettings) -> Self {
        Self {
            configuration: recorded.configuration.clone(),
            expandable_segments: recorded.expandable_segments,
            max_split_bytes: recorded.max_split_bytes,
            garbage_collection_threshold: recorded.garbage_collection_threshold,
            roundup_power2_divisions: recorded.roundup_power2_divisions.clone(),
        }
    }
}

/// Settings to try; what is `None` stays as recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SettingsChange {
    /// Whether segments are expandable.
    pub expandable_segments: Option<bool>,
    /// Blocks of at least so many MiB are not split.
    pub max_split_size_mb: Option<u64>,
    /// Divisions between powers of two.
    pub roundup_power2_divisions: Option<u64>,
    /// From which part of the allowed memory on unused segments are given back.
    pub garbage_collection_threshold: Option<f64>,
}

impl SettingsChange {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// These settings with the change.
    pub fn apply(&self, settings: &AllocatorSettings) -> AllocatorSettings {
        let mut changed = settings.clone();
        if let Some(expandable) = self.expandable_segments {
            changed.expandable_segments = expandable;
        }
        if let Some(mebibytes) = self.max_split_size_mb {
            changed.max_split_bytes = Some(mebibytes.saturating_mul(1 << 20));
        }
        if let Some(divisions) = self.roundup_power2_divisions {
            changed.roundup_power2_divisions = vec![divisions; SIZE_CLASSES];
        }
        if let Some(threshold) = self.garbage_collection_threshold {
            changed.garbage_collection_threshold = threshold;
        }
        changed
    }

    /// The value of the environment variable: what was recorded, with the change.
    pub fn configuration(&self, recorded: &str) -> String {
        let mut options: Vec<(String, String)> = options(recorded);
        let mut set = |key: &str, value: Option<String>| {
            let Some(value) = value else { return };
            match options.iter_mut().find(|(known, _)| known == key) {
                Some(option) => option.1 = value,
                None => options.push((key.to_owned(), value)),
            }
        };
        let word = |yes: bool| if yes { "True" } else { "False" }.to_owned();
        set("expandable_segments", self.expandable_segments.map(word));
        set(
            "max_split_size_mb",
            self.max_split_size_mb.map(|mb| mb.to_string()),
        );
        let divisions = self.roundup_power2_divisions;
        set(
            "roundup_power2_divisions",
            divisions.map(|number| number.to_string()),
        );
        let threshold = self.garbage_collection_threshold;
        set(
            "garbage_collection_threshold",
            threshold.map(|part| part.to_string()),
        );
        let written = options.iter().map(|(key, value)| match value.is_empty() {
            true => key.clone(),
            false => format!("{key}:{value}"),
        });
        written.collect::<Vec<_>>().join(",")
    }
}

/// The options of a configuration; commas within brackets belong to a value.
fn options(configuration: &str) -> Vec<(String, String)> {
    let mut depth = 0_u32;
    let parts = configuration.split(|c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(|part| part.split_once(':').unwrap_or((part, "")))
        .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_keeps_what_was_set_before() {
        let expandable = SettingsChange {
            expandable_segments: Some(true),
            ..SettingsChange::default()
        };
        assert_eq!(expandable.configuration(""), "expandable_segments:True");
        assert_eq!(
            expandable.configuration("backend:native, expandable_segments:False"),
            "backend:native,expandable_segments:True"
        );
        let more = SettingsChange {
            max_split_size_mb: Some(128),
            garbage_collection_threshold: Some(0.8),
            ..SettingsChange::default()
        };
        assert_eq!(
            more.configuration("roundup_power2_divisions:[256:1,512:2,>:8]"),
            "roundup_power2_divisions:[256:1,512:2,>:8],max_split_size_mb:128,garbage_collection_threshold:0.8"
        );
        assert!(!more.is_empty() && SettingsChange::default().is_empty());
    }
}
