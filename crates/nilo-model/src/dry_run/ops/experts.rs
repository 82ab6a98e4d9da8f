//! Mixtures of experts. Which token goes to which expert depends on values; how many go to all of them together does not.

use std::rc::Rc;

use super::elementwise::Unary;
use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::{Dtype, Parameter, Tensor};

/// The experts of a layer, whose weights are one tensor, computed by grouped products of matrices.
#[derive(Debug)]
pub(crate) struct Experts {
    pub(crate) gate_and_up: ExpertWeight,
    pub(crate) down: ExpertWeight,
    pub(crate) count: u64,
    pub(crate) per_token: u64,
    pub(crate) hidden: u64,
    pub(crate) width: u64,
}

/// A weight that is used as a parameter instead of by a linear layer, with an adapter that is added to it for each use, or without.
#[derive(Debug)]
pub(crate) struct ExpertWeight {
    pub(crate) weight: Rc<Parameter>,
    pub(crate) adapter: Option<[Rc<Parameter>; 2]>,
}

impl ExpertWeight {
    /// The adapter's matrices in the type of the weight.
    fn factors(&self, session: &DryRun) -> Option<[Tensor; 2]> {
        let dtype = self.weight.value.dtype;
        let adapter = self.adapter.as_ref()?;
        Some([0, 1].map(|index| session.cast(&adapter[index].tensor(), dtype)))
    }
}

impl DryRun {
    /// A weight with the product of two thin matrices added to it, in memory of its own.
    pub(crate) fn merged(&self, weight: &ExpertWeight) -> Tensor {
        let factors = weight.factors(self);
        self.merged_with(weight, factors.as_ref())
    }

    fn merged_with(&self, weight: &ExpertWeight, factors: Option<&[Tensor; 2]>) -> Tensor {
        let matrix = weight.weight.tensor();
        let Some(factors) = factors else {
            return matrix;
        };
        let is_recorded = self.is_recorded(&[&factors[0], &factors[1]]);
        let kept = match is_recorded {
            true => self.keep(&[&factors[0], &factors[1]]),
            false => Vec::new(),
        };
        let result = self.multiplied(matrix.count, matrix.dtype);
        if !is_recorded {
            return result;
        }
        self.record(
            &[&factors[0], &factors[1]],
            kept,
            result,
            |session, _, kept| {
                let scaled = |factor: &Tensor| {
                    let product = session.multiplied(factor.count, factor.dtype);
                    let result = session.new_like(factor);
                    drop(product);
                    result
                };
                vec![Some(scaled(&kept[0])), Some(scaled(&kept[1]))]
            },
        )
    }

    /// Each token through its experts, with the weight of each; `scores` has one number for each token and expert that it goes to.
    pub(crate) fn experts(
        &self,
        experts: &Experts,
        x: &Tensor,
        scores: &Tensor,
        chosen: &Tensor,
    ) -> Tensor {
        let tokens = x.count / experts.hidden;
        let rows = tokens * experts.per_token;
        let down_factors = experts.down.factors(self);
        drop(self.merged_with(&experts.down, down_factors.as_ref()));
        let both_factors = experts.gate_and_up.factors(self);
        drop(self.merged_with(&experts.gate_and_up, both_factors.as_ref()));
        // Sorted by expert: which, and from where.
        let sorted = self.new_like(chosen);
        let order = self.new_like(chosen);
        let places = self.new_like(chosen);
        let selected = self.gathered(x, &places, rows * experts.hidden);
        drop(places);
        let weights = self.gathered(scores, &order, rows);
        let counted = self.new_tensor(rows, Dtype::F32);
        let per_expert = self.new_tensor(experts.count, Dtype::F32);
        let offsets = self.new_tensor(experts.count.div_ceil(2), Dtype::I64);
        let gate_and_up = self.merged_with(&experts.gate_and_up, both_factors.as_ref());
        let both =
            self.grouped_product(&selected, &gate_and_up, &offsets, rows * 2 * experts.width);
        let halves = self.split(&both, &[rows * experts.width, rows * experts.width]);
        let active = self.unary(Unary::OfInput, &halves[0]);
        let gated = self.mul(&active, &halves[1]);
        drop((active, halves, both));
        let down_weight = self.merged_with(&experts.down, down_factors.as_ref());
        let down = self.grouped_product(&gated, &down_weight, &offsets, rows * experts.hidden);
        drop(gated);
        let mut weighted = self.mul(&down, &weights);
        let back = self.new_like(&order);
        let numbers = self.new_like(&order);
        drop(numbers);
        weighted = self.gathered(&weighted, &back, rows * experts.hidden);
        let rows_of_tokens = self.with_copied_gradient(weighted);
        let sum = self.summed_over(&rows_of_tokens, experts.per_token);
        let result = self.cast(&sum, x.dtype);
        drop((
            order, sorted, selected, weights, counted, per_expert, offsets,
        ));
        drop((down, rows_of_tokens, back, sum));
        drop((gate_and_up, down_weight));
        result
    }

    /// Rows that an index names; the gradient is added up in memory as large as the source.
    pub(crate) fn gathered(&self, x: &Tensor, index: &Tensor, count: u64) -> Tensor {
        let is_recorded = self.is_recorded(&[x]);
        let kept = match is_recorded {
            true => self.keep(&[index]),
            false => Vec::new(),
        };
        let result = self.new_tensor(count, x.dtype);
        if !is_recorded {
            return result;
        }
        let source = x.count;
        self.record(&[x], kept, result, move |session, grad, _| {
            vec![Some(session.new_tensor(source, grad.dtype))]
        })
    }

    fn grouped_product(&self, x: &Tensor, matrix: &Tensor, offsets: &Tensor, count: u64) -> Tensor {
        let x = self.cast(x, matrix.dtype);
        let is_recorded = self.is_recorded(&[&x, matrix]);
        let (x_needs, weight_needs) = (x.requires_grad(), matrix.requires_grad());
        let kept = match is_recorded {
            true => {
                let mut kept = Vec::new();
                if weight_needs {
                    kept.extend(self.keep(&[&x]));
                }
                if x_needs {
                    kept.extend(self.keep(&[matrix]));
                }
                kept.extend(self.keep(&[offsets]));
                kept
            }
            false => Vec::new(),
        };
        let (x_count, weight_count, dtype) = (x.count, matrix.count, x.dtype);
        let result = self.multiplied(count, x.dtype);
        if !is_recorded {
            return result;
        }
        self.record(&[&x, matrix], kept, result, move |session, _, _| {
            let for_weight = weight_needs.then(|| session.multiplied(weight_count, dtype));
            let for_x = x_needs.then(|| session.multiplied(x_count, dtype));
            vec![for_x, for_weight]
        })
    }

    /// Sums of so many rows each.
    pub(crate) fn summed_over(&self, x: &Tensor, rows: u64) -> Tensor {
        let result = self.new_tensor(x.count / rows, x.dtype);
        if !self.is_recorded(&[x]) {
            return result;
        }
        let count = x.count;
        self.record(&[x], Vec::new(), result, move |_, grad, _| {
            // An expanded view of the gradient, which has no memory of its own.
            let mut view = grad.clone();
            view.count = count;
            vec![Some(view)]
        })
    }

    /// The best numbers of each row, and where they stand; backward makes a gradient of all.
    pub(crate) fn best_of_rows(&self, x: &Tensor, count: u64) -> (Tensor, Tensor) {
        let best = self.new_tensor(count, x.dtype);
        let places = self.new_tensor(count, Dtype::I64);
        if !self.is_recorded(&[x]) {
            return (best, places);
        }
        let kept = self.keep(&[&places]);
        let whole = x.count;
        let best = self.record(&[x], kept, best, move |session, grad, _| {
            vec![Some(session.new_tensor(whole, grad.dtype))]
        });
        (best, places)
    }
}
