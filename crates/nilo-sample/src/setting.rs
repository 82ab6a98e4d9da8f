//! A program's setting (hyperparameter) as people write it.

use serde_json::Value;

/// Texts without their quotes, unless they would look like a number or another value; everything else as in JSON.
pub fn setting_text(value: &Value) -> String {
    match value {
        Value::String(text) if !looks_like_another_value(text) => text.clone(),
        other => other.to_string(),
    }
}

fn looks_like_another_value(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|value| !value.is_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_text_that_looks_like_a_number_keeps_its_quotes() {
        for (value, text) in [
            (json!(0.1), "0.1"),
            (json!("0.1"), "\"0.1\""),
            (json!("true"), "\"true\""),
            (json!("null"), "\"null\""),
            (json!("adam"), "adam"),
            (json!("1e-3 then 0"), "1e-3 then 0"),
            (json!([1, "a"]), "[1,\"a\"]"),
        ] {
            assert_eq!(setting_text(&value), text);
        }
    }
}
