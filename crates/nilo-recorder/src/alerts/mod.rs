//! Alerts of a run that is being recorded: who is told, and how.
//!
//! `watch.rs` is a thread that follows the run file and asks the evaluator of `nilo-analysis`; the sampling loop wakes it where that cannot wait (`alert_waker.rs`).
//! What it raises is written into the run and told in four ways, none of which can hold up sampling or the job:
//! `callback.rs` (a function of the caller, on a thread of its own), `signal.rs` (to the job's root process), and, in a process of their own (`delivery.rs`,
//! with a `delivery_queue.rs` for each), `command.rs` and `webhook.rs`. An alert that does not reach one of these two is counted in the run.

mod alert_waker;
mod callback;
mod command;
mod delivery;
mod delivery_queue;
mod message;
mod signal;
mod watch;
mod webhook;

pub use callback::{AlertCallback, AlertNotice};
pub use nilo_analysis::alerts::{AlertRules, RulesError};
pub use signal::signal_number;
pub use webhook::{WebhookError, check_webhook};

pub(crate) use alert_waker::AlertWaker;
pub(crate) use watch::AlertThread;

/// Whom to tell of what.
#[derive(Default)]
pub struct AlertSettings {
    /// What raises an alert; checked by [`AlertRules::check`].
    pub rules: AlertRules,
    /// A shell command that gets each alert as one JSON object on its standard input.
    pub command: Option<String>,
    /// An address that gets each alert by HTTP POST; checked by [`check_webhook`].
    pub webhook: Option<String>,
    /// A signal that the job's root process gets with each alert that is raised.
    pub signal: Option<i32>,
    /// A function that is called with each alert, and with trouble in telling.
    pub callback: Option<AlertCallback>,
}
