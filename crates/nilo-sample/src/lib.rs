//! The vocabulary of Nilometer: what is measured, in which units, how a run is described and how it ended.
//!
//! Everything here is plain data.
//! Sources fill it in, the run file stores it, analysis and views read it; nothing here touches files, clocks or processes.

pub mod alert;
pub mod ending;
pub mod event;
pub mod exception;
#[cfg(feature = "fixture")]
pub mod fixture;
pub mod gpu_failure;
pub mod gpu_holder;
pub mod limit;
pub mod optimization;
pub mod printable;
pub mod process;
pub mod provenance;
pub mod recording;
pub mod redact;
pub mod rows;
pub mod run;
pub mod run_mode;
pub mod setting;
pub mod stack;
pub mod table;
pub mod typed_row;
pub mod units;
pub mod usage;
pub mod words;

pub use alert::{Alert, AlertKind, Severity};
pub use ending::{Certainty, Ending, LostRank, OomKill, ProcessStatus, RecorderDeath, RunStatus};
pub use event::{Event, TimedEvent};
pub use exception::{CodePlace, UnhandledException};
pub use gpu_failure::GpuAllocationFailure;
pub use gpu_holder::GpuHolder;
pub use limit::{Limit, LimitCounts, LimitSource};
pub use optimization::Optimization;
pub use process::{ProcessId, ProcessInfo};
pub use provenance::{GitState, Provenance};
pub use recording::{NO_STEP, RecordedRank, RecordedTable, Recording, SeriesView};
pub use run::{RunDescription, RunId, SlurmJobId};
pub use run_mode::RunMode;
pub use setting::setting_text;
pub use stack::{Frame, MAX_STACK_DEPTH, STACK_COLUMN, StackId, StackTree};
pub use table::{ABSENT, Column, ColumnKind, Subject, TableSpec, Unit, is_absent};
pub use typed_row::TypedRow;
pub use usage::ResourceUsage;
