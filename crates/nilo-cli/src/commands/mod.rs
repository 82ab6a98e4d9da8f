//! One file for each verb; a verb is a function of its arguments and the settings.

pub(crate) mod bpe;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod export;
pub(crate) mod leak;
pub(crate) mod leak_live;
pub(crate) mod man;
pub(crate) mod mark;
pub(crate) mod monitor;
pub(crate) mod oom;
pub(crate) mod oom_live;
pub(crate) mod optimize;
pub(crate) mod plot;
pub(crate) mod profile;
pub(crate) mod prune;
pub(crate) mod ps;
pub(crate) mod ps_gpu;
pub(crate) mod request;
pub(crate) mod rm;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod show;
pub(crate) mod snapshot;
pub(crate) mod trust;
pub(crate) mod verify;
pub(crate) mod watch;
