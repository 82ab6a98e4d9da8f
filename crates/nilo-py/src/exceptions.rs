//! Exceptions that nobody caught go into the run.

use std::path::PathBuf;

use nilo_runfile::append_event;
use nilo_sample::{CodePlace, Event, UnhandledException};
use pyo3::prelude::*;

/// A file, a line and a function.
type Place = (String, u32, String);

/// Adds an unhandled exception to a run. Works at any time, also when the stream of this process is closed; false when it could not be stored.
#[pyfunction]
#[pyo3(signature = (run_dir, type_name, message, *, thread=None, raised_at=None, user_code=None, causes=Vec::new()))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn record_exception(
    py: Python<'_>,
    run_dir: PathBuf,
    type_name: String,
    message: String,
    thread: Option<String>,
    raised_at: Option<Place>,
    user_code: Option<Place>,
    causes: Vec<String>,
) -> bool {
    let place = |place: Option<Place>| {
        place.map(|(file, line, function)| CodePlace {
            file,
            line,
            function,
        })
    };
    let exception = UnhandledException {
        pid: std::process::id(),
        thread,
        type_name,
        message,
        raised_at: place(raised_at),
        user_code: place(user_code),
        causes,
    };
    let event = Event::Exception(Box::new(exception.bounded()));
    py.detach(|| append_event(&run_dir, &event).is_ok())
}
