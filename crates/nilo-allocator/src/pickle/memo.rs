//! What the pickle stored under a number. Both writers count up from zero; a file that jumps ahead pays for what it stores, not for the gap.

use hashbrown::HashMap;

use super::value::PickleValue;

#[derive(Default)]
pub(crate) struct PickleMemo {
    dense: Vec<PickleValue>,
    sparse: HashMap<u32, PickleValue>,
}

impl PickleMemo {
    /// Stores under the next number, as MEMOIZE does.
    #[inline]
    pub(crate) fn push(&mut self, value: PickleValue) {
        if self.sparse.is_empty() {
            self.dense.push(value);
        } else {
            let next = self.dense.len() + self.sparse.len();
            self.put(next as u32, value);
        }
    }

    #[inline]
    pub(crate) fn put(&mut self, index: u32, value: PickleValue) {
        let place = index as usize;
        if place == self.dense.len() && self.sparse.is_empty() {
            self.dense.push(value);
        } else if let Some(slot) = self.dense.get_mut(place) {
            *slot = value;
        } else {
            self.sparse.insert(index, value);
        }
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<PickleValue> {
        match self.dense.get(index as usize) {
            Some(value) => Some(*value),
            None => self.sparse.get(&index).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::value::PickleKind;
    use super::*;

    #[test]
    fn a_far_index_costs_one_entry() {
        let mut memo = PickleMemo::default();
        let value = |number| PickleValue::new(PickleKind::Int(number));
        memo.put(0, value(0));
        memo.put(u32::MAX, value(1));
        memo.put(1, value(2));
        memo.push(value(3));
        assert_eq!(memo.dense.len(), 1);
        assert_eq!(memo.get(u32::MAX), Some(value(1)));
        assert_eq!(memo.get(1), Some(value(2)));
        assert_eq!(
            memo.get(3),
            Some(value(3)),
            "MEMOIZE takes the number of entries so far"
        );
        assert_eq!(memo.get(2), None);
    }
}
