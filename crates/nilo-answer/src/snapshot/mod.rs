//! What `nilo snapshot` answers: where the bytes of a GPU memory snapshot are, why it ran out of memory, and what another setting would have done.

pub mod call_stack;
pub mod diff;
pub mod flame;
pub mod held_by;
pub mod leaks;
pub mod limit_problem;
pub mod memory_category;
pub mod page;
pub mod pinned_segments;
pub mod problem;
pub mod reserved_parts;
pub mod settings_text;
pub mod summary;
pub mod trace_place;
mod tried_settings;
pub mod whatif;
pub mod why;

pub use tried_settings::LimitRange;
