//! What operations leave for backward, and backward in the order of PyTorch's engine: the latest operation whose gradients are complete is next.

use std::collections::BinaryHeap;

use super::checkpoint::Saved;
use super::memory::{Purpose, StepPhase};
use super::session::DryRun;
use super::tensor::{Parameter, Tensor};

/// Where a gradient goes, and what it must look like there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edge {
    target: Target,
    count: u64,
    dtype: super::tensor::Dtype,
}

#[derive(Debug, Clone, Copy)]
enum Target {
    /// An operation, and which of its results.
    Node(usize, usize),
    /// A parameter.
    Leaf(usize),
}

/// Gradients of the results, kept tensors, to gradients of the inputs.
type Backward = Box<dyn FnOnce(&DryRun, &[Option<Tensor>], &[Tensor]) -> Vec<Option<Tensor>>>;

/// An operation of the forward pass.
pub(crate) struct GraphNode {
    edges: Vec<Option<Edge>>,
    kept: Vec<Saved>,
    backward: Option<Backward>,
    part: Purpose,
}

impl Parameter {
    /// The weight as a tensor in the graph.
    pub fn tensor(&self) -> Tensor {
        let edge = self.leaf.map(|leaf| Edge {
            target: Target::Leaf(leaf),
            count: self.value.count,
            dtype: self.value.dtype,
        });
        Tensor {
            edge,
            ..self.value.clone()
        }
    }
}

impl DryRun {
    /// Whether an operation on these inputs is a part of the graph.
    pub(crate) fn is_recorded(&self, inputs: &[&Tensor]) -> bool {
        self.is_grad_enabled.get() && inputs.iter().any(|input| input.requires_grad())
    }

    /// Adds an operation with one result to the graph. It must be a part of it.
    pub(crate) fn record(
        &self,
        inputs: &[&Tensor],
        kept: Vec<Saved>,
        result: Tensor,
        backward: impl FnOnce(&DryRun, &Tensor, &[Tensor]) -> Vec<Option<Tensor>> + 'static,
    ) -> Tensor {
        let results =
            self.record_several(
                inputs,
                kept,
                vec![result],
                |session, grads, kept| match grads[0].as_ref() {
                    Some(grad) => backward(session, grad, kept),
                    None => Vec::new(),
                },
            );
        let [result] = results.try_into().expect("one result in, one out");
        result
    }

    /// Adds an operation with several results to the graph. It must be a part of it.
    pub(crate) fn record_several(
        &self,
        inputs: &[&Tensor],
        kept: Vec<Saved>,
        results: Vec<Tensor>,
        backward: impl FnOnce(&DryRun, &[Option<Tensor>], &[Tensor]) -> Vec<Option<Tensor>> + 'static,
    ) -> Vec<Tensor> {
        let mut nodes = self.nodes.borrow_mut();
        let number = nodes.len();
        nodes.push(GraphNode {
            edges: inputs.iter().map(|input| input.edge).collect(),
            kept,
            backward: Some(Box::new(backward)),
            part: self.memory.part(),
        });
        let with_edge = |(index, result): (usize, Tensor)| Tensor {
            edge: Some(Edge {
                target: Target::Node(number, index),
                count: result.count,
                dtype: result.dtype,
            }),
            ..result
        };
        results.into_iter().enumerate().map(with_edge).collect()
    }

    /// Computes the gradients of all parameters that a scalar depends on.
    pub fn backward(&self, loss: &Tensor) {
        let Some(edge) = loss.edge else { return };
        let before = self.memory.enter_phase(StepPhase::Backward);
        let part = self.memory.part();
        let seed = self.new_tensor_for(Purpose::Loss, loss.count, loss.dtype);
        let grad = self.is_grad_enabled.replace(false);
        BackwardPass::new(self, edge).run(edge, seed);
        self.is_grad_enabled.set(grad);
        self.nodes.borrow_mut().clear();
        self.memory.enter_part(part);
        self.memory.enter_phase(before);
    }
}

/// One backward pass.
struct BackwardPass<'a> {
    session: &'a DryRun,
    /// How many gradients each operation and parameter still waits for.
    waits: Vec<u32>,
    leaf_waits: Vec<u32>,
    buffers: Vec<Vec<Option<Tensor>>>,
    leaf_buffers: Vec<Option<Tensor>>,
    ready: BinaryHeap<usize>,
}

impl<'a> BackwardPass<'a> {
    fn new(session: &'a DryRun, root: Edge) -> Self {
        let nodes = session.nodes.borrow();
        let leaves = session.leaves.borrow().len();
        let mut waits = vec![0; nodes.len()];
        let mut leaf_waits = vec![0; leaves];
        let mut is_seen = vec![false; nodes.len()];
        let mut open = Vec::new();
        if let Target::Node(first, _) = root.target {
            is_seen[first] = true;
            open.push(first);
        }
        while let Some(number) = open.pop() {
            for edge in nodes[number].edges.iter().flatten() {
                match edge.target {
                    Target::Leaf(leaf) => leaf_waits[leaf] += 1,
                    Target::Node(next, _) => {
                        waits[next] += 1;
                        if !std::mem::replace(&mut is_seen[next], true) {
                            open.push(next);
                        }
                    }
                }
            }
        }
        let count = nodes.len();
        drop(nodes);
        Self {
            session,
            waits,
            leaf_waits,
            buffers: std::iter::repeat_with(Vec::new).take(count).collect(),
            leaf_buffers: vec![None; leaves],
            ready: BinaryHeap::new(),
        }
    }

    fn run(mut self, root: Edge, seed: Tensor) {
        if let Target::Node(first, result) = root.target {
            self.add(first, result, seed);
            self.ready.push(first);
        }
        while let Some(number) = self.ready.pop() {
            self.run_node(number);
        }
    }

    fn run_node(&mut self, number: usize) {
        let session = self.session;
        let (edges, kept, backward, part) = {
            let mut nodes = session.nodes.borrow_mut();
            let node = &mut nodes[number];
            let backward = node.backward.take();
            (
                std::mem::take(&mut node.edges),
                std::mem::take(&mut node.kept),
                backward.expect("an operation runs once in backward"),
                node.part,
            )
        };
        let gradients = std::mem::take(&mut self.buffers[number]);
        session.memory.enter_part(part);
        let unpacked: Vec<Tensor> = kept.iter().map(|saved| saved.tensor(session)).collect();
        session.memory.enter_part(part);
        let mut results = backward(session, &gradients, &unpacked);
        // What a checkpoint computed again is gone with the operation; what was kept goes after the gradients.
        drop(unpacked);
        results.resize(edges.len(), None);
        for (result, edge) in results.iter_mut().zip(&edges) {
            *result = match edge {
                Some(edge) => result.take().map(|found| fitted(session, found, edge)),
                None => None,
            };
        }
        drop(gradients);
        drop(kept);
        for (result, edge) in results.into_iter().zip(edges) {
            let Some(edge) = edge else { continue };
            match edge.target {
                Target::Leaf(leaf) => self.give_leaf(leaf, result),
                Target::Node(next, index) => self.give_node(next, index, result),
            }
        }
    }

    fn give_leaf(&mut self, leaf: usize, gradient: Option<Tensor>) {
        if let Some(gradient) = gradient {
            let sum = match self.leaf_buffers[leaf].take() {
                None => gradient,
                Some(first) => sum_of(self.session, first, gradient),
            };
            self.leaf_buffers[leaf] = Some(sum);
        }
        self.leaf_waits[leaf] -= 1;
        if self.leaf_waits[leaf] == 0
            && let Some(gradient) = self.leaf_buffers[leaf].take()
        {
            let parameter = self.session.leaves.borrow()[leaf].clone();
            accumulate(self.session, &parameter, gradient);
        }
    }

    fn give_node(&mut self, next: usize, index: usize, gradient: Option<Tensor>) {
        if let Some(gradient) = gradient {
            self.add(next, index, gradient);
        }
        self.waits[next] -= 1;
        if self.waits[next] == 0 {
            self.ready.push(next);
        }
    }

    fn add(&mut self, number: usize, index: usize, gradient: Tensor) {
        let buffer = &mut self.buffers[number];
        if buffer.len() <= index {
            buffer.resize(index + 1, None);
        }
        let sum = match buffer[index].take() {
            None => gradient,
            Some(first) => sum_of(self.session, first, gradient),
        };
        self.buffers[number][index] = Some(sum);
    }
}

/// The sum of two gradients of one tensor: in place where nobody else has the first.
fn sum_of(session: &DryRun, first: Tensor, second: Tensor) -> Tensor {
    match first.is_sole_owner() {
        true => first,
        false => {
            let sum = session.new_like(&first);
            drop(second);
            sum
        }
    }
}

/// A gradient with the shape and type of what it is the gradient of.
fn fitted(session: &DryRun, gradient: Tensor, edge: &Edge) -> Tensor {
    let reduced = match gradient.count > edge.count {
        true => session.new_tensor(edge.count, gradient.dtype),
        false => gradient,
    };
    match reduced.dtype == edge.dtype {
        true => reduced,
        false => session.new_tensor(edge.count, edge.dtype),
    }
}

fn accumulate(session: &DryRun, parameter: &Parameter, gradient: Tensor) {
    let mut own = parameter.gradient.borrow_mut();
    if own.is_some() {
        return;
    }
    let taken = match gradient.is_sole_owner() {
        true => gradient,
        false => session.new_like(&gradient),
    };
    session.memory.label(&taken.storage, Purpose::Gradients);
    *own = Some(taken.detached());
}
