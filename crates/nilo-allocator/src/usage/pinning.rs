//! Who keeps free memory from being used as a whole: the blocks that live in segments with gaps.

use hashbrown::HashMap;

use super::layout::MemoryLayout;
use super::ranges::ReservedRange;

/// What one call stack keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PinningStack {
    /// The stack, by number.
    pub stack: u32,
    /// Its blocks in segments with gaps.
    pub blocks: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Those segments.
    pub segments: usize,
    /// The free bytes in them; several stacks may keep the same.
    pub kept_free_bytes: u64,
}

/// Who lives in the segments with gaps among these, most free bytes kept first.
pub(crate) fn pinning_stacks<'a>(
    layout: &MemoryLayout,
    ranges: impl Iterator<Item = &'a ReservedRange>,
) -> Vec<PinningStack> {
    let mut by_stack: HashMap<u32, PinningStack> = HashMap::new();
    // The last range that each stack was seen in: expandable segments hold very many blocks.
    let mut seen_in: HashMap<u32, u64> = HashMap::new();
    for range in ranges {
        let used: u64 = layout.blocks_in(range).map(|block| block.size).sum();
        let free = range.size.saturating_sub(used);
        if free == 0 {
            continue;
        }
        for block in layout.blocks_in(range).filter(|block| block.size > 0) {
            let pinning = by_stack.entry(block.stack).or_insert(PinningStack {
                stack: block.stack,
                blocks: 0,
                bytes: 0,
                segments: 0,
                kept_free_bytes: 0,
            });
            pinning.blocks += 1;
            pinning.bytes += block.size;
            if seen_in.insert(block.stack, range.address) != Some(range.address) {
                pinning.segments += 1;
                pinning.kept_free_bytes += free;
            }
        }
    }
    let mut pinning: Vec<PinningStack> = by_stack.into_values().collect();
    pinning.sort_unstable_by_key(|one| (std::cmp::Reverse(one.kept_free_bytes), one.stack));
    pinning
}
