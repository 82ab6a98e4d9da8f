//! Fields of a configuration, checked as they are read.

use serde_json::{Map, Value};

use super::error::ConfigError;
use crate::dry_run::tensor::Dtype;

/// No model has a size beyond this.
const LARGEST: u64 = 100_000_000;
/// No model has more layers.
const MOST_LAYERS: u64 = 10_000;
/// What is shown of a wrong value.
const SHOWN_CHARS: usize = 40;

/// The fields of a configuration.
pub(super) struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    pub(super) fn of(value: &'a Value) -> Result<Self, ConfigError> {
        value.as_object().map(Self).ok_or(ConfigError::NotAnObject)
    }

    /// A field that is there and not `null`.
    fn get(&self, field: &str) -> Option<&'a Value> {
        self.0.get(field).filter(|value| !value.is_null())
    }

    pub(super) fn has(&self, field: &str) -> bool {
        self.get(field).is_some()
    }

    /// A count of at least 1.
    pub(super) fn number(&self, field: &'static str) -> Result<Option<u64>, ConfigError> {
        let Some(value) = self.get(field) else {
            return Ok(None);
        };
        let number = value
            .as_u64()
            .filter(|number| (1..=LARGEST).contains(number));
        match number {
            Some(number) => Ok(Some(number)),
            None => Err(wrong(field, "a whole number from 1 to 100000000", value)),
        }
    }

    /// A count of layers, each of which costs time.
    pub(super) fn layers(&self, field: &'static str) -> Result<Option<u64>, ConfigError> {
        let number = self.number(field)?;
        match self.get(field) {
            Some(value) if number > Some(MOST_LAYERS) => {
                Err(wrong(field, "a whole number from 1 to 10000", value))
            }
            _ => Ok(number),
        }
    }

    /// A count that may be 0.
    pub(super) fn number_or_zero(&self, field: &'static str) -> Result<u64, ConfigError> {
        match self.get(field) {
            Some(value) if value.as_u64() == Some(0) => Ok(0),
            _ => Ok(self.number(field)?.unwrap_or(0)),
        }
    }

    pub(super) fn required(&self, field: &'static str) -> Result<u64, ConfigError> {
        self.number(field)?.ok_or(ConfigError::Missing { field })
    }

    pub(super) fn probability(
        &self,
        field: &'static str,
        default: f64,
    ) -> Result<f64, ConfigError> {
        let Some(value) = self.get(field) else {
            return Ok(default);
        };
        let number = value.as_f64().filter(|number| (0.0..1.0).contains(number));
        number.ok_or_else(|| wrong(field, "a probability below 1", value))
    }

    pub(super) fn fraction(&self, field: &'static str) -> Result<Option<f64>, ConfigError> {
        let Some(value) = self.get(field) else {
            return Ok(None);
        };
        let number = value
            .as_f64()
            .filter(|number| *number > 0.0 && *number <= 1.0);
        match number {
            Some(number) => Ok(Some(number)),
            None => Err(wrong(field, "a fraction above 0 and up to 1", value)),
        }
    }

    pub(super) fn truth(&self, field: &'static str, default: bool) -> Result<bool, ConfigError> {
        match self.get(field) {
            None => Ok(default),
            Some(value) => value
                .as_bool()
                .ok_or_else(|| wrong(field, "true or false", value)),
        }
    }

    pub(super) fn text(&self, field: &'static str) -> Result<Option<String>, ConfigError> {
        match self.get(field) {
            None => Ok(None),
            Some(value) => match value.as_str() {
                Some(text) => Ok(Some(text.to_owned())),
                None => Err(wrong(field, "a text", value)),
            },
        }
    }

    /// Whether a field has a list with something in it.
    pub(super) fn has_list(&self, field: &str) -> bool {
        let list = self.get(field).and_then(Value::as_array);
        list.is_some_and(|list| !list.is_empty())
    }

    /// The first text of a list of texts.
    pub(super) fn first_text(&self, field: &str) -> Option<&'a str> {
        self.get(field)?.as_array()?.first()?.as_str()
    }

    /// How many entries an object has, where there are some.
    pub(super) fn entries(&self, field: &str) -> Option<u64> {
        let count = self.get(field)?.as_object()?.len() as u64;
        (count > 0).then_some(count)
    }

    /// A count, or two in a list.
    pub(super) fn number_or_two(
        &self,
        field: &'static str,
    ) -> Result<Option<[u64; 2]>, ConfigError> {
        let Some(list) = self.get(field).and_then(Value::as_array) else {
            return Ok(self.number(field)?.map(|number| [number; 2]));
        };
        let numbers: Vec<u64> = list
            .iter()
            .filter_map(Value::as_u64)
            .filter(|number| (1..=LARGEST).contains(number))
            .collect();
        match (numbers.as_slice(), list.len()) {
            ([first, second], 2) => Ok(Some([*first, *second])),
            _ => Err(wrong(
                field,
                "a whole number or a list of two",
                &Value::from(list.clone()),
            )),
        }
    }

    /// A number inside of the settings of rotary positions.
    pub(super) fn rotary_fraction(&self) -> Result<Option<f64>, ConfigError> {
        for table in ["rope_parameters", "rope_scaling"] {
            if let Some(inner) = self.get(table).and_then(Value::as_object) {
                let found = Fields(inner).fraction("partial_rotary_factor")?;
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        self.fraction("partial_rotary_factor")
    }

    pub(super) fn dtype(&self) -> Result<Option<Dtype>, ConfigError> {
        let text = match self.text("dtype")? {
            Some(text) => Some(text),
            None => self.text("torch_dtype")?,
        };
        Ok(text.and_then(|text| match text.as_str() {
            "float32" => Some(Dtype::F32),
            "bfloat16" => Some(Dtype::Bf16),
            "float16" => Some(Dtype::F16),
            _ => None,
        }))
    }
}

fn wrong(field: &'static str, expected: &'static str, value: &Value) -> ConfigError {
    let text = value.to_string();
    let found = match text.chars().count() > SHOWN_CHARS {
        true => text
            .chars()
            .take(SHOWN_CHARS)
            .chain("...".chars())
            .collect(),
        false => text,
    };
    ConfigError::Wrong {
        field,
        expected,
        found,
    }
}
