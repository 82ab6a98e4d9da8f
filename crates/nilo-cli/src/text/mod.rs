//! Results as words and lines.

pub(crate) mod advice;
pub(crate) mod alerts;
pub(crate) mod bars;
pub(crate) mod compared;
pub(crate) mod deferred_warnings;
pub(crate) mod exception;
pub(crate) mod fresh_line;
pub(crate) mod gpus;
pub(crate) mod json;
pub(crate) mod leak;
pub(crate) mod left_running;
pub(crate) mod live_line;
pub(crate) mod number;
pub(crate) mod one_line;
pub(crate) mod oom;
pub(crate) mod optimize;
pub(crate) mod optimize_markdown;
pub(crate) mod pager;
pub(crate) mod profile;
pub(crate) mod request;
pub(crate) mod snapshot;
pub(crate) mod summary;
pub(crate) mod table;
pub(crate) mod terminal_title;
pub(crate) mod title_on_stop;
pub(crate) mod training;
