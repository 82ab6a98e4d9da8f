//! A program's setting (hyperparameter) as people write it.

use serde_json::Value;

/// Texts without their quotes, everything else as in JSON.
pub fn setting_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
