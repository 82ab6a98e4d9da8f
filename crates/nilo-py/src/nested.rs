//! Lists, arrays and tensors of numbers, one or two deep, as groups of doubles; None is NaN.

use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyFloat, PyString};

use crate::number::{self, LoggedValue};

/// Values as they were nested.
enum Nested {
    Number(f64),
    List(Vec<Nested>),
}

/// One list of numbers as one group, a list of lists as several; `group_size` cuts one list into groups.
pub(crate) fn read_groups(
    what: &str,
    values: &Bound<'_, PyAny>,
    group_size: Option<usize>,
) -> Result<Vec<Vec<f64>>, String> {
    let Nested::List(items) = read(what, values, 0)? else {
        return Err(format!("{what} is a single number, not a list of them"));
    };
    if items.iter().all(|item| matches!(item, Nested::Number(_))) {
        let flat = flatten(items);
        return match group_size {
            _ if flat.is_empty() => Ok(Vec::new()),
            None => Ok(vec![flat]),
            Some(size) if size > 0 && flat.len().is_multiple_of(size) => {
                Ok(flat.chunks(size).map(<[f64]>::to_vec).collect())
            }
            Some(size) => Err(format!(
                "{what} has {} values, which do not make groups of {size}",
                flat.len()
            )),
        };
    }
    let mut groups = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        match item {
            Nested::List(group) if group.iter().all(|v| matches!(v, Nested::Number(_))) => {
                groups.push(flatten(group));
            }
            Nested::List(_) => return Err(format!("{what}[{index}] holds further lists")),
            Nested::Number(_) => {
                return Err(format!(
                    "{what}[{index}] is a number where others are lists"
                ));
            }
        }
    }
    Ok(groups)
}

/// Numbers however they are nested, in one list; a single number is a list of one.
pub(crate) fn read_flat(what: &str, values: &Bound<'_, PyAny>) -> Result<Vec<f64>, String> {
    Ok(flatten(vec![read(what, values, 0)?]))
}

fn flatten(items: Vec<Nested>) -> Vec<f64> {
    let mut flat = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Nested::Number(number) => flat.push(number),
            Nested::List(inner) => flat.extend(flatten(inner)),
        }
    }
    flat
}

/// Lists within lists are followed this deep.
const DEEPEST: usize = 4;

fn read(what: &str, value: &Bound<'_, PyAny>, depth: usize) -> Result<Nested, String> {
    // Arrays and tensors of any number type and on any device know how to become lists of numbers.
    let listed = value.call_method0("tolist").ok();
    let value = listed.as_ref().unwrap_or(value);
    if is_list_like(value) {
        if depth == DEEPEST {
            return Err(format!("{what} is nested too deeply"));
        }
        let items = value
            .try_iter()
            .map_err(|error| format!("{what}: {error}"))?;
        let mut list = Vec::new();
        for (index, item) in items.enumerate() {
            let item = item.map_err(|error| format!("{what}[{index}]: {error}"))?;
            list.push(match item.cast_exact::<PyFloat>() {
                Ok(float) => Nested::Number(float.value()),
                Err(_) => read(&format!("{what}[{index}]"), &item, depth + 1)?,
            });
        }
        return Ok(Nested::List(list));
    }
    match number::read(value) {
        LoggedValue::Number(number) => Ok(Nested::Number(number)),
        LoggedValue::Nothing => Ok(Nested::Number(f64::NAN)),
        LoggedValue::Unusable(found) => Err(format!("{what} is {found}, not a number")),
        LoggedValue::Nested(_) => Err(format!("{what} is a dictionary, not a number or a list")),
        LoggedValue::OnDevice(_) => Err(format!("{what} is a tensor that cannot be read")),
    }
}

fn is_list_like(value: &Bound<'_, PyAny>) -> bool {
    let is_other = value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyBytes>()
        || value.is_instance_of::<PyByteArray>()
        || value.is_instance_of::<PyDict>();
    !is_other && value.hasattr("__iter__").unwrap_or(false)
}
