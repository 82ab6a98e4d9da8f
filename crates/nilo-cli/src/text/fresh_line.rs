//! A new line on the terminal, if the command left one unfinished.

use std::io::{IsTerminal, Write};

/// Moves to the beginning of a line: the next one if the cursor stands in the middle of a line, and nowhere if it does not.
///
/// As zsh does before its prompt: as many spaces as the terminal has columns. From the first column they end in the last one,
/// where terminals wait for one more character before they go on to the next line; from any other column they end in the next line.
/// Asking the terminal for the cursor's place would mix its answer with what the user types.
pub(crate) fn begin_line() {
    let stderr = std::io::stderr();
    if !stderr.is_terminal() || std::env::var("TERM").is_ok_and(|term| term == "dumb") {
        return;
    }
    let Some((width, _)) = terminal_size::terminal_size_of(&stderr) else {
        return;
    };
    let spaces = " ".repeat(usize::from(width.0));
    let line = format!("{spaces}\r\x1b[K");
    stderr.lock().write_all(line.as_bytes()).ok();
}
