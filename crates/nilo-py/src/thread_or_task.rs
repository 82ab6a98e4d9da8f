//! Who does something: a thread, or one of the asyncio tasks that take turns in it.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// One line of execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadOrTask {
    /// The address of something that each thread has one of.
    thread: usize,
    /// The address of the running task; 0 outside of one.
    task: usize,
}

thread_local! {
    static MARK: u8 = const { 0 };
}

static MODULES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
static CURRENT_TASK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static RUNNING_LOOP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

impl ThreadOrTask {
    /// The one that calls.
    pub(crate) fn current(py: Python<'_>) -> ThreadOrTask {
        ThreadOrTask {
            // A task that cannot be asked for is none.
            task: task(py).unwrap_or(0),
            ..ThreadOrTask::of_thread()
        }
    }

    /// The calling thread outside of tasks.
    pub(crate) fn of_thread() -> ThreadOrTask {
        ThreadOrTask {
            thread: MARK.with(|mark| std::ptr::from_ref(mark) as usize),
            task: 0,
        }
    }
}

/// The running task's address. A program that has not imported asyncio has none, and does not pay for the question.
fn task(py: Python<'_>) -> PyResult<usize> {
    let modules = MODULES.get_or_try_init(py, || {
        let modules = py.import("sys")?.getattr("modules")?;
        PyResult::Ok(modules.cast_into::<PyDict>()?.unbind())
    })?;
    if !modules.bind(py).contains(pyo3::intern!(py, "asyncio"))? {
        return Ok(0);
    }
    let function = |name: &str| PyResult::Ok(py.import("asyncio")?.getattr(name)?.unbind());
    let running = RUNNING_LOOP.get_or_try_init(py, || function("_get_running_loop"))?;
    if running.call0(py)?.is_none(py) {
        return Ok(0);
    }
    let current = CURRENT_TASK.get_or_try_init(py, || function("current_task"))?;
    let task = current.call0(py)?;
    Ok(if task.is_none(py) {
        0
    } else {
        task.as_ptr() as usize
    })
}

/// The thread and the asyncio task that call, as two numbers.
#[pyfunction]
pub(crate) fn current_strand(py: Python<'_>) -> (usize, usize) {
    let strand = ThreadOrTask::current(py);
    (strand.thread, strand.task)
}
