//! Slurm's side of a job: what `sacct` says of it, and why that differs from what was recorded.

mod explain;
mod sacct;
mod sacct_cell;
mod sacct_layout;
mod sacct_tres;

pub use explain::{Account, compare_with_slurm};
pub use sacct::{SacctError, SlurmJob, SlurmStep, parse_sacct};
