//! Which pair is merged before which, and the line below which pairs are not kept.

use super::options::TieBreak;

/// Two ids in one number: the left one in the upper half, so that numbers compare as pairs do.
pub(super) type SymbolPair = u64;

#[inline(always)]
pub(super) fn pair_of(left: u32, right: u32) -> SymbolPair {
    u64::from(left) << 32 | u64::from(right)
}

#[inline(always)]
pub(super) fn halves(pair: SymbolPair) -> (u32, u32) {
    ((pair >> 32) as u32, pair as u32)
}

/// A pair and how often it occurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CandidatePair {
    pub(super) count: u64,
    pub(super) pair: SymbolPair,
}

/// The order among candidates; it needs the texts where bytes decide.
#[derive(Clone, Copy)]
pub(super) struct Order<'a> {
    pub(super) tie_break: TieBreak,
    pub(super) texts: &'a [Box<[u8]>],
}

impl Order<'_> {
    /// Whether `first` is merged before `second`.
    #[inline]
    pub(super) fn precedes(&self, first: CandidatePair, second: CandidatePair) -> bool {
        if first.count != second.count {
            return first.count > second.count;
        }
        self.wins_tie(first.pair, second.pair)
    }

    /// The order of merging: what is merged first is less.
    pub(super) fn compare(
        &self,
        first: CandidatePair,
        second: CandidatePair,
    ) -> std::cmp::Ordering {
        if first.pair == second.pair {
            second.count.cmp(&first.count)
        } else if self.precedes(first, second) {
            std::cmp::Ordering::Less
        } else {
            std::cmp::Ordering::Greater
        }
    }

    /// Whether the pair `first` is merged before a pair `second` of the same count.
    #[inline]
    pub(super) fn wins_tie(&self, first: SymbolPair, second: SymbolPair) -> bool {
        match self.tie_break {
            TieBreak::HuggingFace => first < second,
            TieBreak::Gpt2Bytes => {
                let text = |id: u32| &*self.texts[id as usize];
                let ((a, b), (c, d)) = (halves(first), halves(second));
                (text(a), text(b)) > (text(c), text(d))
            }
        }
    }
}

/// Pairs at or above this line are known with their exact counts and all their places; below it nothing is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cutoff {
    /// The lowest count that is kept.
    pub(super) count: u64,
    /// Among pairs of exactly that count, the last in the order of ties that is kept; `None`: all are.
    pub(super) last: Option<SymbolPair>,
}

impl Cutoff {
    pub(super) fn at(count: u64) -> Self {
        Self { count, last: None }
    }

    #[inline]
    pub(super) fn keeps(&self, candidate: CandidatePair, order: &Order<'_>) -> bool {
        candidate.count > self.count
            || candidate.count == self.count
                && self
                    .last
                    .is_none_or(|last| !order.wins_tie(last, candidate.pair))
    }

    /// Raises the line just enough that a pair of this count lies below it.
    pub(super) fn raise_above(&mut self, count: u64) {
        if count >= self.count {
            *self = Self::at(count + 1);
        }
    }
}
