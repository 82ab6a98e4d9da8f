//! Answers about GPU memory snapshots as words and tables.

pub(crate) mod diff;
pub(crate) mod leaks;
mod located_table;
pub(crate) mod places;
pub(crate) mod summary;
pub(crate) mod whatif;
pub(crate) mod why;
