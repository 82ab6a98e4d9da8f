//! An alert as commands and webhooks get it: one JSON object, `nilo.alert/1`.

use nilo_answer::alert::AlertMessage;
use nilo_sample::{Alert, RunDescription};

/// The object on one line.
pub(crate) fn message(description: &RunDescription, run_dir: &str, alert: &Alert) -> Vec<u8> {
    let message = AlertMessage::of(description, run_dir, alert);
    let mut json = serde_json::to_vec(&message).unwrap_or_default();
    json.push(b'\n');
    json
}
