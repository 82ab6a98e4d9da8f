//! Small numbers for values that repeat: a process has a handful of streams and memory pools.

use std::hash::Hash;

use hashbrown::HashMap;

/// The two numbers of a memory pool; (0, 0) is the default one.
pub type PoolId = (u64, u64);

/// Values numbered in the order of their first use.
#[derive(Debug)]
pub struct SmallIds<T> {
    values: Vec<T>,
    ids: HashMap<T, u16>,
    last: Option<(T, u16)>,
}

impl<T> Default for SmallIds<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            ids: HashMap::new(),
            last: None,
        }
    }
}

impl<T: Copy + Eq + Hash> SmallIds<T> {
    /// The number of a value, a new one if it was never seen.
    pub(crate) fn intern(&mut self, value: T) -> Option<u16> {
        if let Some((last, id)) = self.last
            && last == value
        {
            return Some(id);
        }
        let id = match self.ids.get(&value) {
            Some(id) => *id,
            None => {
                let id = u16::try_from(self.values.len()).ok()?;
                self.values.push(value);
                self.ids.insert(value, id);
                id
            }
        };
        self.last = Some((value, id));
        Some(id)
    }

    /// The value of a number.
    pub fn get(&self, id: u16) -> Option<T> {
        self.values.get(usize::from(id)).copied()
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}
