//! What a plan says: which blocks keep their activations, and which are computed again, together or inside of each other.

use std::ops::Range;

/// Which plans there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanShape {
    /// May checkpoints be inside of each other?
    pub nesting: Nesting,
    /// Most blocks of one segment: 1 where a model's code between its blocks cannot be run again.
    pub longest_segment: usize,
}

impl Default for PlanShape {
    fn default() -> PlanShape {
        PlanShape {
            nesting: Nesting::Allowed,
            longest_segment: usize::MAX,
        }
    }
}

impl PlanShape {
    /// The ends of segments that begin a stretch and leave something of it.
    pub(crate) fn segment_ends(&self, first: usize, last: usize) -> Range<usize> {
        first..last.min(first.saturating_add(self.longest_segment))
    }
}

/// May a checkpointed segment have checkpoints inside?
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Nesting {
    /// Wherever it costs least. Some blocks are then computed more than twice.
    #[default]
    Allowed,
    /// No: each block is computed twice at most.
    Never,
}

/// A part of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PlanUnit {
    /// The block keeps its activations.
    Keep {
        /// Its number in the chain.
        block: usize,
    },
    /// Blocks that keep only the input of the first; for their backward pass they are run again, as `inside` says.
    Checkpoint {
        /// First block of the segment.
        first: usize,
        /// Last block of the segment.
        last: usize,
        /// How the segment runs when it is computed again.
        inside: Vec<PlanUnit>,
    },
}

impl PlanUnit {
    /// First and last block of this part.
    pub fn range(&self) -> (usize, usize) {
        match self {
            PlanUnit::Keep { block } => (*block, *block),
            PlanUnit::Checkpoint { first, last, .. } => (*first, *last),
        }
    }

    /// Checkpoints inside of each other, this one counted.
    pub fn depth(&self) -> usize {
        match self {
            PlanUnit::Keep { .. } => 0,
            PlanUnit::Checkpoint { inside, .. } => {
                1 + inside.iter().map(PlanUnit::depth).max().unwrap_or(0)
            }
        }
    }
}

/// A plan for a whole chain with what it takes.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckpointPlan {
    /// Its parts, in order; together they cover the chain.
    pub units: Vec<PlanUnit>,
    /// Most memory held at a time, the input of the chain included.
    pub peak_bytes: u64,
    /// Time of forward and backward pass, recomputation included.
    pub step_secs: f64,
    /// The part of it that is recomputation.
    pub recompute_secs: f64,
}
