//! An array of numbers that Python owns and numpy takes over without copying it.
//!
//! The stable interface has no buffer protocol before Python 3.11; `__array_interface__` is numpy's own and as old as numpy.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// Numbers of one kind.
pub(crate) enum Values {
    Whole(Vec<i64>),
    Real(Vec<f64>),
}

/// A read-only array; `numpy.asarray` takes it as it is, `tobytes` copies it.
#[pyclass(frozen, module = "nilometer._native")]
pub(crate) struct Numbers {
    values: Values,
}

#[pymethods]
impl Numbers {
    fn __len__(&self) -> usize {
        match &self.values {
            Values::Whole(values) => values.len(),
            Values::Real(values) => values.len(),
        }
    }

    /// What numpy asks for: where the numbers lie, how many and of which kind. Nothing moves them while this object lives.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (address, kind) = match &self.values {
            Values::Whole(values) => (values.as_ptr() as usize, "i8"),
            Values::Real(values) => (values.as_ptr() as usize, "f8"),
        };
        let order = if cfg!(target_endian = "little") {
            '<'
        } else {
            '>'
        };
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", (self.__len__(),))?;
        interface.set_item("typestr", format!("{order}{kind}"))?;
        interface.set_item("data", (address, true))?;
        Ok(interface)
    }

    /// The bytes of the numbers, in this machine's order.
    fn tobytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        match &self.values {
            Values::Whole(values) => PyBytes::new(py, bytes_of(values)),
            Values::Real(values) => PyBytes::new(py, bytes_of(values)),
        }
    }
}

impl From<Vec<i64>> for Numbers {
    fn from(values: Vec<i64>) -> Numbers {
        Numbers {
            values: Values::Whole(values),
        }
    }
}

impl From<Vec<f64>> for Numbers {
    fn from(values: Vec<f64>) -> Numbers {
        Numbers {
            values: Values::Real(values),
        }
    }
}

/// Numbers that may be looked at as bytes: no padding, every bit pattern valid.
trait PlainNumber: Copy {}
impl PlainNumber for f64 {}
impl PlainNumber for i64 {}

fn bytes_of<T: PlainNumber>(numbers: &[T]) -> &[u8] {
    // SAFETY: the numbers have no padding, and any bytes are valid bytes; the lifetime is that of the slice.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), std::mem::size_of_val(numbers)) }
}
