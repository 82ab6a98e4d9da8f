//! Errors as the user sees them: one sentence, a hint, an exit status.

use std::fmt;
use std::io::{IsTerminal, Write};

use nilo_runfile::RunfileError;
use nilo_sample::printable::is_printable;

use crate::screen::Screen;
use crate::wrap::wrap_lines;

/// The status for "could not do it".
const COULD_NOT: u8 = 2;
/// The status of who dies of a closed pipe, as shells tell it.
const PIPE_CLOSED: u8 = 128 + libc::SIGPIPE as u8;

/// Why a verb could not do what was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    error: anyhow::Error,
    hint: Option<String>,
    code: u8,
}

impl Failure {
    pub(crate) fn new(sentence: impl fmt::Display) -> Failure {
        Failure {
            error: anyhow::anyhow!("{sentence}"),
            hint: None,
            code: COULD_NOT,
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn code(mut self, code: u8) -> Failure {
        self.code = code;
        self
    }

    /// The error and its causes, each said once even when an error quotes its cause.
    pub(crate) fn sentence(&self) -> String {
        let mut sentence = String::new();
        for cause in self.error.chain().map(|cause| cause.to_string()) {
            if sentence.is_empty() {
                sentence = cause;
            } else if !sentence.contains(&cause) {
                sentence = format!("{sentence}: {cause}");
            }
        }
        sentence
    }

    /// The exit status that it leads to.
    pub(crate) fn status(&self) -> u8 {
        self.code
    }

    /// Whether the reader of our output closed the pipe.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        let closed = |cause: &(dyn std::error::Error + 'static)| {
            let io = cause.downcast_ref::<std::io::Error>();
            io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
        };
        self.error.chain().any(closed)
    }

    /// Prints the failure and gives the exit status.
    pub(crate) fn report(&self) -> u8 {
        // Whoever closed the pipe has seen enough; there is nobody to tell.
        if self.is_closed_pipe() {
            return PIPE_CLOSED;
        }
        say("error", &self.sentence());
        let known = || {
            self.error
                .downcast_ref::<RunfileError>()
                .and_then(RunfileError::hint)
        };
        if let Some(hint) = self.hint.as_deref().or_else(known) {
            say("hint", hint);
        }
        self.code
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure {
            error: error.into(),
            hint: None,
            code: COULD_NOT,
        }
    }
}

/// The verdict after it was written: it stands, also where the reader has seen enough of it.
pub(crate) fn verdict_status(
    status: u8,
    written: Result<(), impl Into<Failure>>,
) -> Result<u8, Failure> {
    match written.map_err(Into::into) {
        Err(failure) if !failure.is_closed_pipe() => Err(failure),
        _ => Ok(status),
    }
}

/// Adds a hint to an error on its way out.
pub(crate) trait WithHint<T> {
    fn hint(self, hint: &str) -> Result<T, Failure>;
}

impl<T, E: Into<Failure>> WithHint<T> for Result<T, E> {
    fn hint(self, hint: &str) -> Result<T, Failure> {
        self.map_err(|error| error.into().hint(hint))
    }
}

/// A warning: the work goes on.
pub(crate) fn warn(text: &str) {
    say("warning", text);
}

/// An alert, or trouble in telling of one, from another thread than the one that draws the live line.
///
/// With `after_others`, a command writes to the same log. Where its last line ends cannot be known: an empty one does no harm.
pub(crate) fn alert(severity: &str, text: &str, after_others: bool) {
    let before = match (std::io::stderr().is_terminal(), after_others) {
        // The live line is drawn again at the next tick.
        (true, _) => "\r\x1b[K",
        (false, true) => "\n",
        (false, false) => "",
    };
    let line = wrap_lines(&labelled(severity, text), Screen::stderr());
    write_line(&format!("{before}{line}"));
}

/// A word between: the work goes on as it should.
pub(crate) fn note(text: &str) {
    say("nilo", text);
}

fn say(label: &str, text: &str) {
    write_line(&wrap_lines(&labelled(label, text), Screen::stderr()));
}

fn labelled(label: &str, text: &str) -> String {
    // Names of files, runs and processes may hold anything.
    let keeps = |c: char| c == '\n' || is_printable(c);
    let text: String = text
        .chars()
        .map(|c| if keeps(c) { c } else { ' ' })
        .collect();
    let label = Screen::stderr().paint(label, &format!("{label}:"));
    format!("{label} {text}")
}

/// Writes a line to standard error in one piece: the command may write into the same pipe.
pub(crate) fn write_line(line: &str) {
    let line = format!("{line}\n");
    std::io::stderr().write_all(line.as_bytes()).ok();
}
