//! TensorBoard: the run as an event file of scalars.
//!
//! `record` frames, `event` encodes, `scalars` says which numbers go out under which tags, `folder` puts the file in its place.
//!
//! Promises: metrics keep their names and steps, the newest attempt wins where steps were trained twice.
//! Values are `f32`, as TensorBoard stores scalars: about seven digits; JSON, CSV and Parquet have all of them.
//! What was measured by the clock has the step that was the last at that time, or seconds in a run without steps.
//! Wall times are those of the run's own clock, counted from its start.

mod event;
mod folder;
mod record;
mod scalars;

pub use folder::write_tensorboard_folder;
pub use scalars::write_tensorboard;
