//! The state in which operations run, as PyTorch has it: autocast, gradients on or off, checkpoints.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use super::checkpoint::KeepPlace;
use super::graph::GraphNode;
use super::memory::{Memory, Purpose};
use super::tensor::{Dtype, Parameter, Tensor};

/// A program on a GPU that is not there.
pub struct DryRun {
    /// What it allocates.
    pub memory: Rc<Memory>,
    /// The type of `torch.autocast`, where that is on.
    pub(crate) autocast: Cell<Option<Dtype>>,
    pub(crate) is_grad_enabled: Cell<bool>,
    pub(crate) is_training: Cell<bool>,
    /// Weights that autocast has converted, by their number.
    pub(crate) converted: RefCell<BTreeMap<usize, Tensor>>,
    pub(crate) nodes: RefCell<Vec<GraphNode>>,
    pub(crate) leaves: RefCell<Vec<Rc<Parameter>>>,
    pub(crate) saving: RefCell<KeepPlace>,
}

impl DryRun {
    /// A program that allocates from this memory.
    pub fn new(memory: Rc<Memory>) -> Self {
        Self {
            memory,
            autocast: Cell::new(None),
            is_grad_enabled: Cell::new(true),
            is_training: Cell::new(true),
            converted: RefCell::new(BTreeMap::new()),
            nodes: RefCell::new(Vec::new()),
            leaves: RefCell::new(Vec::new()),
            saving: RefCell::new(KeepPlace::Here),
        }
    }

    /// A new weight.
    pub fn parameter(&self, count: u64, dtype: Dtype, is_trained: bool) -> Rc<Parameter> {
        let value = self.new_tensor_for(Purpose::Weights, count, dtype);
        self.registered(value, is_trained, None)
    }

    /// A frozen weight that is stored in fewer bits, and unpacked for each use.
    pub fn packed_parameter(&self, count: u64, bytes: u64, unpacked: Dtype) -> Rc<Parameter> {
        let storage = self.memory.allocate_for(Purpose::Weights, bytes);
        let value = Tensor {
            storage,
            count,
            dtype: unpacked,
            edge: None,
        };
        self.registered(value, false, Some(unpacked))
    }

    fn registered(
        &self,
        value: Tensor,
        is_trained: bool,
        unpacked: Option<Dtype>,
    ) -> Rc<Parameter> {
        let mut leaves = self.leaves.borrow_mut();
        let parameter = Rc::new(Parameter {
            value,
            gradient: RefCell::new(None),
            leaf: is_trained.then_some(leaves.len()),
            unpacked,
        });
        if is_trained {
            leaves.push(Rc::clone(&parameter));
        }
        parameter
    }

    /// The weights that are trained, in the order in which they were made.
    pub fn trained(&self) -> Vec<Rc<Parameter>> {
        self.leaves.borrow().clone()
    }

    /// A tensor from outside, such as a batch.
    pub fn input(&self, count: u64, dtype: Dtype) -> Tensor {
        self.new_tensor_for(Purpose::Batch, count, dtype)
    }

    /// Whether dropout is on.
    pub fn set_training(&self, is_training: bool) {
        self.is_training.set(is_training);
    }

    /// Uninitialized memory of the current part of the program.
    pub(crate) fn new_tensor(&self, count: u64, dtype: Dtype) -> Tensor {
        Tensor {
            storage: self.memory.allocate(count * dtype.bytes()),
            count,
            dtype,
            edge: None,
        }
    }

    /// Uninitialized memory for a purpose.
    pub(crate) fn new_tensor_for(&self, purpose: Purpose, count: u64, dtype: Dtype) -> Tensor {
        Tensor {
            storage: self.memory.allocate_for(purpose, count * dtype.bytes()),
            count,
            dtype,
            edge: None,
        }
    }

    /// Uninitialized memory like another tensor.
    pub(crate) fn new_like(&self, tensor: &Tensor) -> Tensor {
        self.new_tensor(tensor.count, tensor.dtype)
    }

    /// Runs a part of the forward pass, whose memory is for a purpose.
    pub fn part<T>(&self, part: Purpose, run: impl FnOnce() -> T) -> T {
        let before = self.memory.enter_part(part);
        let result = run();
        self.memory.enter_part(before);
        result
    }

    /// Runs without gradients (`torch.no_grad()`).
    pub fn without_grad<T>(&self, run: impl FnOnce() -> T) -> T {
        let before = self.is_grad_enabled.replace(false);
        let result = run();
        self.is_grad_enabled.set(before);
        result
    }

    /// Runs under `torch.autocast`, if there is a type for it. What it converted is freed at its end.
    pub fn under_autocast<T>(&self, dtype: Option<Dtype>, run: impl FnOnce() -> T) -> T {
        let before = self.autocast.replace(dtype);
        let result = run();
        self.autocast.set(before);
        if before.is_none() {
            self.forget_converted();
        }
        result
    }

    pub(crate) fn forget_converted(&self) {
        // Freed after the table can be used again.
        let converted = std::mem::take(&mut *self.converted.borrow_mut());
        // PyTorch's table gives what came last first, if not always.
        converted.into_values().rev().for_each(drop);
    }
}
