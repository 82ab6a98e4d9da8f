//! The settings of a user and of a project, for the command and for Python alike.
//!
//! Later ones win: the user's own file (`$XDG_CONFIG_HOME/nilo/config.toml`), then the file that `NILO_CONFIG` names,
//! or else the nearest `nilo.toml` in this folder and its parents.
//! Flags and other `NILO_*` variables win over all of them.
//!
//! A found file may come from anybody: a cloned repository, a shared parent folder.
//! So it is opened once and looked at through its descriptor (`file.rs`), and what could do harm
//! (commands, addresses, signals, folders) counts only after the user has approved that file with that content (`approvals.rs`).

mod approvals;
mod contents;
mod file;
mod load;

pub use approvals::Approvals;
pub use contents::{
    AlertTable, DEFAULT_INTERVAL_NANOS, KNOWN_ALERTS, Settings, UnknownWord, parse_interval,
};
pub use file::{SettingsFile, UntrustedFile, read_found, read_linked_root};
pub use load::{Loaded, NOTICE_GIVEN, SettingsError, default_root, load, nearest, parse};
