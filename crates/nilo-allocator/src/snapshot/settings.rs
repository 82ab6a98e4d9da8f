//! The settings of the allocator that a snapshot tells.

/// As recorded; what the file does not say is PyTorch's default.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedSettings {
    /// The environment variable, empty if it was not set.
    pub configuration: String,
    /// Blocks of at least so many bytes are not split.
    pub max_split_bytes: Option<u64>,
    /// The part of the allowed memory from which on unused blocks are released early; 0 is never.
    pub garbage_collection_threshold: f64,
    /// Whether segments are expandable.
    pub expandable_segments: bool,
    /// Divisions between powers of two, by size class: up to 1 MiB, 2 MiB, 4 MiB and so on; empty or 0 is rounding to 512 bytes.
    pub roundup_power2_divisions: Vec<u64>,
}

impl Default for RecordedSettings {
    fn default() -> Self {
        Self {
            configuration: String::new(),
            max_split_bytes: None,
            garbage_collection_threshold: 0.0,
            expandable_segments: false,
            roundup_power2_divisions: Vec::new(),
        }
    }
}
