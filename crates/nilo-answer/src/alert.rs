//! An alert as commands and webhooks get it.

use nilo_sample::{Alert, RunDescription};
use schemars::JsonSchema;
use serde::Serialize;

/// The value of [`AlertMessage::schema`].
pub const ALERT_SCHEMA: &str = "nilo.alert/1";

/// An alert with the run that it is about.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct AlertMessage {
    /// `nilo.alert/1`.
    #[schemars(extend("const" = ALERT_SCHEMA))]
    pub schema: &'static str,
    /// Run id.
    pub run: String,
    /// The user's name for it.
    pub name: Option<String>,
    /// The machine.
    pub host: String,
    /// The run's folder.
    pub run_dir: String,
    /// The PIDs at the root of the recorded tree.
    pub root_pids: Vec<u32>,
    /// When, in nanoseconds since 1970.
    pub unix_nanos: u64,
    /// What is raised or cleared.
    #[serde(flatten)]
    pub alert: Alert,
}

impl AlertMessage {
    /// The message for an alert of a run.
    pub fn of(description: &RunDescription, run_dir: &str, alert: &Alert) -> AlertMessage {
        AlertMessage {
            schema: ALERT_SCHEMA,
            run: description.id.to_string(),
            name: description.name.clone(),
            host: description.host.clone(),
            run_dir: run_dir.to_owned(),
            root_pids: description.root_pids.clone(),
            unix_nanos: description.started_unix_nanos + alert.time_nanos,
            alert: alert.clone(),
        }
    }
}
