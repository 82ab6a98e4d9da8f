//! The native half of `nilometer.BufferManager`.

use std::path::PathBuf;

use nilo_buffer::{ArrayCache, ArrayCacheSettings, CachePolicy, CachedArray, check_spill_folder};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::arrays::{ArrayMemory, check_outputs};
use super::buffer_error;
use super::fork_lock::ForkLock;
use crate::errors::value_error;

/// An array that was found. It stays readable when another thread replaces it in the cache.
#[pyclass(name = "CachedArray", frozen, module = "nilometer._native")]
pub(crate) struct PyCachedArray(CachedArray);

#[pymethods]
impl PyCachedArray {
    /// Writes it to an array of its size.
    fn read(&self, py: Python<'_>, out: &Bound<'_, PyAny>) -> PyResult<()> {
        let out = ArrayMemory::of(out)?;
        check_outputs([&out].into_iter())?;
        // SAFETY: the array was made for this call.
        py.detach(|| self.0.read(unsafe { out.items_mut() }))
            .map_err(buffer_error)
    }
}

/// Arrays under numbers within a memory budget. A forked child has a copy of its own.
#[pyclass(name = "ArrayCache", frozen, module = "nilometer._native")]
pub(crate) struct PyArrayCache {
    /// Written to by every call: the cache has a lock of its own, which nobody can hold then while the process is forked and this one is free.
    cache: ForkLock<ArrayCache>,
}

#[pymethods]
impl PyArrayCache {
    #[new]
    #[pyo3(signature = (max_bytes, policy, compress, spill_folder=None, max_disk_bytes=None))]
    fn new(
        max_bytes: usize,
        policy: &str,
        compress: bool,
        spill_folder: Option<PathBuf>,
        max_disk_bytes: Option<usize>,
    ) -> PyResult<PyArrayCache> {
        let policies = [
            CachePolicy::Auto,
            CachePolicy::Pin,
            CachePolicy::Lru,
            CachePolicy::TinyLfu,
        ];
        let Some(policy) = policies.into_iter().find(|known| known.name() == policy) else {
            return Err(value_error(format!(
                "policy is {policy:?}; it must be auto, pin, lru or tinylfu"
            )));
        };
        if let Some(folder) = &spill_folder {
            check_spill_folder(folder).map_err(buffer_error)?;
        }
        let cache = ArrayCache::new(ArrayCacheSettings {
            max_bytes,
            policy,
            is_compressed: compress,
            spill_folder,
            max_disk_bytes: max_disk_bytes.unwrap_or(usize::MAX),
        });
        Ok(PyArrayCache {
            cache: ForkLock::new(cache),
        })
    }

    /// Puts an array in. Returns the keys that are gone, its own where it was not taken.
    fn put(&self, py: Python<'_>, key: u64, array: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
        let array = ArrayMemory::of(array)?;
        py.detach(|| {
            // SAFETY: who changes an array while it is put in may find either state.
            let bytes = unsafe { array.bytes() };
            let cache = self.cache.write()?;
            cache
                .put(key, bytes, array.kind.size())
                .map_err(buffer_error)
        })
    }

    /// The array under a key, counted as a request.
    fn find(&self, py: Python<'_>, key: u64) -> PyResult<Option<PyCachedArray>> {
        py.detach(|| Ok(self.cache.write()?.find(key).map(PyCachedArray)))
    }

    fn remove(&self, py: Python<'_>, key: u64) -> PyResult<bool> {
        py.detach(|| Ok(self.cache.write()?.remove(key)))
    }

    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = py.detach(|| Ok::<_, PyErr>(self.cache.write()?.statistics()))?;
        let dict = PyDict::new(py);
        dict.set_item("hits", found.memory.hits + found.disk_hits)?;
        dict.set_item("disk_hits", found.disk_hits)?;
        dict.set_item("misses", found.memory.misses - found.disk_hits)?;
        dict.set_item("evictions", found.memory.evictions)?;
        dict.set_item("refused", found.refused)?;
        dict.set_item("entries", found.memory.entries)?;
        dict.set_item("disk_entries", found.disk_entries)?;
        dict.set_item("memory_bytes", found.memory.used_bytes)?;
        dict.set_item("disk_bytes", found.disk_bytes)?;
        dict.set_item("raw_bytes", found.raw_bytes)?;
        dict.set_item("stored_bytes", found.stored_bytes)?;
        dict.set_item("policy", found.memory.policy.name())?;
        Ok(dict)
    }
}
