//! The title of the terminal's window: the one place of the job's terminal where a figure does not touch its text.
//!
//! The title travels between the job's own bytes, so it is written with care:
//! - in one `write`, which the kernel does not mix with others;
//! - only while the job pauses (`output_pause.rs`): an escape sequence that falls into another one, or between two bytes of a character,
//!   breaks both, and some programs write those in pieces;
//! - only by the foreground job, while the terminal is in line mode: editors and pagers have the title to themselves;
//! - only to terminals that are known to have a title: others print it.
//!
//! All of it happens on a thread of its own, because a terminal that is held (Ctrl-S) blocks whoever writes.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use nilo_source::reopen_stderr;

use super::live_line::may_draw;
use super::output_pause::OutputPauses;
use super::title_on_stop::{is_shown, mark_gone, mark_shown, watch_for_stops};

/// Values of TERM begin like this where OSC 2 sets a title.
const KNOWN: [&str; 18] = [
    "xterm",
    "tmux",
    "screen",
    "rxvt",
    "alacritty",
    "foot",
    "kitty",
    "wezterm",
    "ghostty",
    "konsole",
    "gnome",
    "vte",
    "st-",
    "contour",
    "iterm",
    "mintty",
    "putty",
    "nsterm",
];
/// At the end, a terminal that does not take the old title back is left alone after this time.
const LAST_WAIT: Duration = Duration::from_millis(500);

/// XTWINOPS: keeps the title on the terminal's stack, and takes it from there.
const PUSH: &str = "\x1b[22;2t";
pub(super) const POP: &str = "\x1b[23;2t";

/// A title to show.
struct TitleUpdate {
    text: String,
    /// The processes that may write to the terminal.
    pids: Vec<u32>,
}

/// Shows titles until dropped; then the old one is back.
pub(crate) struct TerminalTitle {
    updates: Option<SyncSender<TitleUpdate>>,
    ended: Receiver<()>,
}

impl TerminalTitle {
    /// `None` where standard error is no terminal that is known to have a title.
    pub(crate) fn open() -> Option<TerminalTitle> {
        let term = std::env::var("TERM").unwrap_or_default();
        if !io::stderr().is_terminal() || !has_title(&term) {
            return None;
        }
        // A description of our own: the job may have set its copy of standard error not to block.
        let terminal = reopen_stderr(0).ok().filter(File::is_terminal)?;
        // Who is busy with one title gets only one more.
        let (updates, waiting) = sync_channel(1);
        let (ending, ended) = channel::<()>();
        let show = move || {
            let _ending = ending;
            leave_signals_to_others();
            show_titles(terminal, &waiting);
        };
        let thread = thread::Builder::new().name("nilo-title".to_owned());
        thread.spawn(show).ok()?;
        Some(TerminalTitle {
            updates: Some(updates),
            ended,
        })
    }

    pub(crate) fn show(&self, text: String, pids: Vec<u32>) {
        if let Some(updates) = &self.updates {
            updates.try_send(TitleUpdate { text, pids }).ok();
        }
    }
}

impl Drop for TerminalTitle {
    fn drop(&mut self) {
        self.updates = None;
        self.ended.recv_timeout(LAST_WAIT).ok();
    }
}

fn has_title(term: &str) -> bool {
    KNOWN.iter().any(|known| term.starts_with(known)) || term == "st"
}

fn leave_signals_to_others() {
    // SAFETY: changes the mask of this thread alone.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
    }
}

fn show_titles(mut terminal: File, updates: &Receiver<TitleUpdate>) {
    let mut shown: Option<String> = None;
    let mut pauses = OutputPauses::default();
    for update in updates {
        let is_there = is_shown() && shown.as_ref() == Some(&update.text);
        if is_there || !pauses.wait_for_one(&update.pids, may_draw) {
            continue;
        }
        if shown.is_none() {
            watch_for_stops();
        }
        let push = if mark_shown() { "" } else { PUSH };
        let sequence = format!("{push}\x1b]2;{}\x07", update.text);
        if terminal.write_all(sequence.as_bytes()).is_err() {
            return;
        }
        shown = Some(update.text);
    }
    if mark_gone() {
        terminal.write_all(POP.as_bytes()).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_that_print_a_title_get_none() {
        for term in [
            "xterm-256color",
            "tmux-256color",
            "screen",
            "st",
            "st-256color",
        ] {
            assert!(has_title(term), "{term}");
        }
        for term in [
            "", "dumb", "linux", "vt100", "vt220", "ansi", "emacs", "stuff",
        ] {
            assert!(!has_title(term), "{term}");
        }
    }
}
