//! Results as words and lines.

pub(crate) mod live_line;
pub(crate) mod summary;
pub(crate) mod table;
