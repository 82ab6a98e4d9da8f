//! A program that watches its own memory: one process tree, read once for everybody, and the judge of the command over it.
//!
//! `monitor.rs` reads and hands the rows to every judge; `oom_watch.rs`, `alert_watch.rs` and `leak_watch.rs` are what the detectors in
//! `python/nilometer/memory/` ask, the first two through `judges.rs`; `device.rs` says which resources a device of theirs is.
//! Python drives it, on one thread: nothing here waits for Python or starts a thread.

mod alert_watch;
mod device;
mod judges;
mod leak_watch;
mod monitor;
mod oom_watch;

pub(crate) use alert_watch::AlertWatch;
pub(crate) use leak_watch::LeakWatch;
pub(crate) use monitor::{MemoryMonitor, OWN_BUDGET};
pub(crate) use oom_watch::OomWatch;
