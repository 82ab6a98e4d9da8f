//! The stacks that a writer has named so far, and which of them the present segment declares.
//!
//! A known stack costs one look-up for each of its frames and no memory.

use nilo_sample::{Frame, MAX_STACK_DEPTH, StackId, StackTree};

use crate::stack_record::{DeclaredStack, bounded};

/// Frames that one writer keeps: with names of 60 bytes that is 10 MiB of its memory.
/// A program of a million lines that allocates has some ten thousand.
pub(crate) const MAX_FRAMES: usize = 1 << 16;
/// Bytes that their names may take, where they are longer.
const MAX_NAME_BYTES: usize = 16 << 20;

#[derive(Default)]
pub(crate) struct WrittenStacks {
    tree: StackTree,
    /// For each stack the segment that last declared it.
    declared_in: Vec<Option<u32>>,
    name_bytes: usize,
}

/// The writer has as many stacks as it keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooManyStacks;

impl WrittenStacks {
    /// The stack of these frames, from the outermost in; `None` without any.
    pub(crate) fn find_or_add(
        &mut self,
        frames: &[Frame<'_>],
    ) -> Result<Option<StackId>, TooManyStacks> {
        let outermost = frames.len().saturating_sub(MAX_STACK_DEPTH);
        let mut stack = None;
        for frame in &frames[outermost..] {
            let frame = bounded(frame);
            stack = match self.tree.child(stack, &frame) {
                Some(known) => Some(known),
                None => Some(self.add(stack, &frame)?),
            };
        }
        Ok(stack)
    }

    fn add(
        &mut self,
        parent: Option<StackId>,
        frame: &Frame<'_>,
    ) -> Result<StackId, TooManyStacks> {
        let name_bytes = self.name_bytes + frame.function.len() + frame.file.len();
        if self.tree.len() >= MAX_FRAMES || name_bytes > MAX_NAME_BYTES {
            return Err(TooManyStacks);
        }
        let added = self.tree.add_child(parent, frame).ok_or(TooManyStacks)?;
        self.name_bytes = name_bytes;
        self.declared_in.push(None);
        Ok(added)
    }

    pub(crate) fn is_declared(&self, stack: StackId, segment: u32) -> bool {
        self.declared_in[stack.index()] == Some(segment)
    }

    /// The records that a segment lacks to name a stack, the outermost frame first. With `None` they are all.
    pub(crate) fn missing_in(&self, stack: StackId, segment: Option<u32>) -> Vec<u8> {
        // What is declared has its callers declared before it.
        let is_missing = |id: &StackId| segment.is_none_or(|number| !self.is_declared(*id, number));
        let chain = std::iter::successors(Some(stack), |id| self.tree.parent(*id));
        let missing: Vec<StackId> = chain.take_while(is_missing).collect();
        let records = missing.into_iter().rev().filter_map(|id| {
            let declared = DeclaredStack {
                number: id.number(),
                parent: self.tree.parent(id).map(StackId::number),
                frame: self.tree.frame(id)?,
            };
            Some(declared.encode())
        });
        records.flatten().collect()
    }

    /// Takes note that a segment declares a stack and its callers.
    pub(crate) fn note_declared(&mut self, stack: StackId, segment: u32) {
        let mut next = Some(stack);
        while let Some(id) = next.filter(|id| !self.is_declared(*id, segment)) {
            self.declared_in[id.index()] = Some(segment);
            next = self.tree.parent(id);
        }
    }
}
