//! What every command answers: typed results, their JSON form and its schema, and the decisions that they carry.
//!
//! There is a file for each answer. Whether something is a warning, and which exit status follows, is decided here or in
//! [`nilo_analysis::assessment`], so that the command, Python and every later view say the same.
//! Some answers are made further down and only listed here: [`Summary`](nilo_analysis::Summary) (`nilo show`),
//! [`Comparison`](nilo_analysis::Comparison) (`nilo compare`).
//!
//! `docs/schema/` has the schemas ([`schemas`]). Within a version, such as `nilo.runs/1`, keys are only added.

pub mod alert;
pub mod bpe_train;
pub mod damage;
pub mod diagnosis;
pub mod fit;
pub mod gpu;
pub mod growths;
pub mod leak;
pub mod monitor;
pub mod oom;
pub mod optimize;
pub mod optimize_config;
pub mod picture;
pub mod profile;
pub mod pruned;
pub mod ps;
pub mod recording;
pub mod removed;
pub mod request;
pub mod resource_filter;
pub mod runs;
pub mod schemas;
pub mod snapshot;
pub mod verify;
