//! The usual row, a flat dictionary of floats under literal keys, taken over without allocating and without running Python code.

use std::mem::MaybeUninit;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Rows of at most this many values take the quick way.
const QUICK_VALUES: usize = 32;

/// A flat dictionary of plain numbers, taken over without allocating.
pub(crate) struct QuickRow {
    /// Only the first `len` of both are written.
    addresses: [MaybeUninit<usize>; QUICK_VALUES],
    values: [MaybeUninit<f64>; QUICK_VALUES],
    len: usize,
}

impl Default for QuickRow {
    fn default() -> QuickRow {
        QuickRow {
            addresses: [MaybeUninit::uninit(); QUICK_VALUES],
            values: [MaybeUninit::uninit(); QUICK_VALUES],
            len: 0,
        }
    }
}

impl QuickRow {
    /// `false`: something in it wants care.
    #[inline]
    pub(crate) fn fill(&mut self, dict: &Bound<'_, PyDict>) -> bool {
        let mut position: ffi::Py_ssize_t = 0;
        let mut key = std::ptr::null_mut();
        let mut value = std::ptr::null_mut();
        // SAFETY: the GIL is held and nothing in the loop runs Python code, so the dictionary stays as it is
        // and the borrowed references stay valid; both are objects when PyDict_Next says 1.
        unsafe {
            while ffi::PyDict_Next(dict.as_ptr(), &mut position, &mut key, &mut value) != 0 {
                if self.len == QUICK_VALUES {
                    return false;
                }
                let number = if ffi::PyFloat_CheckExact(value) != 0 {
                    ffi::PyFloat_AsDouble(value)
                } else if ffi::PyLong_CheckExact(value) != 0 {
                    let number = ffi::PyLong_AsDouble(value);
                    if number == -1.0 && !ffi::PyErr_Occurred().is_null() {
                        ffi::PyErr_Clear();
                        return false;
                    }
                    number
                } else {
                    return false;
                };
                self.addresses[self.len].write(key as usize);
                self.values[self.len].write(number);
                self.len += 1;
            }
        }
        self.len > 0
    }

    pub(crate) fn addresses(&self) -> &[usize] {
        // SAFETY: `fill` has written the first `len`.
        unsafe { self.addresses[..self.len].assume_init_ref() }
    }

    pub(crate) fn values(&self) -> &[f64] {
        // SAFETY: `fill` has written the first `len`.
        unsafe { self.values[..self.len].assume_init_ref() }
    }
}
