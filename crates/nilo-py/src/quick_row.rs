//! The usual row, a flat dictionary of floats under literal keys, taken over without allocating and without running Python code.

use std::mem::MaybeUninit;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Rows of at most this many values take the quick way.
const QUICK_VALUES: usize = 32;

/// Room for a row on the stack, none of it written yet.
pub(crate) struct QuickRowBuffer {
    addresses: [MaybeUninit<usize>; QUICK_VALUES],
    values: [MaybeUninit<f64>; QUICK_VALUES],
}

/// A flat dictionary of plain numbers, taken over without allocating.
pub(crate) struct QuickRow<'a> {
    /// Where the key objects lie.
    pub(crate) addresses: &'a [usize],
    pub(crate) values: &'a [f64],
}

impl QuickRowBuffer {
    #[inline]
    pub(crate) fn new() -> QuickRowBuffer {
        QuickRowBuffer {
            addresses: [MaybeUninit::uninit(); QUICK_VALUES],
            values: [MaybeUninit::uninit(); QUICK_VALUES],
        }
    }

    /// `None`: the dictionary is empty, or something in it wants care.
    #[inline]
    pub(crate) fn fill(&mut self, dict: &Bound<'_, PyDict>) -> Option<QuickRow<'_>> {
        let mut len = 0;
        let mut position: ffi::Py_ssize_t = 0;
        let mut key = std::ptr::null_mut();
        let mut value = std::ptr::null_mut();
        // SAFETY: the GIL is held and nothing in the loop runs Python code, so the dictionary stays as it is
        // and the borrowed references stay valid; both are objects when PyDict_Next says 1.
        unsafe {
            while ffi::PyDict_Next(dict.as_ptr(), &mut position, &mut key, &mut value) != 0 {
                if len == QUICK_VALUES {
                    return None;
                }
                let number = if ffi::PyFloat_CheckExact(value) != 0 {
                    ffi::PyFloat_AsDouble(value)
                } else if ffi::PyLong_CheckExact(value) != 0 {
                    let number = ffi::PyLong_AsDouble(value);
                    if number == -1.0 && !ffi::PyErr_Occurred().is_null() {
                        ffi::PyErr_Clear();
                        return None;
                    }
                    number
                } else {
                    return None;
                };
                self.addresses[len].write(key as usize);
                self.values[len].write(number);
                len += 1;
            }
        }
        if len == 0 {
            return None;
        }
        // SAFETY: the loop has written the first `len` of both.
        unsafe {
            Some(QuickRow {
                addresses: self.addresses[..len].assume_init_ref(),
                values: self.values[..len].assume_init_ref(),
            })
        }
    }
}
