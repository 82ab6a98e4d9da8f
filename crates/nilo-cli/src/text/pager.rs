//! Waiting for the pager that shows the command's output: `nilo run -- COMMAND | less`.
//!
//! The summary goes to the terminal, which is less's until it is left. A signal that asks programs to end ends the wait at once;
//! the command has ended as it has, so we do not die of that signal.

use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nilo_sample::process::ProcessId;
use nilo_source::{Roots, pipe_readers, process_id};
use rustix::termios::{LocalModes, tcgetattr, tcgetpgrp};

/// How often we look whether the terminal is free.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Returns when no program that reads our output has the terminal to itself, and whether the terminal is there to be written to:
/// not where a signal ended the wait.
///
/// Our standard output is given up, so that its reader sees the end of the text.
pub(crate) fn wait_for_pager() -> bool {
    let stderr = std::io::stderr();
    if !stderr.is_terminal() || !is_foreground(&stderr) || !is_taken(&stderr) {
        return true;
    }
    let readers = pipe_readers(&Roots::default(), std::io::stdout());
    if readers.is_empty() || give_up_stdout().is_err() {
        return true;
    }
    let requests = RequestsToEnd::listen();
    // Twice in a row: a pager that is stopped and continued lets the terminal go for a moment.
    let mut looks_free = 0;
    while looks_free < 2 && readers.iter().any(is_alive) {
        if requests.came() {
            return false;
        }
        std::thread::sleep(LOOK_EVERY);
        let is_free = is_foreground(&stderr) && !is_taken(&stderr);
        looks_free = if is_free { looks_free + 1 } else { 0 };
    }
    true
}

/// Requests to end that arrive, until dropped. Those that were ignored (`nohup`) stay ignored.
struct RequestsToEnd {
    before: Vec<(i32, libc::sighandler_t)>,
}

static CAME: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: i32) {
    CAME.store(true, Ordering::Relaxed);
}

impl RequestsToEnd {
    fn listen() -> RequestsToEnd {
        let mut before = Vec::new();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
            let handler = note as *const () as libc::sighandler_t;
            // SAFETY: the handler only stores to an atomic.
            let old = unsafe { libc::signal(signal, handler) };
            before.push((signal, old));
            if old == libc::SIG_IGN {
                // SAFETY: puts back what was there.
                unsafe { libc::signal(signal, old) };
            }
        }
        RequestsToEnd { before }
    }

    fn came(&self) -> bool {
        CAME.load(Ordering::Relaxed)
    }
}

impl Drop for RequestsToEnd {
    fn drop(&mut self) {
        for (signal, old) in &self.before {
            // SAFETY: puts back what `listen` found.
            unsafe { libc::signal(*signal, *old) };
        }
    }
}

fn is_alive(reader: &ProcessId) -> bool {
    process_id(&Roots::default(), reader.pid).is_ok_and(|now| now == *reader)
}

fn is_foreground(terminal: &impl AsFd) -> bool {
    tcgetpgrp(terminal).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Editors and pagers read key by key; everybody else reads lines.
fn is_taken(terminal: &impl AsFd) -> bool {
    tcgetattr(terminal).is_ok_and(|modes| !modes.local_modes.contains(LocalModes::ICANON))
}

fn give_up_stdout() -> std::io::Result<()> {
    let nowhere = std::fs::File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    Ok(())
}
