//! A lock that nobody holds while the process is forked: the child has what it guards whole, and free.
//!
//! Python says when a fork begins and ends. A fork that Python does not know of may find it held by a thread that the child does not have;
//! nobody waits for that one in vain.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

const LONGEST_WAIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_micros(50);

pub(crate) struct ForkLock<T> {
    lock: RwLock<T>,
    /// Threads that hold the lock or wait for it.
    users: AtomicUsize,
    is_forking: AtomicBool,
    /// The process whose threads are counted.
    process: AtomicU32,
}

impl<T> ForkLock<T> {
    pub(crate) fn new(value: T) -> ForkLock<T> {
        ForkLock {
            lock: RwLock::new(value),
            users: AtomicUsize::new(0),
            is_forking: AtomicBool::new(false),
            process: AtomicU32::new(std::process::id()),
        }
    }

    pub(crate) fn read(&self) -> PyResult<Held<'_, RwLockReadGuard<'_, T>>> {
        self.take(
            || self.lock.read().map_err(TryLockError::from),
            || self.lock.try_read(),
        )
    }

    pub(crate) fn write(&self) -> PyResult<Held<'_, RwLockWriteGuard<'_, T>>> {
        self.take(
            || self.lock.write().map_err(TryLockError::from),
            || self.lock.try_write(),
        )
    }

    /// Waits until nobody holds the lock, and lets nobody have it until `end_fork`.
    pub(crate) fn begin_fork(&self) {
        self.is_forking.store(true, Ordering::SeqCst);
        while self.users.load(Ordering::SeqCst) > 0 {
            std::thread::sleep(PAUSE);
        }
    }

    /// In the parent and in the child.
    pub(crate) fn end_fork(&self) {
        let process = std::process::id();
        if self.process.swap(process, Ordering::SeqCst) != process {
            // A thread that the child does not have may have been about to see that it has to wait.
            self.users.store(0, Ordering::SeqCst);
        }
        self.is_forking.store(false, Ordering::SeqCst);
    }

    fn take<G>(
        &self,
        wait: impl FnOnce() -> Result<G, TryLockError<G>>,
        attempt: impl Fn() -> Result<G, TryLockError<G>>,
    ) -> PyResult<Held<'_, G>> {
        let user = self.enter();
        if std::process::id() == self.process.load(Ordering::Relaxed) {
            return match wait() {
                Ok(guard) => Ok(Held { guard, _user: user }),
                Err(_) => Err(PyRuntimeError::new_err(
                    "an earlier call on this buffer failed half way",
                )),
            };
        }
        let end = Instant::now() + LONGEST_WAIT;
        loop {
            match attempt() {
                Ok(guard) => return Ok(Held { guard, _user: user }),
                Err(TryLockError::WouldBlock) if Instant::now() < end => std::thread::yield_now(),
                Err(_) => {
                    return Err(PyRuntimeError::new_err(
                        "the buffer was in use when this process was forked; make another one here",
                    ));
                }
            }
        }
    }

    fn enter(&self) -> User<'_> {
        loop {
            self.users.fetch_add(1, Ordering::SeqCst);
            let user = User(&self.users);
            if !self.is_forking.load(Ordering::SeqCst) {
                return user;
            }
            drop(user);
            std::thread::sleep(PAUSE);
        }
    }
}

/// A guard whose holder is counted: it is given back before the count goes down.
pub(crate) struct Held<'lock, G> {
    guard: G,
    _user: User<'lock>,
}

impl<G: Deref> Deref for Held<'_, G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Held<'_, G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

struct User<'lock>(&'lock AtomicUsize);

impl Drop for User<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
