//! From traces and predictors to figures.
//!
//! [`replay`] plays one trace to one predictor, [`trace_score`] compares what it said with what happened, [`total`] sums
//! that up over traces, [`cost`] measures what a judgement costs.

pub mod cost;
pub mod replay;
pub mod total;
pub mod trace_score;

pub use replay::replay;
pub use total::Total;
pub use trace_score::{TraceScore, score};
