//! Call stacks, each stored once: a tree whose nodes are frames, so that stacks with the same callers share them.
//!
//! A stack is known by the node of its innermost frame. Rows name it in a column called [`STACK_COLUMN`].

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// The column that names a stack, in tables that are not the user's metrics.
pub const STACK_COLUMN: &str = "stack_id";

/// The deepest stack that is kept. Frames further out are dropped: Python's own limit is 1,000, and what allocates is at the inner end.
pub const MAX_STACK_DEPTH: usize = 128;

/// A function that was called, and the line that it was at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Frame<'a> {
    /// The function; `<module>` outside of any.
    pub function: &'a str,
    /// The file as the interpreter names it.
    pub file: &'a str,
    /// The line, from 1; 0 when unknown.
    pub line: u32,
}

/// A stack of one [`StackTree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(u32);

impl StackId {
    /// Its place in the tree: parents come before their children.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// As the number that a file has for it.
    pub fn number(self) -> u32 {
        self.0
    }

    /// As a value of a row.
    pub fn value(self) -> f64 {
        f64::from(self.0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct StackNode {
    parent: Option<StackId>,
    depth: u16,
    line: u32,
    function: Box<str>,
    file: Box<str>,
}

/// Stacks, each once.
#[derive(Clone, Default)]
pub struct StackTree {
    nodes: Vec<StackNode>,
    by_content: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl StackTree {
    /// How many frames there are; ids are below it.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no stack.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The stack that a row names.
    pub fn find(&self, value: f64) -> Option<StackId> {
        let number = value as u32;
        let is_known = f64::from(number) == value && (number as usize) < self.nodes.len();
        is_known.then_some(StackId(number))
    }

    /// The stack of `parent` with one more frame, if it is known. Allocates nothing.
    pub fn child(&self, parent: Option<StackId>, frame: &Frame<'_>) -> Option<StackId> {
        let hash = self.hasher.hash_one((parent, frame));
        let found = self.by_content.find(hash, |index| {
            let node = &self.nodes[*index as usize];
            node.parent == parent && node.frame() == *frame
        });
        found.copied().map(StackId)
    }

    /// The same; a stack that is not known is added. `None` when it is too deep, or there are 2^32 of them.
    pub fn add_child(&mut self, parent: Option<StackId>, frame: &Frame<'_>) -> Option<StackId> {
        if let Some(known) = self.child(parent, frame) {
            return Some(known);
        }
        let depth = parent.map_or(0, |parent| usize::from(self.nodes[parent.index()].depth)) + 1;
        let index = u32::try_from(self.nodes.len()).ok()?;
        if depth > MAX_STACK_DEPTH {
            return None;
        }
        self.nodes.push(StackNode {
            parent,
            depth: depth as u16,
            line: frame.line,
            function: frame.function.into(),
            file: frame.file.into(),
        });
        let (nodes, hasher) = (&self.nodes, &self.hasher);
        let hash_of = |index: &u32| {
            let node = &nodes[*index as usize];
            hasher.hash_one((node.parent, &node.frame()))
        };
        self.by_content
            .insert_unique(hash_of(&index), index, hash_of);
        Some(StackId(index))
    }

    /// The innermost frame of a stack.
    pub fn frame(&self, id: StackId) -> Option<Frame<'_>> {
        Some(self.nodes.get(id.index())?.frame())
    }

    /// The stack without its innermost frame.
    pub fn parent(&self, id: StackId) -> Option<StackId> {
        self.nodes.get(id.index())?.parent
    }

    /// The frames of a stack, from the innermost out.
    pub fn frames(&self, id: StackId) -> impl Iterator<Item = Frame<'_>> {
        let known = self.nodes.get(id.index()).map(|_| id);
        std::iter::successors(known, |id| self.parent(*id)).filter_map(|id| self.frame(id))
    }

    /// Takes over every stack of another tree; says what each of them is called here.
    pub fn add_all(&mut self, other: &StackTree) -> Vec<Option<StackId>> {
        let mut renamed: Vec<Option<StackId>> = Vec::with_capacity(other.len());
        for node in &other.nodes {
            let id = match node.parent {
                None => self.add_child(None, &node.frame()),
                Some(parent) => renamed[parent.index()]
                    .and_then(|parent| self.add_child(Some(parent), &node.frame())),
            };
            renamed.push(id);
        }
        renamed
    }
}

impl StackNode {
    fn frame(&self) -> Frame<'_> {
        Frame {
            function: &self.function,
            file: &self.file,
            line: self.line,
        }
    }
}

impl PartialEq for StackTree {
    fn eq(&self, other: &StackTree) -> bool {
        self.nodes == other.nodes
    }
}

impl std::fmt::Debug for StackTree {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_list().entries(&self.nodes).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, line: u32) -> Frame<'_> {
        Frame {
            function,
            file: "train.py",
            line,
        }
    }

    fn add(tree: &mut StackTree, frames: &[Frame<'_>]) -> StackId {
        let mut id = None;
        for frame in frames {
            id = tree.add_child(id, frame);
        }
        id.unwrap()
    }

    #[test]
    fn stacks_with_the_same_callers_share_their_frames() {
        let mut tree = StackTree::default();
        let main = frame("main", 3);
        let one = add(&mut tree, &[main, frame("step", 10)]);
        let other = add(&mut tree, &[main, frame("step", 11)]);
        assert_ne!(one, other);
        assert_eq!(tree.len(), 3);
        assert_eq!(add(&mut tree, &[main, frame("step", 10)]), one);
        let frames: Vec<_> = tree.frames(other).collect();
        assert_eq!(frames, [frame("step", 11), main]);
        // The same frame below another caller is another stack.
        assert_ne!(add(&mut tree, &[frame("step", 10)]), one);
    }

    #[test]
    fn a_value_names_a_stack_only_if_it_is_one_of_its_numbers() {
        let mut tree = StackTree::default();
        let id = add(&mut tree, &[frame("main", 1)]);
        assert_eq!(tree.find(id.value()), Some(id));
        for value in [1.0, -1.0, 0.5, f64::NAN, crate::ABSENT, f64::INFINITY, 5e9] {
            assert_eq!(tree.find(value), None, "{value}");
        }
    }

    #[test]
    fn a_stack_that_is_too_deep_is_refused() {
        let mut tree = StackTree::default();
        let mut id = None;
        for line in 0..MAX_STACK_DEPTH as u32 {
            id = tree.add_child(id, &frame("f", line));
            assert!(id.is_some());
        }
        assert_eq!(tree.add_child(id, &frame("f", 9)), None);
    }

    #[test]
    fn taking_over_a_tree_keeps_every_stack() {
        let (mut one, mut other) = (StackTree::default(), StackTree::default());
        add(&mut one, &[frame("a", 1), frame("b", 2)]);
        let c = add(&mut other, &[frame("c", 1)]);
        let b = add(&mut other, &[frame("a", 1), frame("b", 2)]);
        let renamed = one.add_all(&other);
        assert_eq!(one.len(), 3);
        for id in [b, c] {
            let here = renamed[id.index()].unwrap();
            assert!(one.frames(here).eq(other.frames(id)));
        }
    }
}
