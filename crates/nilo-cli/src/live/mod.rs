//! Looking at what already runs: `nilo profile`, `nilo monitor`, and `nilo oom` and `nilo leak` of processes or of the machine.
//!
//! There is no second way to measure or to judge: `target.rs` says whom, `session.rs` lets the recorder record it as `nilo watch` does,
//! and `monitor.rs` follows that recording with the tracker and the evaluator that alerts are made with; `reporter.rs` and `level_line.rs` say what they see.
//! `gpus.rs` knows which GPUs there are.

mod gpus;
mod level_line;
mod monitor;
mod reporter;
mod session;
mod target;

pub(crate) use gpus::read_gpus;
pub(crate) use monitor::{LeakThreshold, MonitorSettings};
pub(crate) use reporter::{LevelDisplay, Reporter, write_end};
pub(crate) use session::{Session, WatchedSession};
pub(crate) use target::WatchTarget;
