//! A new line on an output, if the command left one unfinished.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt};

/// Moves to the beginning of a line on standard error: the next one if the command left one unfinished, and nowhere if it did not.
pub(crate) fn begin_line() {
    let stderr = std::io::stderr();
    let moved = new_line(&stderr, "/dev/stderr");
    stderr.lock().write_all(moved.as_bytes()).ok();
}

/// The same on standard output.
pub(crate) fn begin_output_line() {
    let stdout = std::io::stdout();
    let moved = new_line(&stdout, "/dev/stdout");
    stdout.lock().write_all(moved.as_bytes()).ok();
}

/// What to write to be at the beginning of a line.
fn new_line(stream: &(impl IsTerminal + AsFd), path: &str) -> String {
    match stream.is_terminal() {
        true => terminal_line(stream),
        false => log_line(stream, path).to_owned(),
    }
}

/// As zsh does before its prompt: as many spaces as the terminal has columns. From the first column they end in the last one,
/// where terminals wait for one more character before they go on to the next line; from any other column they end in the next line.
/// Asking the terminal for the cursor's place would mix its answer with what the user types.
fn terminal_line(stream: &impl AsFd) -> String {
    if std::env::var("TERM").is_ok_and(|term| term == "dumb") {
        return String::new();
    }
    let Some((width, _)) = terminal_size::terminal_size_of(stream) else {
        return String::new();
    };
    let spaces = " ".repeat(usize::from(width.0));
    format!("{spaces}\r\x1b[K")
}

/// The bar of a job's progress ends without a new line. A file tells; nobody can look into a pipe, and an empty line there is the lesser evil.
fn log_line(stream: &impl AsFd, path: &str) -> &'static str {
    let Ok(log) = stream.as_fd().try_clone_to_owned().map(File::from) else {
        return "";
    };
    let Ok(metadata) = log.metadata() else {
        return "";
    };
    let kind = metadata.file_type();
    if kind.is_fifo() || kind.is_socket() {
        return "\n";
    }
    match kind.is_file() && is_line_unfinished(path, metadata.len()) {
        true => "\n",
        false => "",
    }
}

/// Whether the file that is our output ends in the middle of a line. We may write to it, not read: so it is opened anew.
fn is_line_unfinished(path: &str, bytes: u64) -> bool {
    let mut last = [b'\n'];
    if bytes > 0
        && let Ok(log) = File::open(path)
    {
        log.read_exact_at(&mut last, bytes - 1).ok();
    }
    last != [b'\n']
}
