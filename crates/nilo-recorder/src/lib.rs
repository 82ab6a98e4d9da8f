//! From sources to the run file: the sampling loop around a command ([`run_command`]) around processes that already run ([`watch_processes`]), or inside the job itself ([`record_own_process`]).
//!
//! One plain thread samples; nothing here is asynchronous.
//! The user's job is never disturbed: signals pass through, a full disk only costs samples, and the recorder's own cost is part of every recording.

mod aftermath;
pub mod alerts;
mod attach;
mod begin;
#[cfg(test)]
mod captured_job;
mod cgroup_rows;
mod changed_files;
mod command;
mod forward;
mod git_check;
mod glance;
mod gpu_rows;
mod high_water;
mod hooks;
mod host_rows;
mod ignored_processes;
mod inherited_descriptors;
mod interruptions;
mod job_cgroups;
mod job_limit;
mod launch;
mod live;
mod local_ranks;
mod open_tree;
mod own_cost;
mod own_memory;
mod own_process;
mod own_session;
mod pace;
mod privacy;
mod process_rows;
mod provenance;
mod reap;
mod recorder;
mod sentinel;
mod signals;
mod startup_code;
mod surroundings;
mod takeover;
mod wait_for_ends;
mod wakeups;

pub use aftermath::{after_the_fact, recorder_is_alive};
pub use attach::{WatchEnd, WatchOutcome, WatchSettings, watch_processes};
pub use begin::{
    CreatedFolder, RunsRoot, create_run_folder, create_run_inside, describe_run, fallback_folders,
    own_slurm_job,
};
pub use command::{CommandOutcome, CommandSettings, run_command};
pub use launch::LaunchError;
pub use live::{LiveReading, Observer};
pub use own_memory::{OwnMemory, OwnReading};
pub use own_process::{OwnRecorder, record_own_process};
pub use privacy::{
    Privacy, stored_command_line, stored_exception, stored_message, stored_settings,
};
pub use provenance::add_dirty_flag;
pub use recorder::describe_machine;
pub use takeover::{StandbyRecorder, stand_by};

use thiserror::Error;

/// Why nothing could be recorded.
#[derive(Debug, Error)]
pub enum RecorderError {
    /// The command could not be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The processes could not be read.
    #[error(transparent)]
    Source(#[from] nilo_source::SourceError),
    /// The run folder could not be written.
    #[error(transparent)]
    Runfile(#[from] nilo_runfile::RunfileError),
    /// The system refused something that the loop needs.
    #[error("could not {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}
