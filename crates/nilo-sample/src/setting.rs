//! A program's setting (hyperparameter) as people write it.

use serde_json::{Map, Value};

/// The key of a number that JSON cannot hold, in an object of its own: `{"$number": "NaN"}`, or a whole number of more than 64 bits.
const NUMBER: &str = "$number";

/// Texts without their quotes, unless they would look like a number or another value; everything else as in JSON.
pub fn setting_text(value: &Value) -> String {
    match value {
        Value::String(text) if !looks_like_another_value(text) => text.clone(),
        other => json_text(other),
    }
}

/// As in JSON, with the numbers that it cannot hold.
fn json_text(value: &Value) -> String {
    match value {
        Value::Object(fields) => match large_number(fields) {
            Some(number) => number.to_owned(),
            None => value.to_string(),
        },
        Value::Array(values) => {
            let texts: Vec<String> = values.iter().map(json_text).collect();
            format!("[{}]", texts.join(","))
        }
        _ => value.to_string(),
    }
}

fn large_number(fields: &Map<String, Value>) -> Option<&str> {
    let number = fields.get(NUMBER)?.as_str()?;
    (fields.len() == 1).then_some(number)
}

fn looks_like_another_value(text: &str) -> bool {
    let is_number = matches!(text, "NaN" | "Infinity" | "-Infinity");
    is_number || serde_json::from_str::<Value>(text).is_ok_and(|value| !value.is_string())
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
            (json!({"$number": "NaN"}), "NaN"),
            (json!("NaN"), "\"NaN\""),
            (
                json!({"$number": "100000000000000000000"}),
                "100000000000000000000",
            ),
            (json!([1, {"$number": "-Infinity"}]), "[1,-Infinity]"),
            (json!({"$number": 3}), "{\"$number\":3}"),
        ] {
            assert_eq!(setting_text(&value), text);
        }
    }
}
