//! How a writer writes.

use std::time::Duration;

/// How records reach the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteMode {
    /// Mapped where that is safe, written on network file systems.
    #[default]
    Auto,
    /// A shared mapping over reserved blocks.
    Mapped,
    /// One `write(2)` for each record.
    Written,
}

/// How a writer writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterOptions {
    /// How records reach the file.
    pub mode: WriteMode,
    /// Size of the first segment; each following one is twice as large.
    pub first_segment_bytes: u64,
    /// Size at which segments stop growing.
    /// It bounds the recorder's memory: a mapped segment, and the decoded columns of one being compacted.
    pub max_segment_bytes: u64,
    /// Whether sealed segments become compressed columns.
    pub compact: bool,
    /// How often the disk is asked to keep what was written, against power cuts; `None` leaves it to the kernel.
    pub sync_every: Option<Duration>,
}

impl Default for WriterOptions {
    /// One MiB at most: with compaction, writing then takes about 5 MiB of memory (`benches/runfile.rs`).
    fn default() -> WriterOptions {
        WriterOptions {
            mode: WriteMode::Auto,
            first_segment_bytes: 128 << 10,
            max_segment_bytes: 1 << 20,
            compact: true,
            sync_every: Some(Duration::from_secs(5)),
        }
    }
}
