//! The configuration of `nilo optimize`, which `MemoryOptimizationConfig` and `TrainingMemoryConfig` of the Python package read too.
//!
//! A file is a JSON object with all settings side by side, or in two parts, `memory` and `training`. Only what it says counts: the memory of a
//! run is judged by a budget where the file has one.

mod config_error;
mod config_settings;
mod unique_keys;

use std::collections::BTreeMap;

use nilo_advice::Facts;
use nilo_sample::units::{GIB, MIB};
use serde_json::{Map, Value, json};

pub use config_error::OptimizeConfigError;
use config_settings::{MEMORY, TRAINING, settings};
use unique_keys::parse_unique;

/// Pairs of which the first has to be below the second, or at most equal to it.
const ORDERED: [(&str, &str, bool); 5] = [
    (
        "memory_warning_threshold",
        "memory_critical_threshold",
        false,
    ),
    ("gpu_warning_threshold", "gpu_critical_threshold", false),
    ("min_batch_size", "initial_batch_size", true),
    ("initial_batch_size", "max_batch_size", true),
    // A micro-batch is a part of the batch.
    ("initial_batch_size", "effective_batch_size", true),
];

/// Rules that a setting turns off.
const SWITCHES: [(&str, &str); 3] = [
    ("enable_buffer_compression", "compress-frames"),
    ("enable_mixed_precision", "use-autocast"),
    ("enable_gradient_checkpointing", "checkpoint-blocks"),
];

/// A configuration that has been checked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OptimizeConfig {
    /// What the file says, by name.
    given: BTreeMap<&'static str, Value>,
}

/// A setting may stand in one of its places alone, whichever is the right one.
fn refuse_twice_given(file: &Map<String, Value>) -> Result<(), OptimizeConfigError> {
    let parts = [MEMORY, TRAINING].into_iter();
    let parts: Vec<_> = parts
        .filter_map(|part| file.get(part)?.as_object())
        .collect();
    let places = |key: &str| {
        let inside = parts.iter().filter(|part| part.contains_key(key)).count();
        inside + usize::from(file.contains_key(key))
    };
    let all = settings().into_iter();
    match all.map(|(_, key, _, _)| key).find(|key| places(key) > 1) {
        Some(key) => Err(OptimizeConfigError::GivenTwice {
            key: key.to_owned(),
        }),
        None => Ok(()),
    }
}

impl OptimizeConfig {
    /// Reads the text of a file.
    pub fn parse(text: &str) -> Result<OptimizeConfig, OptimizeConfigError> {
        let value = parse_unique(text.trim_start_matches('\u{feff}'))?;
        let file = object(&value, "the configuration")?;
        let mut config = OptimizeConfig::default();
        let has_parts = file.contains_key(MEMORY) || file.contains_key(TRAINING);
        refuse_twice_given(file)?;
        for (key, value) in file {
            match key.as_str() {
                part @ (MEMORY | TRAINING) => {
                    for (key, value) in object(value, &format!("{part:?}"))? {
                        config.add(key, value, Some(part))?;
                    }
                }
                key => config.add(key, value, has_parts.then_some(""))?,
            }
        }
        config.check_order()?;
        Ok(config)
    }

    /// A configuration with every setting and its default.
    pub fn template() -> Value {
        let mut parts: Map<String, Value> = Map::new();
        for (part, key, _, default) in settings() {
            parts.entry(part).or_insert_with(|| json!({}))[key] = default;
        }
        Value::Object(parts)
    }

    /// Adds the budgets to what is known of a program: it is judged by the smaller of its limit and the budget.
    pub fn apply(&self, facts: &mut Facts) {
        let number = |key: &str| self.given.get(key).and_then(Value::as_f64);
        if let Some(budget) = number("max_memory_usage_gb").map(|gb| gb * GIB as f64) {
            facts.thresholds.host_budget_bytes = Some(budget);
            facts.thresholds.warning_ratio = self.value("memory_warning_threshold");
            facts.thresholds.critical_ratio = self.value("memory_critical_threshold");
            let limit = facts.host.limit_bytes.unwrap_or(budget);
            if budget < limit {
                // The forecast is about the limit.
                facts.host.leak_limit_bytes = None;
                facts.host.leak_limit_seconds = None;
                facts.host.leak_limit_confidence = None;
            }
            facts.host.limit_bytes = Some(limit.min(budget));
        }
        if ["gpu_warning_threshold", "gpu_critical_threshold"]
            .iter()
            .any(|key| self.given.contains_key(key))
        {
            facts.thresholds.gpu_warning_ratio = self.value("gpu_warning_threshold");
            facts.thresholds.gpu_critical_ratio = self.value("gpu_critical_threshold");
        }
        facts.thresholds.buffer_limit_bytes =
            number("buffer_size_limit_mb").map(|mb| mb * MIB as f64);
        if let Some((share, device)) = number("memory_threshold").zip(facts.torch.device_bytes) {
            let budget = share * device;
            facts.model.budget_bytes = Some(facts.model.budget_bytes.unwrap_or(budget).min(budget));
            facts.batch.budget_bytes = Some(facts.batch.budget_bytes.unwrap_or(budget).min(budget));
        }
        if let Some(most) = number("max_batch_size") {
            let allowed = facts.batch.max_micro_batch.unwrap_or(u64::MAX);
            facts.batch.max_micro_batch = Some(allowed.min(most as u64));
        }
    }

    /// Whether the user wants to hear of a rule: nobody who turned checkpoints off wants to be told to use them.
    pub fn wants(&self, rule: &str) -> bool {
        let off = |key: &str| self.given.get(key) == Some(&Value::Bool(false));
        !SWITCHES
            .iter()
            .any(|(key, turned_off)| *turned_off == rule && off(key))
    }

    fn add(
        &mut self,
        key: &str,
        value: &Value,
        place: Option<&str>,
    ) -> Result<(), OptimizeConfigError> {
        let all = settings();
        let known = all.iter().find(|(_, name, _, _)| *name == key);
        let Some((part, key, allowed, _)) = known else {
            let similar = all
                .iter()
                .map(|(_, name, _, _)| (strsim::jaro_winkler(name, key), *name));
            let best = similar.max_by(|(a, _), (b, _)| a.total_cmp(b));
            return Err(OptimizeConfigError::UnknownSetting {
                key: key.chars().take(60).collect(),
                similar: best
                    .filter(|(likeness, _)| *likeness > 0.85)
                    .map(|(_, name)| name),
            });
        };
        if place.is_some_and(|place| place != *part) {
            return Err(OptimizeConfigError::Misplaced {
                key: (*key).to_owned(),
                part,
            });
        }
        if !allowed.takes(value) {
            let value: String = value.to_string().chars().take(60).collect();
            return Err(OptimizeConfigError::BadValue {
                key,
                value,
                allowed: allowed.in_words(),
            });
        }
        self.given.insert(key, value.clone());
        Ok(())
    }

    /// What is not given has its default; `None` is null.
    fn value(&self, key: &'static str) -> Option<f64> {
        let default = || settings().into_iter().find(|(_, name, _, _)| *name == key);
        let given = self.given.get(key).cloned();
        let value = given.or_else(|| default().map(|(_, _, _, value)| value));
        value.and_then(|value| value.as_f64())
    }

    fn check_order(&self) -> Result<(), OptimizeConfigError> {
        // Two defaults do not contradict each other.
        let told = |key: &str, value: f64, unit: &str| match self.given.contains_key(key) {
            true => format!("{value}{unit}"),
            false => format!("{value}{unit} by default"),
        };
        for (lower, upper, may_be_equal) in ORDERED {
            let Some((low, high)) = self.value(lower).zip(self.value(upper)) else {
                continue;
            };
            if low < high || may_be_equal && low == high {
                continue;
            }
            return Err(OptimizeConfigError::Contradiction {
                lower,
                lower_value: told(lower, low, ""),
                relation: if may_be_equal {
                    "more than"
                } else {
                    "not below"
                },
                upper,
                upper_value: told(upper, high, ""),
            });
        }
        let (lower, upper) = ("buffer_size_limit_mb", "max_memory_usage_gb");
        let pair = self.value(lower).zip(self.value(upper));
        // The default gives way to a small maximum; what was written down does not.
        if let Some((buffers, whole)) = pair.filter(|(buffers, whole)| {
            self.given.contains_key(lower) && buffers * MIB as f64 > whole * GIB as f64 / 2.0
        }) {
            return Err(OptimizeConfigError::Contradiction {
                lower,
                lower_value: told(lower, buffers, " MB"),
                relation: "more than half of",
                upper,
                upper_value: told(upper, whole, " GB"),
            });
        }
        Ok(())
    }
}

fn object<'a>(value: &'a Value, what: &str) -> Result<&'a Map<String, Value>, OptimizeConfigError> {
    let found = match value {
        Value::Object(fields) => return Ok(fields),
        Value::Array(_) => "a list",
        Value::String(_) => "a text",
        Value::Number(_) => "a number",
        Value::Bool(_) => "true or false",
        Value::Null => "null",
    };
    Err(OptimizeConfigError::NotAnObject {
        what: what.to_owned(),
        found,
    })
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
