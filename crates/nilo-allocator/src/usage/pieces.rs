//! A segment from its first byte to its last: blocks, and what is free between them.

use super::layout::MemoryLayout;
use super::ranges::ReservedRange;
use crate::snapshot::NO_STACK;

/// What a piece of a segment is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PieceUse {
    /// The program has it.
    Allocated,
    /// Given back, but another stream may still use it.
    Pending,
    /// Free, and `empty_cache` would give it back.
    Releasable,
    /// Free, but something else keeps the segment.
    Stranded,
}

/// A block, or a free stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentPiece {
    /// What it is used for.
    pub usage: PieceUse,
    /// Its bytes; never 0.
    pub size: u64,
    /// Where the block was allocated, by number; none of free pieces.
    pub stack: u32,
}

/// The pieces of a range by address; their sizes add up to its own.
pub fn segment_pieces(layout: &MemoryLayout, range: &ReservedRange) -> Vec<SegmentPiece> {
    let mut pieces = Vec::new();
    let mut free_from = range.address;
    let mut is_used = false;
    for block in layout.blocks_in(range).filter(|block| block.size > 0) {
        add_free(&mut pieces, range, free_from, block.address);
        free_from = block.address + block.size;
        is_used = true;
        pieces.push(SegmentPiece {
            usage: match block.pending {
                true => PieceUse::Pending,
                false => PieceUse::Allocated,
            },
            size: block.size,
            stack: block.stack,
        });
    }
    match is_used {
        true => add_free(&mut pieces, range, free_from, range.end()),
        false => add_piece(
            &mut pieces,
            PieceUse::Releasable,
            range.end() - range.address,
        ),
    }
    pieces
}

fn add_free(pieces: &mut Vec<SegmentPiece>, range: &ReservedRange, start: u64, end: u64) {
    if end <= start {
        return;
    }
    let pages = range.whole_pages(start, end);
    add_piece(pieces, PieceUse::Stranded, pages.start - start);
    add_piece(pieces, PieceUse::Releasable, pages.end - pages.start);
    add_piece(pieces, PieceUse::Stranded, end - pages.end);
}

fn add_piece(pieces: &mut Vec<SegmentPiece>, usage: PieceUse, size: u64) {
    if size > 0 {
        pieces.push(SegmentPiece {
            usage,
            size,
            stack: NO_STACK,
        });
    }
}
