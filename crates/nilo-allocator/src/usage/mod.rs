//! Where the reserved bytes are, at any event of a trace: followed from the recorded events alone, without the allocator model.
//!
//! A trace may begin late: what was there before it is found by going backwards from the segments at its end.

mod accumulation;
mod allocation_rows;
mod breakdown;
mod layout;
mod oom;
mod peaks;
mod pieces;
mod pinning;
mod ranges;
mod start;
mod timeline;

pub use accumulation::{StackAccumulation, TraceAccumulation};
pub use allocation_rows::allocation_rows;
pub use breakdown::ReservedBreakdown;
pub use layout::{LiveBlock, MemoryLayout};
pub use oom::{OomReport, PinnedSegment, explain_ooms, explain_ooms_within};
pub use peaks::{PeakMoment, StackUsage, TracePeaks, usage_by_stack};
pub use pieces::{PieceUse, SegmentPiece, segment_pieces};
pub use pinning::PinningStack;
pub use ranges::ReservedRange;
pub use start::TraceStart;
pub use timeline::{MemoryTimeline, TimelineBucket};
