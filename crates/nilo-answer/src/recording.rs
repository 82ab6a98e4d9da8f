//! What `nilo export --format json` writes: a whole recording.
//!
//! `nilo-export` streams it, number by number, and never has it in one piece; these types say what comes out.

use nilo_sample::{Column, Event, RunDescription, Subject};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

/// The value of [`ExportedRecording::schema`].
pub const RECORDING_SCHEMA: &str = "nilo.recording/1";

/// A run with everything that was recorded of it.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct ExportedRecording {
    /// `nilo.recording/1`.
    #[schemars(extend("const" = RECORDING_SCHEMA))]
    pub schema: &'static str,
    /// What ran, where, when, and how it ended: `run.json`.
    pub run: RunDescription,
    /// What was measured and logged.
    pub tables: Vec<ExportedTable>,
    /// What happened once, in the order of time.
    pub events: Vec<ExportedEvent>,
    /// Rows that could not be stored.
    pub dropped_rows: u64,
    /// What is wrong with the files, one sentence each.
    pub damage: Vec<String>,
}

/// A table: one subject, named columns, rows in the order of time.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct ExportedTable {
    /// Whom it is about.
    pub subject: Subject,
    /// The stream that it comes from.
    pub writer: String,
    /// Whether a value holds until the next row: such a row is written only when a value changed.
    pub hold: bool,
    /// The rank of the process that wrote it, in a distributed run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Its columns.
    pub columns: Vec<Column>,
    /// The time of each row, since the run began.
    pub times_nanos: Vec<u64>,
    /// The training step of each row, `null` in rows without one; empty in tables without steps.
    pub steps: Vec<Option<i64>>,
    /// For each column one value for each time.
    pub values: Vec<Vec<ExportedValue>>,
}

/// A number, or `null` where nothing was measured; one that is not finite is a text, since JSON has no number for it.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum ExportedValue {
    /// A finite number, or that nothing was measured.
    Number(Option<f64>),
    /// `NaN`, `Infinity` or `-Infinity`.
    NotFinite(&'static str),
}

impl JsonSchema for ExportedValue {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ExportedValue".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "`null` where nothing was measured; JSON has no number for what is not finite.",
            "anyOf": [
                { "type": ["number", "null"] },
                { "enum": ["NaN", "Infinity", "-Infinity"] },
            ]
        })
    }
}

/// An event with its time.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct ExportedEvent {
    /// Since the run began.
    pub time_nanos: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}
