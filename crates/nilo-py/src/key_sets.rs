//! Which table a set of names belongs to.
//!
//! Names that are logged together share a table, so a row costs eight bytes a value and its head once.
//! A training loop logs the same literal keys again and again: their objects are the same, and comparing addresses finds the table.

use std::collections::{HashMap, HashSet};

use nilo_runfile::{RunWriter, TableId};
use nilo_sample::TableSpec;
use pyo3::prelude::*;

/// More distinct names than this are refused: somebody puts values into names.
pub(crate) const MOST_NAMES: usize = 10_000;
/// A longer name is refused.
pub(crate) const LONGEST_NAME: usize = 512;
/// After this many distinct sets every further set is split into single values: sets drawn at random would never end.
const MOST_SETS: usize = 1_000;
/// Sets found by address.
const MOST_RECENT: usize = 16;
/// A wider row is split.
pub(crate) const MOST_COLUMNS: usize = 1_000;

/// A set seen lately. The keys are kept alive, so that no other object can take their addresses.
struct Recent {
    addresses: Box<[usize]>,
    _keys: Vec<Py<PyAny>>,
    table: TableId,
}

/// Every set so far.
#[derive(Default)]
pub(crate) struct KeySets {
    recent: Vec<Recent>,
    next_recent: usize,
    by_names: HashMap<Vec<String>, TableId>,
    names: HashSet<String>,
}

/// Why a name cannot be stored.
pub(crate) enum InvalidName {
    /// It is one too many.
    TooMany,
    /// It is too long.
    TooLong,
    /// It is empty.
    Empty,
}

impl KeySets {
    /// The table of a set of key objects seen lately.
    #[inline]
    pub(crate) fn find(&self, addresses: &[usize]) -> Option<TableId> {
        // Compared one by one: rows are short, and `memcmp` is a call.
        let is_same = |recent: &&Recent| {
            recent.addresses.len() == addresses.len()
                && recent.addresses.iter().zip(addresses).all(|(a, b)| a == b)
        };
        self.recent.iter().find(is_same).map(|recent| recent.table)
    }

    /// Remembers where the values of these key objects go.
    pub(crate) fn remember(&mut self, keys: Vec<Py<PyAny>>, table: TableId) {
        let recent = Recent {
            addresses: keys.iter().map(|key| key.as_ptr() as usize).collect(),
            _keys: keys,
            table,
        };
        if self.recent.len() < MOST_RECENT {
            self.recent.push(recent);
        } else {
            self.recent[self.next_recent % MOST_RECENT] = recent;
            self.next_recent += 1;
        }
    }

    /// Whether a name may be stored; it is one of the names from then on.
    pub(crate) fn admit(&mut self, name: &str) -> Result<(), InvalidName> {
        if self.names.contains(name) {
            return Ok(());
        }
        if name.is_empty() {
            return Err(InvalidName::Empty);
        }
        if name.len() > LONGEST_NAME {
            return Err(InvalidName::TooLong);
        }
        if self.names.len() >= MOST_NAMES {
            return Err(InvalidName::TooMany);
        }
        self.names.insert(name.to_owned());
        Ok(())
    }

    /// The table of these names in this order; `None` when the set should be split into single names.
    pub(crate) fn table(
        &mut self,
        group: &str,
        names: &[String],
        rank: fn() -> Option<u32>,
        writer: &mut RunWriter,
    ) -> Option<TableId> {
        if let Some(table) = self.by_names.get(names) {
            return Some(*table);
        }
        if names.len() > 1 && self.by_names.len() >= MOST_SETS {
            return None;
        }
        let mut spec = TableSpec::metrics(group, names.iter().map(String::as_str));
        spec.rank = rank();
        let table = writer.define(&spec);
        self.by_names.insert(names.to_vec(), table);
        Some(table)
    }
}
