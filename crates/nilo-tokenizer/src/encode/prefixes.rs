//! The longest token that a text begins with: a trie of all tokens, folded into one array of four bytes a node.
//!
//! The children of a node stand at its base with their byte mixed in, so that a step is one load. No two nodes have one
//! base, so a place that is taken by the right byte is taken by the right child.

use std::ops::Range;

/// No token.
pub(super) const NONE: u32 = u32::MAX;

/// A node: the byte that leads to it, two marks, and its base.
type TrieNode = u32;
const TAKEN: TrieNode = 1 << 8;
const TOKEN_ENDS: TrieNode = 1 << 9;
const BASE_SHIFT: u32 = 10;

/// Nodes whose places differ in the last byte alone.
const BLOCK: usize = 256;
/// Blocks that are looked through for room: more would take long to fill the last holes.
const OPEN_BLOCKS: usize = 16;
/// What a base can reach. Vocabularies in use have a tenth of this.
const MOST_NODES: usize = 1 << (32 - BASE_SHIFT);

/// All tokens that texts come to.
#[derive(Debug)]
pub(super) struct Prefixes {
    nodes: Vec<TrieNode>,
    root_base: u32,
    /// The token that ends at a node.
    ids: Vec<u32>,
    /// By id: the next shorter token that it begins with, and its own length.
    shorter: Vec<(u32, u32)>,
}

/// Which places and bases are free while the trie is built; a bit each.
#[derive(Default)]
struct Free {
    places: Vec<u64>,
    bases: Vec<u64>,
}

impl Prefixes {
    /// Of tokens with their ids. `None` if they would take too much memory.
    pub(super) fn new(mut tokens: Vec<(&[u8], u32)>) -> Option<Self> {
        let bytes: usize = tokens.iter().map(|(text, _)| text.len()).sum();
        if bytes > MOST_NODES / 4 {
            return None;
        }
        tokens.sort_unstable();
        let highest = tokens.iter().map(|&(_, id)| id as usize).max();
        let mut trie = Self {
            nodes: Vec::new(),
            root_base: 0,
            ids: Vec::new(),
            shorter: vec![(NONE, 0); highest.map_or(0, |id| id + 1)],
        };
        let mut free = Free::default();
        trie.add_block(&mut free);
        // Nodes without children have the base 0, so no other node may.
        clear(&mut free.bases, 0);
        // A node, the tokens that go through it, its depth, and the longest token on the way to it.
        let mut todo = vec![(None, 0..tokens.len(), 0, NONE)];
        let mut children: Vec<(u8, Range<usize>)> = Vec::new();
        while let Some((node, mut range, depth, mut token)) = todo.pop() {
            if let Some(node) = node
                && tokens[range.start].0.len() == depth
            {
                let id = tokens[range.start].1;
                trie.shorter[id as usize] = (token, depth as u32);
                trie.ids[node] = id;
                trie.nodes[node] |= TOKEN_ENDS;
                token = id;
                range.start += 1;
            }
            while range.start < range.end {
                let byte = tokens[range.start].0[depth];
                let same = |&(text, _): &(&[u8], u32)| text[depth] == byte;
                let end = range.start + tokens[range.clone()].partition_point(same);
                children.push((byte, range.start..end));
                range.start = end;
            }
            if children.is_empty() {
                continue;
            }
            let base = trie.room_for(&children, &mut free)?;
            match node {
                Some(node) => trie.nodes[node] |= (base as u32) << BASE_SHIFT,
                None => trie.root_base = base as u32,
            }
            clear(&mut free.bases, base);
            for (byte, range) in children.drain(..) {
                let child = base ^ usize::from(byte);
                clear(&mut free.places, child);
                trie.nodes[child] = u32::from(byte) | TAKEN;
                todo.push((Some(child), range, depth + 1, token));
            }
        }
        Some(trie)
    }

    /// A base that nobody has, at which every child has a free place.
    fn room_for(&mut self, children: &[(u8, Range<usize>)], free: &mut Free) -> Option<usize> {
        let first = free.places.len().saturating_sub(OPEN_BLOCKS * BLOCK / 64);
        for word in first..free.places.len() {
            let mut bits = free.places[word];
            while bits != 0 {
                let place = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let base = place ^ usize::from(children[0].0);
                let fits = |&(byte, _): &(u8, _)| is_set(&free.places, base ^ usize::from(byte));
                if is_set(&free.bases, base) && children.iter().all(fits) {
                    return Some(base);
                }
            }
        }
        let base = self.nodes.len();
        self.add_block(free);
        (self.nodes.len() <= MOST_NODES).then_some(base)
    }

    fn add_block(&mut self, free: &mut Free) {
        let size = self.nodes.len() + BLOCK;
        self.nodes.resize(size, 0);
        self.ids.resize(size, NONE);
        free.places.resize(size / 64, u64::MAX);
        free.bases.resize(size / 64, u64::MAX);
    }

    /// The longest token that a text begins with and its length; [`NONE`] if there is none.
    #[inline(always)]
    pub(super) fn longest(&self, text: &[u8]) -> (u32, usize) {
        let mut base = self.root_base;
        let (mut found, mut length) = (0, 0);
        for (index, &byte) in text.iter().enumerate() {
            let place = (base ^ u32::from(byte)) as usize;
            let node = self.nodes[place];
            if node & (TAKEN | 0xFF) != TAKEN | u32::from(byte) {
                break;
            }
            base = node >> BASE_SHIFT;
            if node & TOKEN_ENDS != 0 {
                (found, length) = (place, index + 1);
            }
        }
        if length == 0 {
            return (NONE, 0);
        }
        (self.ids[found], length)
    }

    /// The next shorter token that a token begins with, or [`NONE`].
    #[inline(always)]
    pub(super) fn shorter(&self, id: u32) -> u32 {
        self.shorter[id as usize].0
    }

    /// The length of a token in bytes.
    #[inline(always)]
    pub(super) fn length(&self, id: u32) -> usize {
        self.shorter[id as usize].1 as usize
    }
}

fn is_set(bits: &[u64], place: usize) -> bool {
    bits[place / 64] >> (place % 64) & 1 != 0
}

fn clear(bits: &mut [u64], place: usize) {
    bits[place / 64] &= !(1 << (place % 64));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_longest_token_and_all_shorter_ones_are_found(
            tokens in prop::collection::btree_set(prop::collection::vec(0_u8..4, 1..8), 0..200),
            text in prop::collection::vec(0_u8..5, 0..12),
        ) {
            let tokens: Vec<Vec<u8>> = tokens.into_iter().collect();
            let trie = Prefixes::new(tokens.iter().zip(0..).map(|(text, id)| (&text[..], id)).collect());
            let trie = trie.expect("they are few");
            let mut expected: Vec<u32> = (0..tokens.len() as u32)
                .filter(|&id| text.starts_with(&tokens[id as usize]))
                .collect();
            expected.sort_by_key(|&id| std::cmp::Reverse(tokens[id as usize].len()));
            let (mut id, length) = trie.longest(&text);
            prop_assert_eq!(length, expected.first().map_or(0, |&id| tokens[id as usize].len()));
            let mut found = Vec::new();
            while id != NONE {
                found.push(id);
                id = trie.shorter(id);
            }
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn every_token_of_two_bytes_is_found() {
        let tokens: Vec<[u8; 2]> = (0..=u16::MAX).map(u16::to_be_bytes).collect();
        let trie = Prefixes::new(
            tokens
                .iter()
                .zip(0..)
                .map(|(text, id)| (&text[..], id))
                .collect(),
        );
        let trie = trie.expect("they are few");
        for (token, id) in tokens.iter().zip(0..) {
            assert_eq!(trie.longest(token), (id, 2));
        }
        assert_eq!(trie.longest(b"x"), (NONE, 0));
    }
}
