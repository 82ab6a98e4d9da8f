//! Exceptions that nobody caught go into the run.

use std::path::PathBuf;

use nilo_recorder::stored_exception;
use nilo_runfile::append_event;
use nilo_sample::{CodePlace, Event, UnhandledException};
use pyo3::prelude::*;

use crate::project::decide_privacy_once;
use crate::text::Text;

/// A file, a line and a function.
type FramePlace = (Text, u32, Text);

/// Adds an unhandled exception to a run. Works at any time, also when the stream of this process is closed; false when it could not be stored.
#[pyfunction]
#[pyo3(signature = (run_dir, type_name, message, *, thread=None, cell=None, raised_at=None, user_code=None, frames=Vec::new(), causes=Vec::new()))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn record_exception(
    py: Python<'_>,
    run_dir: PathBuf,
    type_name: Text,
    message: Text,
    thread: Option<Text>,
    cell: Option<u64>,
    raised_at: Option<FramePlace>,
    user_code: Option<FramePlace>,
    frames: Vec<FramePlace>,
    causes: Vec<Text>,
) -> bool {
    let place = |(file, line, function): FramePlace| CodePlace {
        file: file.0,
        line,
        function: function.0,
    };
    let exception = UnhandledException {
        pid: std::process::id(),
        thread: thread.map(|text| text.0),
        cell,
        type_name: type_name.0,
        message: message.0,
        raised_at: raised_at.map(place),
        user_code: user_code.map(place),
        frames: frames.into_iter().map(place).collect(),
        causes: causes.into_iter().map(|text| text.0).collect(),
    };
    decide_privacy_once();
    // Cut first: a huge message is not read to its end.
    let exception = stored_exception(exception.bounded()).bounded();
    let event = Event::Exception(Box::new(exception));
    py.detach(|| append_event(&run_dir, &event).is_ok())
}
