//! Numbers in JSON that need not be finite: JSON has no word for them, so they are the texts `"NaN"`, `"Infinity"` and `"-Infinity"`.
//!
//! `null` would say that nothing was there, and a loss that became NaN is the opposite of nothing.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

/// What such a number is in a JSON schema.
pub(crate) struct JsonNumber;

impl JsonSchema for JsonNumber {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "JsonNumber".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "number" },
            { "enum": ["NaN", "Infinity", "-Infinity"] },
        ] })
    }
}

/// For `#[serde(serialize_with = …)]`.
pub(crate) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    match *value {
        value if value.is_nan() => serializer.serialize_str("NaN"),
        f64::INFINITY => serializer.serialize_str("Infinity"),
        f64::NEG_INFINITY => serializer.serialize_str("-Infinity"),
        value => serializer.serialize_f64(value),
    }
}

/// The same for a list in which some may be missing (`null`).
pub(crate) fn serialize_list<S: Serializer>(
    values: &[Option<f64>],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Number(#[serde(serialize_with = "serialize")] f64);
    serializer.collect_seq(values.iter().map(|value| value.map(Number)))
}
