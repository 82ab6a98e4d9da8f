//! Frames and call stacks, stored once.
//!
//! The list of frames of an allocation is written anew for each allocation, though a program allocates from a few thousand places.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// The number of no stack: history without contexts, or an empty list of frames.
pub const NO_STACK: u32 = u32::MAX;

/// One function in a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CodeFrame {
    /// The file, a text of the snapshot.
    pub filename: u32,
    /// The function, a text of the snapshot.
    pub name: u32,
    /// The line, 0 where it is unknown.
    pub line: u32,
}

/// All frames and stacks of a snapshot.
#[derive(Debug, Default)]
pub struct CallStacks {
    frames: Vec<CodeFrame>,
    frame_index: HashTable<u32>,
    /// The frames of all stacks, one after another.
    stack_frames: Vec<u32>,
    stack_ends: Vec<usize>,
    stack_index: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl CallStacks {
    pub(crate) fn intern_frame(&mut self, frame: CodeFrame) -> Option<u32> {
        let hash = self.hasher.hash_one(frame);
        let frames = &self.frames;
        if let Some(id) = self
            .frame_index
            .find(hash, |id| frames[*id as usize] == frame)
        {
            return Some(*id);
        }
        let id = u32::try_from(frames.len()).ok()?;
        let hasher = &self.hasher;
        self.frame_index
            .insert_unique(hash, id, |id| hasher.hash_one(frames[*id as usize]));
        self.frames.push(frame);
        Some(id)
    }

    pub(crate) fn intern_stack(&mut self, stack: &[u32]) -> Option<u32> {
        if stack.is_empty() {
            return Some(NO_STACK);
        }
        let hash = self.hasher.hash_one(stack);
        let (all, ends) = (&self.stack_frames, &self.stack_ends);
        if let Some(id) = self
            .stack_index
            .find(hash, |id| stack_at(all, ends, *id) == stack)
        {
            return Some(*id);
        }
        let id = u32::try_from(ends.len())
            .ok()
            .filter(|id| *id != NO_STACK)?;
        let hasher = &self.hasher;
        self.stack_index
            .insert_unique(hash, id, |id| hasher.hash_one(stack_at(all, ends, *id)));
        self.stack_frames.extend_from_slice(stack);
        self.stack_ends.push(self.stack_frames.len());
        Some(id)
    }

    /// The frames of a stack, innermost first; none of [`NO_STACK`].
    pub fn stack(&self, id: u32) -> impl DoubleEndedIterator<Item = CodeFrame> + '_ {
        self.frame_ids(id)
            .iter()
            .map(|frame| self.frames[*frame as usize])
    }

    pub(crate) fn frame_ids(&self, id: u32) -> &[u32] {
        if (id as usize) < self.stack_ends.len() {
            stack_at(&self.stack_frames, &self.stack_ends, id)
        } else {
            &[]
        }
    }

    /// How many different stacks there are.
    pub fn stack_count(&self) -> usize {
        self.stack_ends.len()
    }
}

fn stack_at<'a>(frames: &'a [u32], ends: &[usize], id: u32) -> &'a [u32] {
    let id = id as usize;
    let start = if id == 0 { 0 } else { ends[id - 1] };
    &frames[start..ends[id]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_stacks_have_one_number() {
        let mut stacks = CallStacks::default();
        let frame = |line| CodeFrame {
            filename: 1,
            name: 2,
            line,
        };
        let first = stacks.intern_frame(frame(1)).unwrap();
        let second = stacks.intern_frame(frame(2)).unwrap();
        assert_eq!(stacks.intern_frame(frame(1)), Some(first));
        let inner = stacks.intern_stack(&[first, second]).unwrap();
        let outer = stacks.intern_stack(&[second]).unwrap();
        assert_ne!(inner, outer);
        assert_eq!(stacks.intern_stack(&[first, second]), Some(inner));
        assert_eq!(stacks.intern_stack(&[]), Some(NO_STACK));
        assert_eq!(
            stacks
                .stack(inner)
                .map(|frame| frame.line)
                .collect::<Vec<_>>(),
            [1, 2]
        );
        assert_eq!(stacks.stack(NO_STACK).count(), 0);
    }
}
