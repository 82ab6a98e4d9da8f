//! What every verb that records has in common: `nilo run`, `nilo watch`, `nilo bpe train` and the live verbs.

mod failure;
mod outputs;
mod report;
mod start;

pub(crate) use failure::explain;
pub(crate) use outputs::{check_writable, open_log};
pub(crate) use report::report;
pub(crate) use start::{create_folder, describe, interval, program_name};
