//! Candidates, the one to merge next on top.
//!
//! Counts in it may be out of date: they only ever fall, so the top one is looked up again before it is believed.
//! The standard heap cannot compare by something outside its items, which ties by text need.

use super::order::{CandidatePair, Order};

/// A binary heap ordered by an [`Order`] that is handed in each time.
#[derive(Default)]
pub(super) struct Heap(Vec<CandidatePair>);

impl Heap {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self(Vec::with_capacity(capacity))
    }

    pub(super) fn peek(&self) -> Option<CandidatePair> {
        self.0.first().copied()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn push(&mut self, candidate: CandidatePair, order: &Order<'_>) {
        let mut index = self.0.len();
        self.0.push(candidate);
        while index > 0 {
            let parent = (index - 1) / 2;
            if !order.precedes(candidate, self.0[parent]) {
                break;
            }
            self.0[index] = self.0[parent];
            index = parent;
        }
        self.0[index] = candidate;
    }

    pub(super) fn pop(&mut self, order: &Order<'_>) {
        if let Some(last) = self.0.pop()
            && !self.0.is_empty()
        {
            self.sift_down(0, last, order);
        }
    }

    /// Puts another candidate in place of the top one.
    pub(super) fn replace_top(&mut self, candidate: CandidatePair, order: &Order<'_>) {
        if !self.0.is_empty() {
            self.sift_down(0, candidate, order);
        }
    }

    /// Takes these candidates in place of all it had.
    pub(super) fn refill(
        &mut self,
        candidates: impl Iterator<Item = CandidatePair>,
        order: &Order<'_>,
    ) {
        self.0.clear();
        self.0.extend(candidates);
        for index in (0..self.0.len() / 2).rev() {
            self.sift_down(index, self.0[index], order);
        }
    }

    fn sift_down(&mut self, mut index: usize, candidate: CandidatePair, order: &Order<'_>) {
        loop {
            let mut child = 2 * index + 1;
            if child >= self.0.len() {
                break;
            }
            if child + 1 < self.0.len() && order.precedes(self.0[child + 1], self.0[child]) {
                child += 1;
            }
            if !order.precedes(self.0[child], candidate) {
                break;
            }
            self.0[index] = self.0[child];
            index = child;
        }
        self.0[index] = candidate;
    }
}
