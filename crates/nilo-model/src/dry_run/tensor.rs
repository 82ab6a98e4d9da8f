//! Tensors and parameters without data.

use std::cell::RefCell;
use std::rc::Rc;

use super::graph::Edge;
use super::memory::Storage;

/// A type of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dtype {
    /// 32-bit floating point.
    F32,
    /// 16-bit floating point with the range of 32 bits.
    Bf16,
    /// 16-bit floating point.
    F16,
    /// 64-bit integers.
    I64,
    /// One byte: truth values, masks, packed weights.
    U8,
}

impl Dtype {
    /// Bytes of a number.
    pub fn bytes(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
            Self::I64 => 8,
            Self::U8 => 1,
        }
    }

    /// What an operation on both gives.
    pub(crate) fn promoted(self, other: Self) -> Self {
        match (self, other) {
            (Self::I64 | Self::U8, float) | (float, Self::I64 | Self::U8) => float,
            (one, same) if one == same => one,
            _ => Self::F32,
        }
    }

    /// Whether it is 16-bit floating point.
    pub fn is_half(self) -> bool {
        matches!(self, Self::Bf16 | Self::F16)
    }
}

/// A tensor: a count of numbers in memory that it may share.
#[derive(Debug, Clone)]
pub struct Tensor {
    pub(crate) storage: Rc<Storage>,
    pub(crate) count: u64,
    pub(crate) dtype: Dtype,
    pub(crate) edge: Option<Edge>,
}

impl Tensor {
    /// Whether a gradient flows to it.
    pub(crate) fn requires_grad(&self) -> bool {
        self.edge.is_some()
    }

    /// The same memory without a gradient.
    pub(crate) fn detached(&self) -> Self {
        Self {
            edge: None,
            ..self.clone()
        }
    }

    /// A part of it in the same memory, through which the gradient does not flow.
    pub(crate) fn narrowed(&self, count: u64) -> Self {
        Self {
            count,
            ..self.detached()
        }
    }

    /// Whether nobody else has this memory, so that it may be changed in place.
    pub(crate) fn is_sole_owner(&self) -> bool {
        Rc::strong_count(&self.storage) == 1
    }
}

/// A weight of the model.
#[derive(Debug)]
pub struct Parameter {
    /// It is on the GPU.
    pub(crate) value: Tensor,
    /// Its gradient, from backward to `zero_grad`.
    pub(crate) gradient: RefCell<Option<Tensor>>,
    /// Its number among the parameters that are trained.
    pub(crate) leaf: Option<usize>,
    /// What is made of it before each use, where the stored form cannot be computed with.
    pub(crate) unpacked: Option<Dtype>,
}

impl Parameter {
    /// Whether it is trained.
    pub fn is_trained(&self) -> bool {
        self.leaf.is_some()
    }

    /// How many numbers it has.
    pub fn count(&self) -> u64 {
        self.value.count
    }
}
