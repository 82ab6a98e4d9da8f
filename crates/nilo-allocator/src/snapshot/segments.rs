//! Segments and blocks as they were when the snapshot was taken.

use std::ops::Range;

/// What a block is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockUse {
    /// The program has it.
    Allocated,
    /// Given back, but another stream may still use it.
    Pending,
    /// Free.
    Inactive,
}

/// A piece of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuBlock {
    /// Where it begins.
    pub address: u64,
    /// Its bytes.
    pub size: u64,
    /// The bytes the program asked for; of inactive blocks what was asked last.
    pub requested: u64,
    /// What it is used for.
    pub usage: BlockUse,
    /// Where it was allocated, by number.
    pub stack: u32,
}

/// Memory taken from the driver in one piece, or a mapped stretch of an expandable segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuSegment {
    /// The device's ordinal.
    pub device: usize,
    /// Where it begins.
    pub address: u64,
    /// Its bytes.
    pub total_size: u64,
    /// The stream, by number.
    pub stream: u16,
    /// The memory pool, by number.
    pub pool: u16,
    /// Whether it serves requests of up to 1 MiB.
    pub is_small: bool,
    /// Whether it is expandable.
    pub is_expandable: bool,
    /// Where it was allocated, by number.
    pub stack: u32,
    /// Its blocks in the snapshot's.
    pub blocks: Range<usize>,
}
