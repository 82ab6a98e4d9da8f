//! The live engine: follows a run folder while it is written, feeds forecasts and alert rules, and tells a subscriber what each look found.
//!
//! Alert delivery (`nilo run`, `nilo watch`) and the live commands (`nilo monitor`, `nilo oom --monitor`) are subscribers.
//! The engine reads what was recorded and nothing else, so it can never hold up a sample, and a finished run is judged by the same code.
//! A Python program that watches its own memory has no run folder; it brings the same rows to the same [`Judge`].

mod engine;
mod judge;
mod schedule;
mod warnings;

pub use engine::{Engine, Observation, Subscriber, Wake};
pub use judge::{FollowSettings, Judge, LeakSearch};
pub use schedule::FIRST_LEAK_SEARCH;
pub use warnings::{WarningChange, Warnings};
