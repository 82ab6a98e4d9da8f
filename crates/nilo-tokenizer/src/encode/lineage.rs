//! How each token comes about, and whether two tokens side by side would have become others.
//!
//! Words are joined by rank, the leftmost of several first. Three facts follow, for any ranks at all:
//!
//! * As long as nothing joins across the border of a region, what happens inside is what happens to that text alone.
//!   A token therefore always comes about in one way: that of its own text, its *lineage*.
//! * A list of tokens is what a word becomes if and only if each two neighbours, as a text of their own, become
//!   themselves: the first join across a border depends on the two regions beside it alone.
//! * So the tokens of a word less its last one are the tokens of that shorter text.
//!
//! Whether two neighbours become themselves is asked from the end backwards: undo whichever join at their border came
//! last, and see whether the border would have been joined before it. That needs ranks to rise along every lineage,
//! as they do in whatever was learnt. Merges written by hand may break it; [`Lineage::new`] then finds a join that
//! comes about after a later one, and returns nothing.

use std::hint::select_unpredictable;

use super::joins::Joins;
use super::last_join::LastJoin;
use super::ranks::{NEVER, RankTable};
use crate::model::{Join, Model};

/// The lineage of every token that texts come to.
#[derive(Debug)]
pub(super) struct Lineage {
    /// By id.
    makings: Box<[LastJoin]>,
    ranks: RankTable,
}

impl Lineage {
    /// `None` where ranks do not rise along a lineage, or there are more tokens than the tables are made for.
    pub(super) fn new(model: &Model, joins: &Joins) -> Option<Self> {
        // Of two merges of one pair only the last counts.
        let mut rules: Vec<Join> = model.joins().to_vec();
        rules.retain(|join| {
            let joined = joins.get(join.left, join.right);
            (joined.rank, joined.id) == (join.rank, join.joined)
        });
        rules.sort_by_key(|join| join.rank);
        let mut lineage = Self {
            makings: vec![LastJoin::default(); model.vocabulary_size()].into_boxed_slice(),
            ranks: RankTable::new(model.vocabulary_size(), &rules)?,
        };
        for rule in &rules {
            lineage.makings[rule.left as usize].note_partner(rule.right);
        }
        for id in model.byte_ids().into_iter().flatten() {
            lineage.makings[id as usize].set_byte();
        }
        let mut later = Vec::new();
        for rule in rules {
            if !lineage.comes_about(rule.left) || !lineage.comes_about(rule.right) {
                later.push(rule);
            } else if lineage.stay_apart_until_complete(rule.left, rule.right) {
                lineage.add(model, rule)?;
            }
        }
        // What is left has a part that came about after it, or never. The shortest token that such a rule makes has two
        // parts that do come about; if no rule like that is ever used, none of the others is.
        later
            .iter()
            .all(|rule| {
                !lineage.comes_about(rule.left)
                    || !lineage.comes_about(rule.right)
                    || !lineage.stay_apart_until_complete(rule.left, rule.right)
            })
            .then_some(lineage)
    }

    fn add(&mut self, model: &Model, rule: Join) -> Option<()> {
        let (left, right) = (self.making(rule.left), self.making(rule.right));
        let halves = model
            .token(rule.left)?
            .iter()
            .chain(model.token(rule.right)?);
        let rank = rule.rank + 1;
        if !halves.eq(model.token(rule.joined)?)
            || rank <= left.rank().max(right.rank())
            || self.comes_about(rule.joined)
        {
            return None;
        }
        self.makings[rule.joined as usize].set_join(rank, rule.left, rule.right);
        Some(())
    }

    #[inline(always)]
    fn making(&self, id: u32) -> LastJoin {
        self.makings[id as usize]
    }

    /// Whether any text comes to this token.
    fn comes_about(&self, id: u32) -> bool {
        self.makings[id as usize].is_known()
    }

    /// Every token that texts come to.
    pub(super) fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.makings.len() as u32).filter(|&id| self.comes_about(id))
    }

    /// Whether two tokens that come about, side by side, stay what they are.
    #[inline]
    pub(super) fn stay_apart(&self, left: u32, right: u32) -> bool {
        self.never_join(left, right, NEVER)
    }

    /// The same up to the moment at which both are complete: whether they join then is not asked.
    fn stay_apart_until_complete(&self, left: u32, right: u32) -> bool {
        self.never_join(left, right, 0)
    }

    /// Whether the two have no rank below `limit`, and what they were made of at their border had none, at each moment
    /// before, below the join that ended it.
    #[inline(always)]
    fn never_join(&self, mut left: u32, mut right: u32, mut limit: u32) -> bool {
        let (mut of_left, mut of_right) = (self.making(left), self.making(right));
        loop {
            if of_left.may_join(right) && self.ranks.get(left, right) < limit {
                return false;
            }
            // Which of the two was made last is a coin's throw, not worth a guess.
            let undo_left = of_left.rank() > of_right.rank();
            let last = select_unpredictable(undo_left, of_left, of_right);
            if last.rank() == 0 {
                return true;
            }
            // Of one rank the leftmost joins first: the border must be lower to come before a join on its left, and need
            // not be to come before one on its right.
            limit = last.rank() + u32::from(!undo_left);
            let part = select_unpredictable(undo_left, last.right(), last.left());
            let of_part = self.making(part);
            left = select_unpredictable(undo_left, part, left);
            right = select_unpredictable(undo_left, right, part);
            of_left = select_unpredictable(undo_left, of_part, of_left);
            of_right = select_unpredictable(undo_left, of_right, of_part);
        }
    }
}
