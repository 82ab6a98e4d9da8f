//! A model of PyTorch's CUDA caching allocator: the same requests give the same segments, in the same order.
//!
//! Two pools a memory pool (requests up to 1 MiB and larger ones), segments of 2 MiB, 20 MiB or the request rounded up to 2 MiB,
//! best fit by stream, size and address, splitting, merging, release of cached segments when the driver has no more, expandable segments.

mod addresses;
mod adoption;
mod allocator;
mod blocks;
mod collection;
mod expandable;
mod free_lists;
mod release;
mod settings;
mod totals;

#[cfg(test)]
mod laws;

pub use addresses::SegmentAddresses;
pub use adoption::{AdoptedBlock, AdoptedSegment};
pub use allocator::{CachingAllocator, ModelOutOfMemory};
pub use blocks::{BlockIndex, BlockView};
pub use settings::AllocatorSettings;
pub use totals::{DriverAction, DriverCall, MemoryTotals};
