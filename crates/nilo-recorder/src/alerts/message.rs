//! An alert as commands and webhooks get it: one JSON object, `nilo.alert/1`.

use nilo_sample::{Alert, RunDescription};
use serde::Serialize;

#[derive(Serialize)]
struct Message<'a> {
    schema: &'static str,
    run: String,
    name: Option<&'a str>,
    host: &'a str,
    run_dir: &'a str,
    root_pids: &'a [u32],
    unix_nanos: u64,
    #[serde(flatten)]
    alert: &'a Alert,
}

/// The object on one line.
pub(crate) fn message(description: &RunDescription, run_dir: &str, alert: &Alert) -> Vec<u8> {
    let message = Message {
        schema: "nilo.alert/1",
        run: description.id.to_string(),
        name: description.name.as_deref(),
        host: &description.host,
        run_dir,
        root_pids: &description.root_pids,
        unix_nanos: description.started_unix_nanos + alert.time_nanos,
        alert,
    };
    let mut json = serde_json::to_vec(&message).unwrap_or_default();
    json.push(b'\n');
    json
}
