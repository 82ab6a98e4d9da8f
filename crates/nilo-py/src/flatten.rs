//! Any dictionary of values as flat names and numbers: `{"eval": {"loss": 1}}` is `eval/loss`.

use std::collections::HashSet;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::number::{self, LoggedValue};
use crate::pending::DeviceNumber;
use crate::text::text_of;

/// Dictionaries within dictionaries are followed this deep.
const DEEPEST: usize = 16;

/// What a dictionary held.
#[derive(Default)]
pub(crate) struct FlatValues {
    pub(crate) numbers: Vec<(String, f64)>,
    pub(crate) on_device: Vec<(String, DeviceNumber)>,
    /// Names and what their values are instead of numbers.
    pub(crate) unusable: Vec<(String, String)>,
    /// Names whose value is None.
    pub(crate) absent: Vec<String>,
    /// Names that several keys stand for; the last value is kept.
    pub(crate) repeated: Vec<String>,
    /// The key objects, when every item became a number under its own key.
    pub(crate) keys: Option<Vec<Py<PyAny>>>,
}

/// Reads everything in a dictionary.
pub(crate) fn flatten(dict: &Bound<'_, PyDict>) -> PyResult<FlatValues> {
    let mut found = FlatValues {
        keys: Some(Vec::new()),
        ..FlatValues::default()
    };
    add(dict, "", 0, &mut found)?;
    found.repeated = keep_last(&mut found.numbers);
    if !found.repeated.is_empty() {
        found.keys = None;
    }
    Ok(found)
}

fn add(
    dict: &Bound<'_, PyDict>,
    prefix: &str,
    depth: usize,
    found: &mut FlatValues,
) -> PyResult<()> {
    // A copy, because reading a value may run code that changes the dictionary.
    for (key, value) in dict.copy()?.iter() {
        let text = text_of(&key.str()?).into_owned();
        let name = if prefix.is_empty() {
            text
        } else {
            format!("{prefix}/{text}")
        };
        match number::read(&value) {
            LoggedValue::Number(number) => {
                found.numbers.push((name, number));
                if let Some(keys) = &mut found.keys {
                    keys.push(key.unbind());
                }
                continue;
            }
            LoggedValue::OnDevice(tensor) => match DeviceNumber::begin(&tensor) {
                Ok(number) => found.on_device.push((name, number)),
                Err(error) => found
                    .unusable
                    .push((name, format!("a tensor that cannot be read ({error})"))),
            },
            LoggedValue::Nested(inner) if depth < DEEPEST => add(&inner, &name, depth + 1, found)?,
            LoggedValue::Nested(_) => found.unusable.push((name, "nested too deeply".to_owned())),
            LoggedValue::Nothing => found.absent.push(name),
            LoggedValue::Unusable(what) => found.unusable.push((name, what)),
        }
        found.keys = None;
    }
    Ok(())
}

/// `{"a": {"b": 1}, "a/b": 2}` names one metric twice, and so does `{1: 1, "1": 2}`: the last value is kept, and the names are returned.
fn keep_last(numbers: &mut Vec<(String, f64)>) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut repeated = Vec::new();
    let mut last: Vec<(String, f64)> = Vec::with_capacity(numbers.len());
    for (name, number) in numbers.drain(..).rev() {
        if seen.insert(name.clone()) {
            last.push((name, number));
        } else if !repeated.contains(&name) {
            repeated.push(name);
        }
    }
    last.reverse();
    *numbers = last;
    repeated
}

/// Any mapping as a dictionary.
pub(crate) fn as_dict<'py>(values: &Bound<'py, PyAny>) -> Option<Bound<'py, PyDict>> {
    if let Ok(dict) = values.cast::<PyDict>() {
        return Some(dict.clone());
    }
    if !values.hasattr("keys").unwrap_or(false) {
        return None;
    }
    let dict = values.py().get_type::<PyDict>().call1((values,)).ok()?;
    dict.cast_into::<PyDict>().ok()
}
