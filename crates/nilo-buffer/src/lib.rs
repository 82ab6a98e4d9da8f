//! Replay buffers and caches of arrays within a memory budget.
//!
//! Each frame of a stack is stored once, as its differences from a key frame or compressed; rows of numbers lie in chunks, as narrow as loses nothing.
//! What does not fit into the budget goes to disk, or the oldest leaves.

mod block;
mod block_cache;
mod budget;
mod cache;
mod codec;
mod element;
mod error;
mod file;
mod frame_encoder;
mod frame_segment;
mod frame_trial;
mod frames;
mod log_file;
mod narrow;
mod observation_log;
mod observations;
mod patch;
mod priorities;
mod replaced_file;
mod replay;
mod row_chunk;
mod rows;
mod sampling;
mod sections;
mod settings;
mod stacking;
mod statistics;
mod sum_tree;

pub use block::check_spill_folder;
pub use cache::{
    ArrayCache, ArrayCacheSettings, ArrayCacheStatistics, CacheCounts, CachePolicy, CachedArray,
    PolicyCache,
};
pub use codec::ByteCodec;
pub use element::ElementKind;
pub use error::BufferError;
pub use file::LoadOptions;
pub use frame_encoder::FrameCodec;
pub use replay::{ReplayStore, Step};
pub use sampling::{BatchTargets, Returns};
pub use settings::{ColumnSettings, ObservationSettings, ReplaySettings, StackAxis};
pub use statistics::{ColumnStatistics, ReplayStatistics};
