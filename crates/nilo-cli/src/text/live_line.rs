//! The line that shows the level while a job runs, and the CSV log beside it.

use std::fs::File;
use std::io::{IsTerminal, Write};

use nilo_export::CsvLog;
use nilo_recorder::{Live, Observer};
use nilo_sample::units::{format_bytes, to_secs};

use crate::args::Live as When;
use crate::failure;

const SECOND: u64 = 1_000_000_000;

/// How the line is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// One line that is drawn over again.
    InPlace,
    /// A line of its own each second.
    Lines,
    Off,
}

/// Shows readings and logs them.
pub(crate) struct LiveLine {
    style: Style,
    /// The command shares our terminal: draw rarely, and not while it runs full-screen.
    shared: bool,
    next_nanos: u64,
    drawn: bool,
    log: Option<CsvLog<File>>,
    log_failed: bool,
    /// Whether notices are wanted.
    quiet: bool,
}

impl LiveLine {
    /// `shared`: a command of ours writes to the same terminal.
    pub(crate) fn new(
        when: When,
        quiet: bool,
        shared: bool,
        log: Option<CsvLog<File>>,
    ) -> LiveLine {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let terminal = std::io::stderr().is_terminal() && !dumb;
        let style = match when {
            _ if quiet => Style::Off,
            When::Never => Style::Off,
            When::Auto | When::Always if terminal => Style::InPlace,
            When::Always => Style::Lines,
            When::Auto => Style::Off,
        };
        let shared = shared && std::io::stdout().is_terminal();
        LiveLine {
            style,
            shared,
            next_nanos: 0,
            drawn: false,
            log,
            log_failed: false,
            quiet,
        }
    }

    /// Takes the line away, so that the summary starts on a clean one.
    pub(crate) fn clear(&mut self) {
        if self.drawn && self.style == Style::InPlace {
            write!(std::io::stderr().lock(), "\r\x1b[K").ok();
        }
        self.drawn = false;
    }

    fn draw(&mut self, live: &Live) {
        if self.style == Style::Off || live.time_nanos < self.next_nanos {
            return;
        }
        let every = match (self.style, self.shared) {
            (Style::InPlace, false) => SECOND / 10,
            _ => SECOND,
        };
        // A command that ends within a second gets its summary and nothing else.
        let first = self.next_nanos == 0 && every == SECOND;
        self.next_nanos = live.time_nanos - live.time_nanos % every + every;
        if first || (self.style == Style::InPlace && !may_draw()) {
            return;
        }
        let text = live_text(live);
        let mut stderr = std::io::stderr().lock();
        match self.style {
            Style::InPlace => {
                let width = terminal_size::terminal_size_of(std::io::stderr())
                    .map_or(80, |(width, _)| usize::from(width.0));
                let text: String = text.chars().take(width.saturating_sub(1)).collect();
                // Back to the first column, so that the command's next line starts where it would have.
                write!(stderr, "\r{text}\x1b[K\r").ok();
                stderr.flush().ok();
            }
            Style::Lines => {
                writeln!(stderr, "{text}").ok();
            }
            Style::Off => {}
        }
        self.drawn = true;
    }

    fn write_log(&mut self, live: &Live) {
        let Some(log) = &mut self.log else { return };
        let written = log.row(live.time_nanos, live.memory_bytes as f64, live.cpu_percent);
        if let Err(error) = written
            && !self.log_failed
        {
            self.log_failed = true;
            failure::warn(&format!("the memory log has holes from here on: {error}"));
        }
    }
}

impl Observer for LiveLine {
    fn on_tick(&mut self, live: &Live) {
        self.write_log(live);
        self.draw(live);
    }

    fn on_notice(&mut self, text: &str) {
        if !self.quiet {
            self.clear();
            failure::warn(text);
        }
    }
}

/// `Time:   15.2s | Memory:   45.67 MiB | Peak:   45.67 MiB | CPU:  85.3%`
pub(crate) fn live_text(live: &Live) -> String {
    format!(
        "Time: {:6.1}s | Memory: {:>11} | Peak: {:>11} | CPU: {:5.1}%",
        to_secs(live.time_nanos),
        format_bytes(live.memory_bytes as f64),
        format_bytes(live.peak_bytes as f64),
        live.cpu_percent,
    )
}

/// Only the foreground job may draw, and only while nobody has taken the terminal over (editors and the like switch line mode off).
pub(crate) fn may_draw() -> bool {
    let stderr = std::io::stderr();
    let foreground =
        rustix::termios::tcgetpgrp(&stderr).is_ok_and(|group| group == rustix::process::getpgrp());
    let line_mode = rustix::termios::tcgetattr(&stderr).is_ok_and(|terminal| {
        terminal
            .local_modes
            .contains(rustix::termios::LocalModes::ICANON)
    });
    foreground && line_mode
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_four_fields() {
        let live = Live {
            time_nanos: 15_200_000_000,
            memory_bytes: 47_888_465,
            peak_bytes: 47_888_465,
            cpu_percent: 85.3,
            ..Live::default()
        };
        assert_eq!(
            live_text(&live),
            "Time:   15.2s | Memory:   45.67 MiB | Peak:   45.67 MiB | CPU:  85.3%"
        );
    }
}
