//! The blocks of the model: pieces of segments, chained by address.

/// A block of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockIndex(pub(crate) u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelState {
    /// The program has it.
    Allocated,
    /// Given back, but another stream may still use it.
    Pending,
    /// In a free list.
    Free,
    /// Virtual addresses without memory.
    Unmapped,
}

#[derive(Debug, Clone)]
pub(crate) struct ModelBlock {
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) requested: u64,
    pub(crate) stream: u64,
    /// Index of its free list.
    pub(crate) list: usize,
    pub(crate) previous: Option<BlockIndex>,
    pub(crate) next: Option<BlockIndex>,
    pub(crate) state: ModelState,
    /// Base address of the expandable segment it lies in.
    pub(crate) expandable_base: Option<u64>,
    /// The list's search count when it became free.
    pub(crate) freed_at: u64,
}

/// A block as others see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockView {
    /// Where it begins.
    pub address: u64,
    /// Its bytes.
    pub size: u64,
    /// Whether the program has it.
    pub allocated: bool,
    /// Whether the program or another stream has it.
    pub active: bool,
}

/// All blocks; the places of those that are gone are used again.
#[derive(Debug, Default)]
pub(crate) struct BlockArena {
    blocks: Vec<ModelBlock>,
    vacant: Vec<BlockIndex>,
}

impl BlockArena {
    pub(crate) fn insert(&mut self, block: ModelBlock) -> BlockIndex {
        match self.vacant.pop() {
            Some(index) => {
                self.blocks[index.0 as usize] = block;
                index
            }
            None => {
                let index = BlockIndex(
                    u32::try_from(self.blocks.len()).expect("fewer than 4 billion blocks"),
                );
                self.blocks.push(block);
                index
            }
        }
    }

    pub(crate) fn get(&self, index: BlockIndex) -> &ModelBlock {
        &self.blocks[index.0 as usize]
    }

    pub(crate) fn get_mut(&mut self, index: BlockIndex) -> &mut ModelBlock {
        &mut self.blocks[index.0 as usize]
    }

    pub(crate) fn remove(&mut self, index: BlockIndex) {
        self.vacant.push(index);
    }

    /// Puts a block between two that may not exist.
    pub(crate) fn link(
        &mut self,
        previous: Option<BlockIndex>,
        index: BlockIndex,
        next: Option<BlockIndex>,
    ) {
        self.get_mut(index).previous = previous;
        self.get_mut(index).next = next;
        if let Some(previous) = previous {
            self.get_mut(previous).next = Some(index);
        }
        if let Some(next) = next {
            self.get_mut(next).previous = Some(index);
        }
    }

    /// Whether it is a part of a segment rather than the whole.
    pub(crate) fn is_split(&self, index: BlockIndex) -> bool {
        let block = self.get(index);
        block.previous.is_some() || block.next.is_some()
    }
}
