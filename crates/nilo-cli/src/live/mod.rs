//! Looking at what already runs: `nilo profile`, `nilo monitor`, and `nilo oom` and `nilo leak` of processes or of the machine.
//!
//! There is no second way to measure or to judge: `target.rs` says whom, `session.rs` lets the recorder record it as `nilo watch` does,
//! and `station.rs` follows that recording with the lookout and the watchman that alerts are made with; `voice.rs` and `level_line.rs` say what they see.
//! `gpus.rs` knows which GPUs there are.

mod gpus;
mod level_line;
mod session;
mod station;
mod target;
mod voice;

pub(crate) use gpus::why_no_gpus;
pub(crate) use session::{Seen, Session};
pub(crate) use station::{Leaks, Plan};
pub(crate) use target::{Scope, Target};
pub(crate) use voice::{Levels, Voice};
