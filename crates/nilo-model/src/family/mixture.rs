//! A mixture of experts: a router that gives each token some of them, the experts, and a part that all tokens have.

use super::build::{Build, Place};
use super::feed_forward::Gated;
use super::shape::{Activation, MixtureShape, RouterKind};
use crate::dry_run::ops::elementwise::Unary;
use crate::dry_run::ops::experts::{ExpertWeight, Experts};
use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::{Dtype, Tensor};

#[derive(Debug)]
pub(crate) struct Mixture {
    router: ExpertWeight,
    kind: RouterKind,
    experts: Experts,
    shared: Option<Gated>,
}

impl Mixture {
    pub(crate) fn new(build: &Build<'_>, shape: &MixtureShape, hidden: u64) -> Self {
        let (experts, width) = (shape.experts, shape.width);
        let experts = Experts {
            gate_and_up: build.expert_weight([experts, 2 * width, hidden], 2),
            down: build.expert_weight([experts, hidden, width], 1),
            count: experts,
            per_token: shape.per_token,
            hidden,
            width,
        };
        let router = build.expert_weight([1, shape.experts, hidden], 1);
        let linear = |inputs, outputs| build.linear(inputs, outputs, false, Place::BesideExperts);
        Self {
            router,
            kind: shape.router,
            experts,
            shared: (shape.shared_width > 0)
                .then(|| Gated::new(linear, hidden, shape.shared_width)),
        }
    }

    pub(crate) fn forward(&self, s: &DryRun, x: &Tensor, activation: Activation) -> Tensor {
        // The scores of all experts stand until the experts are done.
        let routed = self.routed(s, x);
        let result = s.experts(&self.experts, x, &routed.weights, &routed.chosen);
        match &self.shared {
            None => result,
            Some(shared) => {
                let shared = shared.forward(s, x, activation);
                let sum = s.add(&result, &shared);
                drop(shared);
                drop(result);
                sum
            }
        }
    }

    fn routed(&self, s: &DryRun, x: &Tensor) -> Routed {
        let count = self.experts.count;
        match self.kind {
            RouterKind::Softmax {
                is_narrowed,
                is_normalized,
            } => {
                let logits = self.scores(s, x, x.dtype);
                let scores = {
                    let wide = s.cast(&logits, Dtype::F32);
                    s.softmax(&wide, Dtype::F32)
                };
                let (mut weights, chosen) = self.best(s, &scores);
                if is_normalized {
                    weights = self.normalized(s, &weights);
                }
                if is_narrowed {
                    weights = s.cast(&weights, logits.dtype);
                }
                Routed {
                    weights,
                    chosen,
                    _logits: logits,
                }
            }
            RouterKind::WideSoftmax { groups } => {
                let logits = self.scores(s, x, Dtype::F32);
                let scores = {
                    let wide = s.cast(&logits, Dtype::F32);
                    s.softmax(&wide, Dtype::F32)
                };
                let masked = match groups {
                    1 => scores.clone(),
                    _ => {
                        let choice = self.group_choice(s, &scores, groups);
                        s.masked(&scores, &choice.mask)
                    }
                };
                let (best, chosen) = self.best(s, &masked);
                let weights = s.mul_scalar(&best);
                Routed {
                    weights,
                    chosen,
                    _logits: logits,
                }
            }
            RouterKind::WideSigmoid {
                groups,
                is_normalized,
            } => {
                let logits = self.scores(s, x, Dtype::F32);
                let scores = s.unary(Unary::OfResult, &logits);
                let (chosen, names) = s.without_grad(|| {
                    let shifted = s.new_tensor(scores.count, Dtype::F32);
                    let choice = self.group_choice(s, &shifted, groups);
                    let masked = s.masked(&shifted, &choice.mask);
                    drop(shifted);
                    (self.best(s, &masked).1, (masked, choice))
                });
                let rows = scores.count / count;
                let mut weights = s.gathered(&scores, &chosen, rows * self.experts.per_token);
                if is_normalized {
                    weights = self.normalized(s, &weights);
                }
                let weights = s.mul_scalar(&weights);
                drop(names);
                Routed {
                    weights,
                    chosen,
                    _logits: logits,
                }
            }
        }
    }

    /// The scores of all experts.
    fn scores(&self, s: &DryRun, x: &Tensor, dtype: Dtype) -> Tensor {
        let sizes = [self.experts.hidden, self.experts.count];
        let weight = &self.router.weight;
        match self.router.adapter.is_none() && weight.value.dtype == dtype {
            true => s.product(&s.cast(x, dtype), weight, None, sizes[0], sizes[1]),
            false => s.product_with(x, &s.merged(&self.router), dtype, sizes),
        }
    }

    /// The best experts of each token.
    fn best(&self, s: &DryRun, scores: &Tensor) -> (Tensor, Tensor) {
        let rows = scores.count / self.experts.count;
        s.best_of_rows(scores, rows * self.experts.per_token)
    }

    /// Weights divided by their sum.
    fn normalized(&self, s: &DryRun, weights: &Tensor) -> Tensor {
        let sums = s.summed_over(weights, self.experts.per_token);
        s.divided(weights, &sums)
    }

    /// Which experts are in the best groups.
    fn group_choice(&self, s: &DryRun, scores: &Tensor, groups: u64) -> GroupChoice {
        s.without_grad(|| {
            let rows = scores.count / self.experts.count;
            let of_groups = || s.new_tensor(rows * groups, scores.dtype);
            let group_scores = match self.kind {
                // The sum of the two best of a group, or the best one.
                RouterKind::WideSigmoid { .. } => {
                    let best = s.new_tensor(2 * rows * groups, scores.dtype);
                    let places = s.new_tensor(2 * rows * groups, Dtype::I64);
                    drop(places);
                    let sums = of_groups();
                    drop(best);
                    sums
                }
                _ => of_groups(),
            };
            let best = of_groups();
            let places = s.new_tensor(rows * groups, Dtype::I64);
            drop(best);
            let group_mask = of_groups();
            let score_mask = s.new_like(scores);
            let truths = s.new_tensor(scores.count, Dtype::U8);
            let mask = s.new_tensor(scores.count, Dtype::U8);
            drop(truths);
            GroupChoice {
                mask,
                _names: [group_scores, places, group_mask, score_mask],
            }
        })
    }
}

/// Which experts may be chosen, and what the names of the router's function hold up to its end.
struct GroupChoice {
    mask: Tensor,
    _names: [Tensor; 4],
}

/// What a router says: the experts of each token and their weights.
struct Routed {
    _logits: Tensor,
    weights: Tensor,
    chosen: Tensor,
}
