//! What a recording means: pure functions over [`nilo_sample::Recording`], without files and without clocks.

mod address_limit;
pub mod alerts;
pub mod assessment;
pub mod bottleneck;
pub mod charged;
pub mod compare;
pub mod compare_training;
pub mod ending;
pub mod exceptions;
mod exhausted_limit;
mod facts;
mod failed_rank;
pub mod findings;
pub mod gpus;
mod held_of_limit;
mod json_number;
mod known_time;
mod limit_use;
mod lost_rank;
pub mod metric_history;
pub mod metrics;
pub mod oom_summary;
mod outline;
pub mod owned_cgroup;
pub mod peak;
pub mod phases;
pub mod process_peaks;
pub mod process_programs;
pub mod profile;
pub mod rate;
mod resumed;
pub mod settings;
mod shared_mappings;
mod slurm_place;
mod spans;
pub mod statistics;
pub mod step_clock;
pub mod summary;
pub mod throughput;
pub mod torch_memory;
pub mod tracking;
mod written_ending;

pub use compare::{Comparison, LabelledRun, compare, run_labels};
pub use ending::{EndingEvidence, judge_ending};
pub use failed_rank::{FailedRank, failed_rank, with_failed_rank};
pub use limit_use::LimitUse;
pub use lost_rank::with_lost_rank;
pub use metric_history::{
    Metric, MetricHistory, MetricPoint, SplitRanks, metric_group, metric_names, metrics, step_at,
};
pub use outline::{RunOutline, outline};
pub use resumed::add_resumed_metrics;
pub use slurm_place::SlurmPlace;
pub use step_clock::StepClock;
pub use summary::{ChartFigures, Summary, damage, summarize};
pub use written_ending::written_ending;
