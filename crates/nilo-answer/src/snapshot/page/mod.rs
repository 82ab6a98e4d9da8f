//! What the page of `nilo snapshot html` shows, reduced to what a screen can draw: a few megabytes whatever the number of events.

pub mod content;
pub mod flame_tree;
pub mod frame_table;
pub mod packed;
pub mod segment_map;
pub mod timeline;
