//! Checkpoints: what a region would keep for backward is dropped, and computed again when backward asks for it.
//!
//! This is `torch.utils.checkpoint` without reentrance: the region runs as usual, each tensor that an operation keeps is replaced by its number,
//! and the first number that backward looks up runs the region a second time, up to the last tensor that is kept.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::session::DryRun;
use super::tensor::{Dtype, Tensor};

type CheckpointedRegion = Rc<dyn Fn(&DryRun) -> Tensor>;

/// A region that ran under a checkpoint.
pub(crate) struct Checkpoint {
    region: CheckpointedRegion,
    autocast: Option<Dtype>,
    kept_count: Cell<usize>,
    has_run_again: Cell<bool>,
    kept: RefCell<Vec<Option<Tensor>>>,
}

/// Where operations keep tensors for backward.
#[derive(Clone)]
pub(crate) enum KeepPlace {
    /// With the operation.
    Here,
    /// Nowhere: only their number, in the first run of a region.
    Numbered(Rc<Checkpoint>),
    /// With the region, in its second run.
    Again(Rc<Checkpoint>),
}

/// What an operation keeps for backward.
pub(crate) enum Saved {
    /// A tensor.
    Tensor(Tensor),
    /// The number of a tensor of a region.
    Number(Rc<Checkpoint>, usize),
}

impl Saved {
    pub(crate) fn tensor(&self, session: &DryRun) -> Tensor {
        match self {
            Self::Tensor(tensor) => tensor.clone(),
            Self::Number(checkpoint, number) => checkpoint.tensor(session, *number),
        }
    }
}

impl Checkpoint {
    fn tensor(self: &Rc<Self>, session: &DryRun, number: usize) -> Tensor {
        if !self.has_run_again.replace(true) {
            self.run_again(session);
        }
        let kept = self.kept.borrow_mut()[number].take();
        kept.expect("backward uses each kept tensor once")
    }

    fn run_again(self: &Rc<Self>, session: &DryRun) {
        let before = session.saving.replace(KeepPlace::Again(Rc::clone(self)));
        let grad = session.is_grad_enabled.replace(true);
        let part = session.memory.part();
        session.under_autocast(self.autocast, || drop((self.region)(session)));
        session.memory.enter_part(part);
        session.memory.pause(false);
        session.is_grad_enabled.set(grad);
        session.saving.replace(before);
    }

    /// Notes a tensor of the second run; the last one ends it.
    fn keep_again(&self, session: &DryRun, tensor: &Tensor) {
        let mut kept = self.kept.borrow_mut();
        if kept.len() < self.kept_count.get() {
            kept.push(Some(tensor.detached()));
        }
        if kept.len() == self.kept_count.get() {
            session.memory.pause(true);
        }
    }
}

impl DryRun {
    /// Keeps tensors for backward, in the way of the region that runs.
    pub(crate) fn keep(&self, tensors: &[&Tensor]) -> Vec<Saved> {
        let saving = self.saving.borrow();
        let keep_one = |tensor: &&Tensor| match &*saving {
            KeepPlace::Here => Some(Saved::Tensor(tensor.detached())),
            KeepPlace::Numbered(checkpoint) => {
                let number = checkpoint.kept_count.get();
                checkpoint.kept_count.set(number + 1);
                Some(Saved::Number(Rc::clone(checkpoint), number))
            }
            KeepPlace::Again(checkpoint) => {
                if !self.memory.is_paused() {
                    checkpoint.keep_again(self, tensor);
                }
                None
            }
        };
        tensors.iter().filter_map(keep_one).collect()
    }

    /// Runs a region under a checkpoint. It may run again in backward, with what it has captured.
    pub fn checkpointed(&self, region: CheckpointedRegion) -> Tensor {
        if !self.is_grad_enabled.get() {
            return region(self);
        }
        let checkpoint = Rc::new(Checkpoint {
            region: Rc::clone(&region),
            autocast: self.autocast.get(),
            kept_count: Cell::new(0),
            has_run_again: Cell::new(false),
            kept: RefCell::new(Vec::new()),
        });
        let before = self.saving.replace(KeepPlace::Numbered(checkpoint));
        let result = region(self);
        self.saving.replace(before);
        result
    }
}
