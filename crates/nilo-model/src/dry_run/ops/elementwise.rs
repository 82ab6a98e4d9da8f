//! Sums, products and functions of each number.

use crate::dry_run::memory::Purpose;
use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::{Dtype, Tensor};

/// A function of each number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unary {
    /// Keeps its input: SiLU, GELU as one kernel.
    OfInput,
    /// Keeps its result: ReLU, tanh, sigmoid.
    OfResult,
}

impl DryRun {
    /// In another type; the tensor itself where it has that.
    pub(crate) fn cast(&self, x: &Tensor, dtype: Dtype) -> Tensor {
        if x.dtype == dtype {
            return x.clone();
        }
        let result = self.new_tensor(x.count, dtype);
        self.passed_on(x, result)
    }

    /// A copy in memory of its own, such as one that is contiguous.
    pub(crate) fn copied(&self, x: &Tensor) -> Tensor {
        let result = self.new_like(x);
        self.passed_on(x, result)
    }

    /// A result through which the gradient flows as it is.
    fn passed_on(&self, x: &Tensor, result: Tensor) -> Tensor {
        if !self.is_recorded(&[x]) {
            return result;
        }
        let kept = self.keep(&[]);
        self.record(&[x], kept, result, |_, grad, _| vec![Some(grad.clone())])
    }

    pub(crate) fn add(&self, a: &Tensor, b: &Tensor) -> Tensor {
        let result = self.new_tensor(a.count.max(b.count), a.dtype.promoted(b.dtype));
        if !self.is_recorded(&[a, b]) {
            return result;
        }
        self.record(&[a, b], Vec::new(), result, |_, grad, _| {
            vec![Some(grad.clone()), Some(grad.clone())]
        })
    }

    pub(crate) fn add_scalar(&self, x: &Tensor) -> Tensor {
        let result = self.new_like(x);
        self.passed_on(x, result)
    }

    pub(crate) fn mul(&self, a: &Tensor, b: &Tensor) -> Tensor {
        let is_recorded = self.is_recorded(&[a, b]);
        let (a_needs, b_needs) = (a.requires_grad(), b.requires_grad());
        let kept = match (is_recorded, a_needs, b_needs) {
            (false, ..) => Vec::new(),
            (true, true, true) => self.keep(&[a, b]),
            (true, true, false) => self.keep(&[b]),
            (true, false, _) => self.keep(&[a]),
        };
        let result = self.new_tensor(a.count.max(b.count), a.dtype.promoted(b.dtype));
        if !is_recorded {
            return result;
        }
        let (a_type, b_type) = (a.dtype, b.dtype);
        self.record(&[a, b], kept, result, move |session, grad, _| {
            let product = |needs: bool, other: Dtype| {
                needs.then(|| session.new_tensor(grad.count, grad.dtype.promoted(other)))
            };
            vec![product(a_needs, b_type), product(b_needs, a_type)]
        })
    }

    pub(crate) fn mul_scalar(&self, x: &Tensor) -> Tensor {
        let result = self.new_like(x);
        self.unary_of(x, Vec::new(), result)
    }

    /// Times a number, in the same memory.
    pub(crate) fn mul_scalar_in_place(&self, x: &Tensor) -> Tensor {
        self.unary_of(x, Vec::new(), x.detached())
    }

    /// A sum in the memory of the first.
    pub(crate) fn added_in_place(&self, a: &Tensor, b: &Tensor) -> Tensor {
        let result = a.detached();
        if !self.is_recorded(&[a, b]) {
            return result;
        }
        self.record(&[a, b], Vec::new(), result, |_, grad, _| {
            vec![Some(grad.clone()), Some(grad.clone())]
        })
    }

    pub(crate) fn neg(&self, x: &Tensor) -> Tensor {
        self.mul_scalar(x)
    }

    /// The gradient has memory of its own, as large as the input.
    fn unary_of(
        &self,
        x: &Tensor,
        kept: Vec<crate::dry_run::checkpoint::Saved>,
        result: Tensor,
    ) -> Tensor {
        if !self.is_recorded(&[x]) {
            return result;
        }
        self.record(&[x], kept, result, |session, grad, _| {
            vec![Some(session.new_like(grad))]
        })
    }

    pub(crate) fn unary(&self, kind: Unary, x: &Tensor) -> Tensor {
        let is_recorded = self.is_recorded(&[x]);
        let mut kept = match is_recorded && kind == Unary::OfInput {
            true => self.keep(&[x]),
            false => Vec::new(),
        };
        let result = self.new_like(x);
        if is_recorded && kind == Unary::OfResult {
            kept = self.keep(&[&result]);
        }
        self.unary_of(x, kept, result)
    }

    /// A power, in 32 bits under autocast: backward computes it once more.
    pub(crate) fn power(&self, x: &Tensor) -> Tensor {
        let x = &match self.autocast.get() {
            Some(_) => self.cast(x, Dtype::F32),
            None => x.clone(),
        };
        let is_recorded = self.is_recorded(&[x]);
        let kept = match is_recorded {
            true => self.keep(&[x]),
            false => Vec::new(),
        };
        let result = self.new_like(x);
        if !is_recorded {
            return result;
        }
        self.record(&[x], kept, result, |session, grad, kept| {
            let power = session.new_like(&kept[0]);
            let scaled = session.new_like(&power);
            let product = session.new_like(grad);
            drop(scaled);
            drop(power);
            vec![Some(product)]
        })
    }

    /// The mean of rows of so many numbers.
    pub(crate) fn mean_of_rows(&self, x: &Tensor, width: u64) -> Tensor {
        let result = self.new_tensor(x.count / width, x.dtype);
        if !self.is_recorded(&[x]) {
            return result;
        }
        let count = x.count;
        self.record(&[x], Vec::new(), result, move |session, grad, _| {
            vec![Some(session.new_tensor(count, grad.dtype))]
        })
    }

    /// One number from all.
    pub(crate) fn mean(&self, x: &Tensor) -> Tensor {
        self.mean_of_rows(x, x.count)
    }

    pub(crate) fn rsqrt(&self, x: &Tensor) -> Tensor {
        let result = self.new_like(x);
        if !self.is_recorded(&[x]) {
            return result;
        }
        let kept = self.keep(&[&result]);
        self.record(&[x], kept, result, |session, grad, kept| {
            let scaled = session.new_like(grad);
            let cube = session.new_like(&kept[0]);
            let product = session.new_like(grad);
            drop((scaled, cube));
            vec![Some(product)]
        })
    }

    /// Sets numbers to 0 at random, in training: keeps a mask of one byte each.
    pub(crate) fn dropout(&self, x: &Tensor, probability: f64) -> Tensor {
        if probability <= 0.0 || !self.is_training.get() {
            return x.clone();
        }
        let result = self.new_like(x);
        let mask = self.new_tensor(x.count, Dtype::U8);
        if !self.is_recorded(&[x]) {
            return result;
        }
        let kept = self.keep(&[&mask]);
        drop(mask);
        self.unary_of(x, kept, result)
    }

    /// Softmax over rows, in 32 bits where that is asked for.
    pub(crate) fn softmax(&self, x: &Tensor, dtype: Dtype) -> Tensor {
        let result = self.new_tensor(x.count, dtype);
        if !self.is_recorded(&[x]) {
            return result;
        }
        let kept = self.keep(&[&result]);
        let (count, own) = (x.count, x.dtype);
        self.record(&[x], kept, result, move |session, _, _| {
            vec![Some(session.new_tensor(count, own))]
        })
    }

    /// `softmax(x, dtype=...)`: converted first, except from 16-bit floating point with a short range, for which there is a kernel.
    pub(crate) fn softmax_in(&self, x: &Tensor, dtype: Dtype) -> Tensor {
        match (x.dtype, dtype) {
            (Dtype::F16, Dtype::F32) => self.softmax(x, dtype),
            _ => self.softmax(&self.cast(x, dtype), dtype),
        }
    }

    /// A number of each row divided by that row's divisor, in the same memory; backward needs the numbers as they were.
    pub(crate) fn divided(&self, x: &Tensor, divisors: &Tensor) -> Tensor {
        let result = x.detached();
        if !self.is_recorded(&[x, divisors]) {
            return result;
        }
        let before = self.new_like(x);
        let kept = self.keep(&[&before, divisors]);
        drop(before);
        self.record(&[x, divisors], kept, result, |session, grad, kept| {
            let for_x = session.new_like(grad);
            let quotient = session.new_like(&kept[0]);
            let negative = session.new_like(grad);
            let for_divisors = session.new_like(grad);
            drop((quotient, negative));
            vec![Some(for_x), Some(for_divisors)]
        })
    }

    /// Numbers where a mask says so.
    pub(crate) fn masked(&self, x: &Tensor, mask: &Tensor) -> Tensor {
        let is_recorded = self.is_recorded(&[x]);
        let kept = match is_recorded {
            true => self.keep(&[mask]),
            false => Vec::new(),
        };
        let result = self.new_like(x);
        self.unary_of(x, kept, result)
    }

    /// What a part of the forward pass returns, with its memory counted for a purpose.
    pub(crate) fn labelled(&self, x: Tensor, purpose: Purpose) -> Tensor {
        self.memory.label(&x.storage, purpose);
        x
    }
}
