//! The live engine: follows a run folder while it is written, feeds forecasts and alert rules, and tells a subscriber what each look found.
//!
//! Alert delivery (`nilo run`, `nilo watch`, the Python package) and the live commands (`nilo monitor`, `nilo oom --monitor`) are subscribers.
//! The engine reads what was recorded and nothing else, so it can never hold up a sample, and a finished run is judged by the same code.

mod engine;
mod schedule;

pub use engine::{Engine, FollowSettings, LeakSearch, Look, Subscriber, Wake};
