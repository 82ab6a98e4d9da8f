//! Python values as numbers: floats at once, everything else by asking it.

use pyo3::exceptions::PyOverflowError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};

/// What a logged value turned out to be.
pub(crate) enum LoggedValue<'py> {
    /// A number, NaN and infinities among them.
    Number(f64),
    /// A tensor on a device, whose number must be fetched without waiting for it.
    OnDevice(Bound<'py, PyAny>),
    /// More values under this key.
    Nested(Bound<'py, PyDict>),
    /// None: nothing was measured.
    Nothing,
    /// Not a number, and why.
    Unusable(String),
}

/// Reads a value that is usually a float.
#[inline]
pub(crate) fn read<'py>(value: &Bound<'py, PyAny>) -> LoggedValue<'py> {
    match value.cast_exact::<PyFloat>() {
        Ok(float) => LoggedValue::Number(float.value()),
        Err(_) => read_other(value),
    }
}

#[cold]
fn read_other<'py>(value: &Bound<'py, PyAny>) -> LoggedValue<'py> {
    if value.is_none() {
        return LoggedValue::Nothing;
    }
    if let Ok(truth) = value.cast_exact::<PyBool>() {
        return LoggedValue::Number(f64::from(u8::from(truth.is_true())));
    }
    if let Ok(integer) = value.cast::<PyInt>() {
        return whole(integer);
    }
    if let Ok(float) = value.cast::<PyFloat>() {
        return LoggedValue::Number(float.value());
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        return LoggedValue::Nested(dict.clone());
    }
    if value.is_instance_of::<PyString>() {
        return LoggedValue::Unusable("a string".to_owned());
    }
    if is_on_device(value) {
        return match element_count(value) {
            Some(1) => LoggedValue::OnDevice(value.clone()),
            _ => LoggedValue::Unusable("a tensor of several elements".to_owned()),
        };
    }
    // Without the number of them: each text is said once, and it may change with every step.
    if element_count(value).is_some_and(|count| count != 1) {
        return LoggedValue::Unusable("an array of several elements".to_owned());
    }
    // A tensor that is part of a graph would warn of being read.
    let needs_detaching = value
        .getattr("requires_grad")
        .and_then(|requires| requires.is_truthy())
        .unwrap_or(false);
    let detached = needs_detaching.then(|| value.call_method0("detach"));
    let value = match &detached {
        Some(Ok(detached)) => detached,
        _ => value,
    };
    match value.extract::<f64>() {
        Ok(number) => LoggedValue::Number(number),
        Err(_) => item(value),
    }
}

fn whole<'py>(integer: &Bound<'py, PyInt>) -> LoggedValue<'py> {
    // SAFETY: the object is an int and the GIL is held; an error is fetched right after.
    let number = unsafe { ffi::PyLong_AsDouble(integer.as_ptr()) };
    if number == -1.0
        && let Some(error) = PyErr::take(integer.py())
    {
        let too_large = error.is_instance_of::<PyOverflowError>(integer.py());
        let what = if too_large {
            "an integer too large for a float"
        } else {
            "an unreadable integer"
        };
        return LoggedValue::Unusable(what.to_owned());
    }
    LoggedValue::Number(number)
}

/// Arrays and tensors of one element whose `__float__` refuses them have `item()`.
fn item<'py>(value: &Bound<'py, PyAny>) -> LoggedValue<'py> {
    let number = value
        .call_method0("item")
        .and_then(|item| item.extract::<f64>());
    match number {
        Ok(number) => LoggedValue::Number(number),
        Err(_) => LoggedValue::Unusable(match value.get_type().name() {
            Ok(name) => format!("of type {name}"),
            Err(_) => "not a number".to_owned(),
        }),
    }
}

/// Whether this is a tensor whose memory is not the CPU's.
fn is_on_device(value: &Bound<'_, PyAny>) -> bool {
    let kind = value
        .getattr("device")
        .and_then(|device| device.getattr("type"))
        .and_then(|kind| kind.extract::<String>());
    kind.is_ok_and(|kind| kind != "cpu") && value.hasattr("detach").unwrap_or(false)
}

fn element_count(value: &Bound<'_, PyAny>) -> Option<u64> {
    if let Ok(size) = value.getattr("size")
        && let Ok(size) = size.extract::<u64>()
    {
        return Some(size); // numpy
    }
    let count = value.call_method0("numel").ok()?; // torch
    count.extract().ok()
}

/// A step: any whole number, also one that numpy or a float carries.
#[inline]
pub(crate) fn read_step(step: &Bound<'_, PyAny>) -> Result<i64, String> {
    // SAFETY: the object is exactly an int and the GIL is held.
    if unsafe { ffi::PyLong_CheckExact(step.as_ptr()) } != 0 {
        // SAFETY: as above; -1 may be an error, which is cleared.
        let whole = unsafe { ffi::PyLong_AsLongLong(step.as_ptr()) };
        if whole != -1 && whole != i64::MIN {
            return Ok(whole);
        }
        PyErr::take(step.py());
    }
    if let Ok(whole) = step.extract::<i64>() {
        // One value stands for "no step" in the run file.
        return match whole {
            i64::MIN => Err("too small".to_owned()),
            _ => Ok(whole),
        };
    }
    match read(step) {
        LoggedValue::Number(number) if number.fract() == 0.0 && number.abs() < 9e15 => {
            Ok(number as i64)
        }
        // In its own digits: as a float it is another number.
        _ if step.is_instance_of::<PyInt>() => Err(format!("{step}, beyond 64 bits")),
        LoggedValue::Number(number) => Err(format!("{number:?}, not an integer below 9e15")),
        LoggedValue::Unusable(what) => Err(what),
        _ => Err("not a number".to_owned()),
    }
}
