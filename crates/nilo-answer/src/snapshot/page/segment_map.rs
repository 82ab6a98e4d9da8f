//! The segments of a moment with what lies in them, the largest first.

use std::cmp::Reverse;

use nilo_allocator::GpuSnapshot;
use nilo_allocator::snapshot::NO_STACK;
use nilo_allocator::usage::{
    MemoryLayout, PieceUse, ReservedBreakdown, ReservedRange, SegmentPiece, segment_pieces,
};
use serde::Serialize;

use super::super::reserved_parts::ReservedParts;
use super::super::trace_place::TraceMoment;
use super::frame_table::FrameTable;
use super::packed::{PackedNumbers, common_divisor};

/// Pieces that are kept one by one; of the segments behind them only the sums.
const MOST_PIECES: usize = 100_000;

/// Which moment it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MapMoment {
    /// When most was reserved.
    PeakReserved,
    /// When most was allocated.
    PeakAllocated,
    /// When an allocation failed.
    Oom,
    /// The last event.
    End,
}

/// The reserved memory at a moment.
#[derive(Debug, Serialize)]
pub struct SegmentMap {
    /// Which moment it is.
    pub kind: MapMoment,
    /// When it was.
    #[serde(flatten)]
    pub moment: TraceMoment,
    /// What the bytes were for.
    #[serde(flatten)]
    pub parts: ReservedParts,
    /// How many segments there were.
    pub segments: u64,
    /// How many of them have sums only.
    pub summed_segments: u64,
    /// What the bytes are multiples of.
    pub unit_bytes: u64,
    /// For each segment: address, stream, flags (1 small, 2 expandable, 4 sums only) and how many pieces it has;
    /// for each of those its use (0 allocated, 1 pending, 2 releasable, 3 stranded), its units, and of allocated and pending ones
    /// the number of its stack from 1 (0 of sums).
    pub data: String,
}

impl SegmentMap {
    pub(crate) fn of(
        snapshot: &GpuSnapshot,
        layout: &MemoryLayout,
        kind: MapMoment,
        moment: TraceMoment,
        frames: &mut FrameTable,
    ) -> Self {
        let mut ranges: Vec<&ReservedRange> = layout.ranges().collect();
        ranges.sort_by_key(|range| (Reverse(range.size), range.address));
        let mut summed_segments = 0;
        let mut kept = 0;
        let pieces: Vec<(Vec<SegmentPiece>, bool)> = ranges
            .iter()
            .map(|range| {
                let pieces = segment_pieces(layout, range);
                kept += pieces.len();
                let is_summed = kept > MOST_PIECES;
                summed_segments += u64::from(is_summed);
                match is_summed {
                    true => (sums(&pieces), true),
                    false => (pieces, false),
                }
            })
            .collect();
        let sizes = pieces.iter().flat_map(|(pieces, _)| pieces);
        let unit = common_divisor(sizes.map(|piece| piece.size));
        let mut packed = PackedNumbers::default();
        for (range, (pieces, is_summed)) in ranges.iter().zip(&pieces) {
            packed.push(range.address);
            packed.push(u64::from(range.stream));
            let flags = [range.is_small, range.is_expandable, *is_summed];
            let flags = flags.iter().rev();
            packed.push(flags.fold(0, |sum, flag| sum * 2 + u64::from(*flag)));
            packed.push(pieces.len() as u64);
            for piece in pieces {
                packed.push(piece.usage as u64);
                packed.push(piece.size / unit);
                if matches!(piece.usage, PieceUse::Allocated | PieceUse::Pending) {
                    packed.push(match is_summed {
                        true => 0,
                        false => u64::from(frames.stack(snapshot, piece.stack)) + 1,
                    });
                }
            }
        }
        Self {
            kind,
            moment,
            parts: ReservedParts::from(ReservedBreakdown::of(layout)),
            segments: ranges.len() as u64,
            summed_segments,
            unit_bytes: unit,
            data: packed.into_base64(),
        }
    }
}

/// One piece for each use.
fn sums(pieces: &[SegmentPiece]) -> Vec<SegmentPiece> {
    let uses = [
        PieceUse::Allocated,
        PieceUse::Pending,
        PieceUse::Releasable,
        PieceUse::Stranded,
    ];
    let sum = |usage: PieceUse| SegmentPiece {
        usage,
        size: pieces
            .iter()
            .filter(|piece| piece.usage == usage)
            .map(|piece| piece.size)
            .sum(),
        stack: NO_STACK,
    };
    let mut sums: Vec<SegmentPiece> = uses.map(sum).into();
    sums.retain(|piece| piece.size > 0);
    sums
}
