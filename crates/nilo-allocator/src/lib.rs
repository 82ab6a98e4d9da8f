//! PyTorch's GPU memory snapshots, and the CUDA caching allocator that made them.
//!
//! `pickle` reads untrusted pickles without running anything; `snapshot` turns them into columns;
//! `usage` adds up where the reserved bytes are at any moment of the trace;
//! `model` is the allocator itself; `replay` sends the requests of a trace through it, under its own or other settings.

#![forbid(unsafe_code)]

pub mod model;
pub mod pickle;
pub mod replay;
pub mod snapshot;
pub mod usage;

pub use pickle::PickleError;
pub use snapshot::{GpuSnapshot, ReadOptions, SnapshotError};
