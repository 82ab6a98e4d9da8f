//! The native half of the Python package `nilometer`: what is called in the training loop, and what reads runs back.
//!
//! Everything here converts between Python and the crates below; the public classes and their documentation lie in `python/nilometer/`.
//! Nothing here may stop the user's training: what cannot be stored is reported once through [`trouble`].

mod advice;
mod allocation_tape;
mod attachment;
mod bpe;
mod buffer;
mod checkpoint_curve;
mod defaults;
mod destination;
mod errors;
mod exceptions;
mod exit_status;
mod exporting;
mod fit;
mod flatten;
mod forecaster;
mod gpus;
mod key_sets;
mod launcher;
mod live;
mod nested;
mod number;
mod numbers;
mod pending;
mod phase_timer;
mod process_local;
mod process_memory;
mod project;
mod quick_row;
mod rank_end;
mod reader;
mod rewards;
mod run;
mod run_folder;
mod scores;
mod series;
mod shared;
mod stream;
mod termination;
mod text;
mod thread_or_task;
mod throughput;
mod tracked_metrics;
mod tracker;
mod trouble;
mod watch;

use pyo3::prelude::*;

/// The module `nilometer._native`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::advice::{check_settings, fragmentation_advice, recommendations};
    #[pymodule_export]
    use super::allocation_tape::replay_allocations;
    #[pymodule_export]
    use super::bpe::{BpeCounts, BpeModel};
    #[pymodule_export]
    use super::buffer::{PyArrayCache, PyCachedArray, PyReplayStore, memory_limit};
    #[pymodule_export]
    use super::checkpoint_curve::CheckpointCurve;
    #[pymodule_export]
    use super::defaults::{default_percents, gpu_totals};
    #[pymodule_export]
    use super::exceptions::record_exception;
    #[pymodule_export]
    use super::fit::{byte_range, fit_known_model, known_gpu, known_gpus};
    #[pymodule_export]
    use super::forecaster::{PyForecaster, is_warning, level_trend, warning_text};
    #[pymodule_export]
    use super::gpus::gpu_readings;
    #[pymodule_export]
    use super::launcher::{is_fork_of_parent, process_arguments, process_parent, process_started};
    #[pymodule_export]
    use super::live::{AlertWatch, LeakWatch, MemoryMonitor, OomWatch};
    #[pymodule_export]
    use super::stream::has_torch_memory;
    #[pymodule_export]
    const OWN_BUDGET: &str = super::live::OWN_BUDGET;
    #[pymodule_export]
    use super::numbers::Numbers;
    #[pymodule_export]
    use super::phase_timer::{PhaseBlock, PhaseTimer};
    #[pymodule_export]
    use super::process_memory::{current_rss, peak_rss, private_pages};
    #[pymodule_export]
    use super::project::{configured_interval, project_folder};
    #[pymodule_export]
    const DEFAULT_INTERVAL_SECS: f64 = super::project::DEFAULT_INTERVAL_SECS;
    #[pymodule_export]
    use super::reader::{RunReader, find_run, refuse_name};
    #[pymodule_export]
    use super::rewards::PyRewardHistory;
    #[pymodule_export]
    use super::run::Run;
    #[pymodule_export]
    use super::run_folder::{job_is_over, own_rank, run_is_abandoned, tell_own_rank};
    #[pymodule_export]
    use super::scores::PyScoreHistory;
    #[pymodule_export]
    use super::series::describe;
    #[pymodule_export]
    use super::thread_or_task::current_strand;
    #[pymodule_export]
    use super::throughput::Throughput;
    #[pymodule_export]
    use super::tracker::Tracker;
    #[pymodule_export]
    use super::watch::{GraphHook, OptimizerHook, StepWatch, WatchedCall};

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
