//! Requests through the allocator model: those of a recorded trace, as it was or under other settings, and those of an estimate.

mod faithful;
mod limit;
mod requests;
mod tape;
mod waiting;
mod whatif;

pub use faithful::{FaithfulReplay, replay_faithfully};
pub use limit::{LimitEstimate, estimate_limit};
pub use tape::{TapeError, TapeEvent, TapePeaks, replay_tape};
pub use waiting::waiting_frees;
pub use whatif::{WhatIfOutcome, replay_under};
