//! A long word where merges are in any order (else `linear_word.rs` is faster): its pairs wait in a heap, and neighbours are
//! linked, so that a megabyte without a space takes little more than its share.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::joins::{APART, Joins};

/// Room to work in, kept from word to word.
#[derive(Debug, Default)]
pub(super) struct LongWordScratch {
    nodes: Vec<TokenNode>,
    heap: BinaryHeap<Reverse<u64>>,
}

/// A token of the word, at the place of its first byte.
#[derive(Debug, Clone, Copy)]
struct TokenNode {
    id: u32,
    before: u32,
    behind: u32,
    /// The rank of the pair with the token behind; [`APART`] too if there is none, or if this place is no token any more.
    rank: u32,
}

/// No neighbour.
const NONE: u32 = u32::MAX;
/// Rooms larger than this are given back after a word.
const KEPT_NODES: usize = 1 << 16;

pub(super) fn encode(
    joins: &Joins,
    byte_ids: &[u32; 256],
    word: &[u8],
    room: &mut LongWordScratch,
    out: &mut Vec<u32>,
) {
    let LongWordScratch { nodes, heap } = room;
    nodes.clear();
    nodes.extend(word.iter().enumerate().map(|(place, &byte)| TokenNode {
        id: byte_ids[usize::from(byte)],
        before: (place as u32).wrapping_sub(1),
        behind: if place + 1 < word.len() {
            place as u32 + 1
        } else {
            NONE
        },
        rank: APART,
    }));
    let mut waiting = std::mem::take(heap).into_vec();
    waiting.clear();
    for place in 1..nodes.len() {
        let rank = joins.get(nodes[place - 1].id, nodes[place].id).rank;
        nodes[place - 1].rank = rank;
        if rank != APART {
            waiting.push(Reverse(waiting_key(rank, place as u32 - 1)));
        }
    }
    *heap = BinaryHeap::from(waiting);
    while let Some(Reverse(key)) = heap.pop() {
        let (rank, place) = ((key >> 32) as u32, key as u32 as usize);
        let node = nodes[place];
        if node.rank != rank {
            continue;
        }
        let right = nodes[node.behind as usize];
        nodes[node.behind as usize].rank = APART;
        nodes[place].id = joins.get(node.id, right.id).id;
        nodes[place].behind = right.behind;
        if right.behind != NONE {
            nodes[right.behind as usize].before = place as u32;
        }
        for left in [
            Some(place),
            (node.before != NONE).then_some(node.before as usize),
        ]
        .into_iter()
        .flatten()
        {
            let behind = nodes[left].behind;
            let rank = if behind == NONE {
                APART
            } else {
                joins.get(nodes[left].id, nodes[behind as usize].id).rank
            };
            nodes[left].rank = rank;
            if rank != APART {
                heap.push(Reverse(waiting_key(rank, left as u32)));
            }
        }
    }
    let mut place = 0;
    while place != NONE {
        out.push(nodes[place as usize].id);
        place = nodes[place as usize].behind;
    }
    if nodes.len() > KEPT_NODES {
        *room = LongWordScratch::default();
    }
}

/// The lowest rank first, and of one rank the leftmost.
fn waiting_key(rank: u32, place: u32) -> u64 {
    u64::from(rank) << 32 | u64::from(place)
}
