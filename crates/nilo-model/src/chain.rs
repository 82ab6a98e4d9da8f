//! A chain of blocks with the sizes and times that a plan depends on.

use thiserror::Error;

/// One block: what it takes to run it forward and backward once.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ChainBlock {
    /// Time of its forward pass.
    pub forward_secs: f64,
    /// Time of its backward pass, recomputation left out.
    pub backward_secs: f64,
    /// Its output, which the next block reads. The gradient of the output is as large.
    pub output_bytes: u64,
    /// What autograd keeps for its backward pass, its input and its output left out.
    pub saved_bytes: u64,
    /// Most memory of a forward pass that keeps nothing, above input and output.
    pub forward_temp_bytes: u64,
    /// Most memory of a forward pass that keeps everything, above input, output and what is kept.
    pub keep_temp_bytes: u64,
    /// Most memory of the backward pass, above input, what is kept and the gradient of the output.
    /// The gradient of the input is part of it.
    pub backward_temp_bytes: u64,
}

/// Blocks that run one after the other, each reading the output of the one before.
///
/// The last block is always kept, as its backward pass follows at once: give the head and the loss as the last block.
/// The output of the last block counts until its backward pass begins; what the loss holds longer belongs to its `saved_bytes`.
#[derive(Debug, Clone)]
pub struct BlockChain {
    input_bytes: u64,
    blocks: Vec<ChainBlock>,
}

/// Why there is no plan for such a chain.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ChainError {
    /// There is nothing to plan.
    #[error("the chain has no blocks")]
    Empty,
    /// A time is NaN, infinite or negative.
    #[error("block {block}: {which} is {value}; it must be a finite number and not negative")]
    NotATime {
        /// Number of the block, from 0.
        block: usize,
        /// The field.
        which: &'static str,
        /// Its value as text.
        value: String,
    },
    /// All sizes together do not fit into 62 bits.
    #[error("the sizes of the blocks add up to more than 4 EiB")]
    TooLarge,
    /// A table for so many blocks would not fit into memory.
    #[error("the chain has {blocks} blocks; at most {most} can be planned")]
    TooLong {
        /// Blocks given.
        blocks: usize,
        /// Most blocks of a chain.
        most: usize,
    },
}

/// Beyond any model; a table of so many blocks still fits into memory with few slots.
pub const MOST_BLOCKS: usize = 512;

impl BlockChain {
    /// A chain whose first block reads `input_bytes`.
    pub fn new(input_bytes: u64, blocks: Vec<ChainBlock>) -> Result<BlockChain, ChainError> {
        if blocks.is_empty() {
            return Err(ChainError::Empty);
        }
        if blocks.len() > MOST_BLOCKS {
            return Err(ChainError::TooLong {
                blocks: blocks.len(),
                most: MOST_BLOCKS,
            });
        }
        let mut total = u128::from(input_bytes);
        for (number, block) in blocks.iter().enumerate() {
            check_time(number, "forward_secs", block.forward_secs)?;
            check_time(number, "backward_secs", block.backward_secs)?;
            total += 3 * u128::from(block.output_bytes)
                + u128::from(block.saved_bytes)
                + u128::from(block.forward_temp_bytes)
                + u128::from(block.keep_temp_bytes)
                + u128::from(block.backward_temp_bytes);
        }
        if total >= 1 << 62 {
            return Err(ChainError::TooLarge);
        }
        Ok(BlockChain {
            input_bytes,
            blocks,
        })
    }

    /// How many blocks there are.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Never: a chain has a block.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The input of the first block, which is held from the beginning to the end.
    pub fn input_bytes(&self) -> u64 {
        self.input_bytes
    }

    /// A block by its number, from 0.
    pub fn block(&self, number: usize) -> &ChainBlock {
        &self.blocks[number]
    }

    /// All blocks.
    pub fn blocks(&self) -> &[ChainBlock] {
        &self.blocks
    }

    /// What a block reads: the output of the one before.
    pub fn input_of(&self, number: usize) -> u64 {
        match number {
            0 => self.input_bytes,
            _ => self.blocks[number - 1].output_bytes,
        }
    }

    /// Memory that a kept block holds until its backward pass, its input left out.
    pub(crate) fn kept_bytes(&self, number: usize) -> u64 {
        let block = &self.blocks[number];
        block.saved_bytes + block.output_bytes
    }

    /// What the backward pass needs above what is held: at least the gradient that it makes.
    pub(crate) fn backward_temp(&self, number: usize) -> u64 {
        let made = self.input_of(number);
        self.blocks[number].backward_temp_bytes.max(made)
    }

    /// Memory to run a kept block forward while the gradient of `last`'s output is held, its input left out.
    pub(crate) fn keep_forward_need(&self, number: usize, last: usize) -> u64 {
        let gradient = self.blocks[last].output_bytes;
        gradient + self.kept_bytes(number) + self.blocks[number].keep_temp_bytes
    }

    /// Memory to run a kept block backward, its input left out.
    pub(crate) fn backward_need(&self, number: usize) -> u64 {
        self.kept_bytes(number) + self.backward_temp(number)
    }

    /// Memory to run one block of a segment forward without keeping anything, the segment's input left out.
    pub(crate) fn pass_need(&self, number: usize, first: usize) -> u64 {
        let block = &self.blocks[number];
        let before = if number > first {
            self.input_of(number)
        } else {
            0
        };
        before + block.output_bytes + block.forward_temp_bytes
    }
}

fn check_time(block: usize, which: &'static str, value: f64) -> Result<(), ChainError> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(ChainError::NotATime {
        block,
        which,
        value: value.to_string(),
    })
}
