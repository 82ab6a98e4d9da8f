//! The memory of numpy's arrays, without copying it.
//!
//! The stable interface has no buffer protocol before Python 3.11; `__array_struct__` is numpy's own, and much cheaper than the dictionary of `__array_interface__`.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::slice;

use nilo_buffer::ElementKind;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::errors::value_error;

/// `PyArrayInterface` of numpy's documentation.
#[repr(C)]
struct ArrayInterface {
    two: c_int,
    dimensions: c_int,
    letter: c_char,
    item_bytes: c_int,
    flags: c_int,
    shape: *const isize,
    strides: *const isize,
    data: *mut c_void,
    description: *mut ffi::PyObject,
}

const CONTIGUOUS: c_int = 0x1;
const ALIGNED: c_int = 0x100;
const NATIVE_ORDER: c_int = 0x200;
const WRITEABLE: c_int = 0x400;

/// An array whose memory stays where it is as long as this lives.
pub(crate) struct ArrayMemory {
    /// Holds the array.
    _capsule: Py<PyAny>,
    data: *mut u8,
    bytes: usize,
    pub(crate) kind: ElementKind,
    is_writeable: bool,
}

// SAFETY: only addresses are moved between threads; numpy does not free or move the memory while the capsule holds the array.
unsafe impl Send for ArrayMemory {}
// SAFETY: as above; what is behind the addresses is reached by the unsafe functions below alone.
unsafe impl Sync for ArrayMemory {}

impl ArrayMemory {
    pub(crate) fn of(array: &Bound<'_, PyAny>) -> PyResult<ArrayMemory> {
        let capsule = array.getattr(pyo3::intern!(array.py(), "__array_struct__"))?;
        // SAFETY: numpy's capsule has no name; anything else is refused here with an exception.
        let interface = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), ptr::null()) };
        if interface.is_null() {
            return Err(PyErr::fetch(array.py()));
        }
        // SAFETY: numpy documents the layout, and the capsule keeps it alive.
        let interface = unsafe { &*interface.cast::<ArrayInterface>() };
        let is_plain = interface.two == 2
            && interface.flags & (CONTIGUOUS | ALIGNED | NATIVE_ORDER)
                == CONTIGUOUS | ALIGNED | NATIVE_ORDER;
        let item_bytes = usize::try_from(interface.item_bytes).unwrap_or(0);
        let kind = ElementKind::from_numpy(interface.letter as u8, item_bytes);
        let (true, Some(kind)) = (is_plain, kind) else {
            return Err(value_error(
                "an array of numbers, contiguous and in this machine's byte order, is expected",
            ));
        };
        let dimensions = usize::try_from(interface.dimensions).unwrap_or(0);
        let items: usize = match dimensions {
            0 => 1,
            // SAFETY: the shape has as many entries as there are dimensions.
            _ => unsafe { slice::from_raw_parts(interface.shape, dimensions) }
                .iter()
                .map(|&size| size as usize)
                .product(),
        };
        Ok(ArrayMemory {
            data: interface.data.cast(),
            bytes: items * item_bytes,
            kind,
            is_writeable: interface.flags & WRITEABLE != 0,
            _capsule: capsule.unbind(),
        })
    }

    /// # Safety
    /// Nobody writes to the array meanwhile.
    pub(crate) unsafe fn bytes(&self) -> &[u8] {
        match self.bytes {
            0 => &[],
            // SAFETY: the array is contiguous, and lives as long as `self`.
            _ => unsafe { slice::from_raw_parts(self.data, self.bytes) },
        }
    }

    /// # Safety
    /// As [`ArrayMemory::bytes`]; `T` is what `kind` says.
    pub(crate) unsafe fn items<T>(&self) -> &[T] {
        match self.bytes {
            0 => &[],
            // SAFETY: the array is contiguous and aligned, and lives as long as `self`.
            _ => unsafe { slice::from_raw_parts(self.data.cast(), self.bytes / size_of::<T>()) },
        }
    }

    /// # Safety
    /// Nobody else uses the array meanwhile, and `T` is what `kind` says.
    #[expect(
        clippy::mut_from_ref,
        reason = "the memory is numpy's; this is only its address"
    )]
    pub(crate) unsafe fn items_mut<T>(&self) -> &mut [T] {
        match self.bytes {
            0 => &mut [],
            // SAFETY: the array is contiguous and aligned, and lives as long as `self`.
            _ => unsafe {
                slice::from_raw_parts_mut(self.data.cast(), self.bytes / size_of::<T>())
            },
        }
    }

    pub(crate) fn expect(self, kind: ElementKind) -> PyResult<ArrayMemory> {
        match self.kind == kind {
            true => Ok(self),
            false => Err(value_error(format!(
                "an array of {} is expected, not of {}",
                kind.numpy_name(),
                self.kind.numpy_name()
            ))),
        }
    }
}

/// Refuses arrays that cannot be written to, and those that overlap.
pub(crate) fn check_outputs<'a>(arrays: impl Iterator<Item = &'a ArrayMemory>) -> PyResult<()> {
    let mut ranges = Vec::new();
    for array in arrays {
        if !array.is_writeable {
            return Err(value_error("an output array is read-only"));
        }
        if array.bytes > 0 {
            ranges.push((array.data as usize, array.data as usize + array.bytes));
        }
    }
    ranges.sort_unstable();
    match ranges.windows(2).any(|pair| pair[0].1 > pair[1].0) {
        true => Err(value_error("output arrays overlap")),
        false => Ok(()),
    }
}
