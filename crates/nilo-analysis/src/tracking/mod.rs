//! Rows of a run go in as they were written, verdicts on everything that can run out come out.
//!
//! The same code serves a finished run (`nilo show`, `nilo oom RUN`) and one that is being followed (alerts, `nilo oom --monitor`).
//! `rows.rs` brings the rows of all tables into one order, `resources.rs` makes readings of them, `tracker.rs` keeps a forecaster for each resource (`tracked_resource.rs`),
//! `verdicts.rs` says what is to be said of all of them (`resource_verdict.rs` of one), `before_endings.rs` remembers the job as it was before its processes ended, `processes.rs` has a forecaster for each process, `own_cgroups.rs` knows what the job has in tmpfs, `program_gpu.rs` has the readings of a program that watches its own GPUs, `tear_down.rs` leaves out the moment in which a job ends, `advised_leak.rs` picks the leak that advice is given on, and `peers.rs` compares processes that do the same work.

mod advised_leak;
mod before_endings;
mod own_cgroups;
mod peers;
mod prior_runtime;
mod processes;
mod program_gpu;
mod resource_verdict;
mod resources;
mod rows;
mod tear_down;
mod tracked_resource;
mod tracker;
mod verdicts;

pub(crate) use advised_leak::was_leak_looked_for;
pub use advised_leak::{AdvisedLeak, LeakForecast, advised_leak};
pub use peers::GrowingPeer;
pub use processes::over_processes;
pub use program_gpu::ProgramGpu;
pub use resource_verdict::ResourceVerdict;
pub use resources::Resource;
pub use tear_down::{ending_began, last_fall_began};
pub use tracked_resource::RiskChange;
pub use tracker::ResourceTracker;

#[cfg(test)]
#[path = "tracker_tests/mod.rs"]
mod tests;

#[cfg(test)]
#[path = "several_cgroups_tests.rs"]
mod several_cgroups_tests;

#[cfg(test)]
#[path = "shared_memory_tests.rs"]
mod shared_memory_tests;

#[cfg(test)]
#[path = "reason_tests.rs"]
mod reason_tests;
