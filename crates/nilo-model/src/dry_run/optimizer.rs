//! Optimizers: what they keep for each weight, and what a step takes for a moment.

use std::rc::Rc;

use super::memory::{Purpose, StepPhase};
use super::session::DryRun;
use super::tensor::{Dtype, Parameter, Tensor};

/// A way to change weights by their gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Optimizer {
    /// AdamW on all weights at once, PyTorch's default on a GPU.
    #[default]
    AdamW,
    /// AdamW in one kernel, without temporaries.
    AdamWFused,
    /// AdamW on one weight after the other.
    AdamWForLoop,
    /// AdamW with state in 8 bits (bitsandbytes).
    AdamW8bit,
    /// Gradient descent.
    Sgd,
    /// Gradient descent with momentum.
    SgdMomentum,
    /// Adafactor: sums of rows and columns instead of a second moment.
    Adafactor,
    /// Lion: one moment.
    Lion,
    /// Muon for matrices, which are made orthogonal, and AdamW for the rest.
    Muon,
}

/// bitsandbytes leaves smaller tensors in 32 bits.
const EIGHT_BIT_LEAST_COUNT: u64 = 4096;
/// It has one scale for so many numbers.
const EIGHT_BIT_BLOCK: u64 = 256;

/// The optimizer of a training, with what it keeps.
pub struct OptimizerState {
    optimizer: Optimizer,
    parameters: Vec<(Rc<Parameter>, Shape)>,
    kept: Vec<Tensor>,
}

/// What matters of the shape of a weight: vectors have one row.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// How many matrices it is a stack of.
    pub matrices: u64,
    /// Rows of each.
    pub rows: u64,
}

impl OptimizerState {
    /// An optimizer that has not made a step yet.
    pub fn new(optimizer: Optimizer, parameters: Vec<(Rc<Parameter>, Shape)>) -> Self {
        Self {
            optimizer,
            parameters,
            kept: Vec::new(),
        }
    }

    /// One step: the first makes the state.
    pub fn step(&mut self, session: &DryRun) {
        let before = session.memory.enter_phase(StepPhase::Optimizer);
        let is_first = self.kept.is_empty();
        if self.optimizer == Optimizer::Muon {
            self.step_in_parts(session, is_first);
        } else {
            if is_first {
                self.make_state(session, |_| true);
            }
            match self.optimizer {
                Optimizer::AdamW => self.roots(session, |_| true),
                Optimizer::AdamWForLoop => self.roots_one_by_one(session),
                Optimizer::Adafactor => self.estimates_one_by_one(session),
                Optimizer::Lion => self.updates_one_by_one(session),
                Optimizer::Muon
                | Optimizer::AdamWFused
                | Optimizer::AdamW8bit
                | Optimizer::Sgd
                | Optimizer::SgdMomentum => (),
            }
        }
        session.memory.enter_phase(before);
    }

    /// `zero_grad()`: gradients are freed.
    pub fn zero_grad(&self) {
        for (parameter, _) in &self.parameters {
            drop(parameter.gradient.borrow_mut().take());
        }
    }

    /// Muon steps with matrices, then AdamW with the rest.
    fn step_in_parts(&mut self, session: &DryRun, is_first: bool) {
        if is_first {
            self.make_state(session, Shape::is_matrix);
        }
        self.orthogonalize(session);
        if is_first {
            self.make_state(session, |shape| !shape.is_matrix());
        }
        self.roots(session, |shape| !shape.is_matrix());
    }

    fn make_state(&mut self, session: &DryRun, of: impl Fn(Shape) -> bool) {
        for (parameter, shape) in self.parameters.iter().filter(|(_, shape)| of(*shape)) {
            let (count, dtype) = (parameter.count(), parameter.value.dtype);
            for (count, dtype) in self.optimizer.state_of(count, dtype, *shape) {
                let tensor = session.new_tensor_for(Purpose::OptimizerState, count, dtype);
                self.kept.push(tensor);
            }
        }
    }

    /// The square roots of second moments, all at once.
    fn roots(&self, session: &DryRun, of: impl Fn(Shape) -> bool) {
        let parameters = self.parameters.iter().filter(|(_, shape)| of(*shape));
        let mut roots: Vec<Tensor> = parameters
            .filter(|(parameter, _)| parameter.gradient.borrow().is_some())
            .map(|(parameter, _)| session.new_like(&parameter.value))
            .collect();
        // A list frees its last first.
        while let Some(root) = roots.pop() {
            drop(root);
        }
    }

    /// The square root of a second moment, and that divided. A name of the loop holds the last one until the next is there.
    fn roots_one_by_one(&self, session: &DryRun) {
        let mut divided = None;
        for (parameter, _) in &self.parameters {
            let root = session.new_like(&parameter.value);
            let next = session.new_like(&parameter.value);
            drop(root);
            divided = Some(next);
        }
        drop(divided);
    }

    /// The second moment as the product of its rows and columns. A name of the loop holds the last one until the next is there.
    fn estimates_one_by_one(&self, session: &DryRun) {
        let mut names = None;
        for (parameter, shape) in &self.parameters {
            let dtype = parameter.value.dtype;
            let is_vector = shape.matrices * shape.rows == 1;
            let (rows, columns) = shape.sums_of(parameter.count());
            let sums = match is_vector {
                true => [
                    session.new_like(&parameter.value),
                    session.new_tensor(0, dtype),
                ],
                false => {
                    session.memory.multiply();
                    [rows, columns].map(|count| session.new_tensor(count, dtype))
                }
            };
            names = Some((session.new_like(&parameter.value), sums));
        }
        drop(names);
    }

    /// The interpolated moment and its sign, as in Lion's reference.
    fn updates_one_by_one(&self, session: &DryRun) {
        for (parameter, _) in &self.parameters {
            let moment = session.new_like(&parameter.value);
            let update = session.new_like(&parameter.value);
            drop(moment);
            drop(update);
        }
    }

    /// Newton-Schulz iterations in 16 bits, as in `torch.optim.Muon`.
    fn orthogonalize(&self, session: &DryRun) {
        let mut last = None;
        let matrices = self
            .parameters
            .iter()
            .filter(|(_, shape)| shape.is_matrix());
        for (parameter, shape) in matrices {
            let count = parameter.count();
            let short = shape.rows.min(count / shape.rows);
            let update = session.new_like(&parameter.value);
            drop(last.take());
            let mut matrix = session.new_tensor(count, Dtype::Bf16);
            let mut names = None;
            for _ in 0..NEWTON_SCHULZ_STEPS {
                session.memory.multiply();
                let square = || session.new_tensor(short * short, Dtype::Bf16);
                // The names of the step before hold their matrices until these are there.
                let (gram, polynomial) = match names.take() {
                    None => (square(), square()),
                    Some((old_gram, old_polynomial)) => {
                        let gram = square();
                        drop(old_gram);
                        let polynomial = square();
                        drop(old_polynomial);
                        (gram, polynomial)
                    }
                };
                matrix = session.new_tensor(count, Dtype::Bf16);
                names = Some((gram, polynomial));
            }
            drop(names);
            drop(update);
            last = Some(matrix);
        }
        drop(last);
    }
}

/// Steps of `torch.optim.Muon` by default.
const NEWTON_SCHULZ_STEPS: usize = 5;

impl Shape {
    /// A matrix by itself, and not a vector or a stack of matrices.
    fn is_matrix(self) -> bool {
        self.matrices == 1 && self.rows > 1
    }

    /// How many sums of rows and of columns a weight of so many numbers has.
    fn sums_of(self, count: u64) -> (u64, u64) {
        let rows = self.matrices * self.rows;
        (rows, self.matrices * (count / rows))
    }
}

impl Optimizer {
    /// What is kept for a weight.
    fn state_of(self, count: u64, dtype: Dtype, shape: Shape) -> Vec<(u64, Dtype)> {
        match self {
            Self::AdamW | Self::AdamWFused | Self::AdamWForLoop => vec![(count, dtype); 2],
            Self::AdamW8bit if count < EIGHT_BIT_LEAST_COUNT => vec![(count, Dtype::F32); 2],
            Self::AdamW8bit => {
                let scales = count.div_ceil(EIGHT_BIT_BLOCK);
                vec![
                    (count, Dtype::U8),
                    (count, Dtype::U8),
                    (scales, Dtype::F32),
                    (scales, Dtype::F32),
                ]
            }
            Self::SgdMomentum | Self::Lion => vec![(count, dtype)],
            Self::Adafactor if shape.matrices * shape.rows > 1 => {
                let (rows, columns) = shape.sums_of(count);
                vec![(rows, dtype), (columns, dtype)]
            }
            Self::Adafactor => vec![(count, dtype)],
            Self::Muon if shape.is_matrix() => vec![(count, dtype)],
            Self::Muon => vec![(count, dtype); 2],
            Self::Sgd => Vec::new(),
        }
    }
}
