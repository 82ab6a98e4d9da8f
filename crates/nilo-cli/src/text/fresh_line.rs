//! A new line on standard error, if the command left one unfinished.

use std::fs::File;
use std::io::{IsTerminal, Stderr, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt};

/// Moves to the beginning of a line: the next one if the command left one unfinished, and nowhere if it did not.
pub(crate) fn begin_line() {
    let stderr = std::io::stderr();
    let moved = match stderr.is_terminal() {
        true => terminal_line(&stderr),
        false => log_line(&stderr).to_owned(),
    };
    stderr.lock().write_all(moved.as_bytes()).ok();
}

/// As zsh does before its prompt: as many spaces as the terminal has columns. From the first column they end in the last one,
/// where terminals wait for one more character before they go on to the next line; from any other column they end in the next line.
/// Asking the terminal for the cursor's place would mix its answer with what the user types.
fn terminal_line(stderr: &Stderr) -> String {
    if std::env::var("TERM").is_ok_and(|term| term == "dumb") {
        return String::new();
    }
    let Some((width, _)) = terminal_size::terminal_size_of(stderr) else {
        return String::new();
    };
    let spaces = " ".repeat(usize::from(width.0));
    format!("{spaces}\r\x1b[K")
}

/// The bar of a job's progress ends without a new line. A file tells; nobody can look into a pipe, and an empty line there is the lesser evil.
fn log_line(stderr: &Stderr) -> &'static str {
    let Ok(log) = stderr.as_fd().try_clone_to_owned().map(File::from) else {
        return "";
    };
    let Ok(metadata) = log.metadata() else {
        return "";
    };
    let kind = metadata.file_type();
    if kind.is_fifo() || kind.is_socket() {
        return "\n";
    }
    match kind.is_file() && is_line_unfinished(metadata.len()) {
        true => "\n",
        false => "",
    }
}

/// Whether the file that is our standard error ends in the middle of a line. We may write to it, not read: so it is opened anew.
fn is_line_unfinished(bytes: u64) -> bool {
    let mut last = [b'\n'];
    if bytes > 0
        && let Ok(log) = File::open("/dev/stderr")
    {
        log.read_exact_at(&mut last, bytes - 1).ok();
    }
    last != [b'\n']
}
