//! A recorded trace through the allocator model: as it was recorded, or under other settings.

mod faithful;
mod limit;
mod requests;
mod whatif;

pub use faithful::{FaithfulReplay, replay_faithfully};
pub use limit::{LimitEstimate, estimate_limit};
pub use whatif::{WhatIfOutcome, replay_under};
