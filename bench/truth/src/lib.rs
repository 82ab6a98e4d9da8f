//! The truth harness: real process trees, their distinct pages counted exactly, and the recorded curve beside them.
//!
//! [`jobs`] are the trees, [`pages`] counts what they hold (as root, from `/proc/PID/pagemap`),
//! `freezer` stops everybody meanwhile, [`measure`] records a job with `nilo run` while counting, [`compare`] says how far the curve was off.

pub mod compare;
pub mod descendants;
mod freezer;
pub mod jobs;
mod load;
pub mod measure;
pub mod page;
pub mod pages;
pub mod region;
pub mod settings;
