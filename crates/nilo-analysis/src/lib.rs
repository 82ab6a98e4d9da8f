//! What a recording means: pure functions over [`nilo_sample::Recording`], without files and without clocks.

pub mod compare;
pub mod ending;
pub mod rate;
pub mod summary;

pub use compare::{Comparison, compare};
pub use ending::{Aftermath, judge_ending};
pub use summary::{Summary, damage, summarize};
