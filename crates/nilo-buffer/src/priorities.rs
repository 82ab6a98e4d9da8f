//! How likely each transition is to be drawn.

use crate::error::BufferError;
use crate::sum_tree::SumTree;

/// Priorities by the place of a transition, which is its number modulo the capacity.
#[derive(Debug)]
pub(crate) struct Priorities {
    pub(crate) tree: SumTree,
    exponent: f32,
    /// The largest so far, raised to the exponent: what new transitions have, so that each is seen soon.
    most: f32,
}

impl Priorities {
    pub(crate) fn new(exponent: f32) -> Priorities {
        Priorities {
            tree: SumTree::default(),
            exponent,
            most: 1.0,
        }
    }

    pub(crate) fn add(&mut self, place: usize) {
        self.tree.set(place, self.most);
    }

    pub(crate) fn remove(&mut self, place: usize) {
        self.tree.set(place, 0.0);
    }

    pub(crate) fn set(&mut self, place: usize, priority: f32) -> Result<(), BufferError> {
        let raised = priority.powf(self.exponent);
        if !(priority > 0.0 && raised > 0.0 && raised.is_finite()) {
            return Err(BufferError::Priority(priority));
        }
        self.most = self.most.max(raised);
        self.tree.set(place, raised);
        Ok(())
    }

    /// How much a transition's loss is to count, so that drawing it more often than others does not bias: 1 for the least likely one.
    pub(crate) fn weight(&self, place: usize, beta: f32) -> f32 {
        match self.tree.least() {
            Some(least) => (self.tree.get(place) / least).powf(-beta),
            None => 1.0,
        }
    }

    pub(crate) fn most(&self) -> f32 {
        self.most
    }

    /// As a file has it: raised priorities.
    pub(crate) fn restore(
        &mut self,
        most: f32,
        raised: impl Iterator<Item = (usize, f32)>,
    ) -> Option<()> {
        let is_fine = |value: f32| value.is_finite() && value > 0.0;
        if !is_fine(most) {
            return None;
        }
        self.most = most;
        for (place, raised) in raised {
            if !is_fine(raised) {
                return None;
            }
            self.tree.set(place, raised);
        }
        Some(())
    }
}
