//! T5's position bias: a learned number for each head and distance between two tokens, added to the scores of attention.

use std::rc::Rc;

use super::build::Build;
use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::{Dtype, Parameter, Tensor};

/// The table of a stack's first layer, which all its layers use.
#[derive(Debug)]
pub(crate) struct PositionBias {
    table: Rc<Parameter>,
    heads: u64,
    sees_behind: bool,
}

impl PositionBias {
    pub(crate) fn new(build: &Build<'_>, distances: u64, heads: u64, sees_behind: bool) -> Self {
        Self {
            table: build.weight(distances, heads),
            heads,
            sees_behind,
        }
    }

    /// Whether it is trained.
    pub(crate) fn is_trained(&self) -> bool {
        self.table.is_trained()
    }

    /// The bias of all pairs of tokens, for each head.
    pub(crate) fn of_pairs(&self, s: &DryRun, length: u64) -> Tensor {
        let askers = {
            let numbers = s.new_tensor(length, Dtype::I64);
            s.new_like(&numbers)
        };
        let asked = s.new_tensor(length, Dtype::I64);
        let differences = s.new_tensor(length * length, Dtype::I64);
        let buckets = self.buckets(s, &differences);
        let result = s.embedding(&self.table, self.heads, &buckets);
        drop((askers, asked, differences));
        result
    }

    /// The rows of the table: one for each short distance, and one for a range of longer ones.
    fn buckets(&self, s: &DryRun, differences: &Tensor) -> Tensor {
        let like = || s.new_like(differences);
        let in_type = |dtype| s.new_tensor(differences.count, dtype);
        let direction = self.sees_behind.then(|| {
            let numbers = {
                let is_behind = in_type(Dtype::U8);
                let numbers = like();
                drop(is_behind);
                numbers
            };
            let scaled = like();
            drop(numbers);
            let result = like();
            drop(scaled);
            result
        });
        let distances = match self.sees_behind {
            true => like(),
            false => {
                let zeros = like();
                let least = like();
                drop(zeros);
                like_and_drop(s, least)
            }
        };
        let is_short = in_type(Dtype::U8);
        let mut logarithm = in_type(Dtype::F32);
        for _ in 0..4 {
            logarithm = like_and_drop(s, logarithm);
        }
        let rounded = like();
        drop(logarithm);
        let long = like_and_drop(s, rounded);
        let bounded = {
            let largest = like();
            let bounded = like();
            drop(largest);
            bounded
        };
        drop(long);
        let chosen = like();
        let result = match direction {
            Some(direction) => direction,
            None => like(),
        };
        drop(chosen);
        drop((distances, is_short, bounded));
        result
    }
}

/// The result of an operation whose input nobody needs afterwards.
fn like_and_drop(s: &DryRun, input: Tensor) -> Tensor {
    let result = s.new_like(&input);
    drop(input);
    result
}
