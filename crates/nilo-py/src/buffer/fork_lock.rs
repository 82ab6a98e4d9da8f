//! A lock that a forked child does not wait for in vain.
//!
//! A thread of the parent may have held it at the fork; in the child it is then held for ever.

use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

const LONGEST_WAIT: Duration = Duration::from_secs(5);

pub(crate) struct ForkLock<T> {
    lock: RwLock<T>,
    made_by: u32,
}

impl<T> ForkLock<T> {
    pub(crate) fn new(value: T) -> ForkLock<T> {
        ForkLock {
            lock: RwLock::new(value),
            made_by: std::process::id(),
        }
    }

    pub(crate) fn read(&self) -> PyResult<RwLockReadGuard<'_, T>> {
        self.take(
            || self.lock.read().map_err(TryLockError::from),
            || self.lock.try_read(),
        )
    }

    pub(crate) fn write(&self) -> PyResult<RwLockWriteGuard<'_, T>> {
        self.take(
            || self.lock.write().map_err(TryLockError::from),
            || self.lock.try_write(),
        )
    }

    fn take<G>(
        &self,
        wait: impl FnOnce() -> Result<G, TryLockError<G>>,
        attempt: impl Fn() -> Result<G, TryLockError<G>>,
    ) -> PyResult<G> {
        if std::process::id() == self.made_by {
            return match wait() {
                Ok(guard) => Ok(guard),
                Err(_) => Err(PyRuntimeError::new_err(
                    "an earlier call on this buffer failed half way",
                )),
            };
        }
        let end = Instant::now() + LONGEST_WAIT;
        loop {
            match attempt() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::WouldBlock) if Instant::now() < end => std::thread::yield_now(),
                Err(_) => {
                    return Err(PyRuntimeError::new_err(
                        "the buffer was in use when this process was forked; make another one here",
                    ));
                }
            }
        }
    }
}
