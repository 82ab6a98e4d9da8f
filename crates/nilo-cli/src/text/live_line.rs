//! What shows the level while a job runs, and the CSV log beside it.
//!
//! In a terminal of our own it is a line that is drawn over again.
//! A terminal that a command of ours writes to belongs to the command: the level is in the title of its window.

use std::fs::File;
use std::io::{IsTerminal, Write};

use nilo_export::CsvLog;
use nilo_recorder::{LiveReading, Observer};
use nilo_sample::units::{format_bytes, to_secs};

use super::deferred_warnings::DeferredWarnings;
use super::terminal_title::TerminalTitle;
use crate::args::LiveMode as When;
use crate::failure::write_line;

const SECOND: u64 = 1_000_000_000;

/// How the level is shown.
enum LiveLineStyle {
    /// One line that is drawn over again.
    InPlace(InPlace),
    /// In the title of the window.
    Title(TerminalTitle),
    /// A line of its own each second.
    Lines,
    Off,
}

/// Shows readings and logs them.
pub(crate) struct LiveLine {
    style: LiveLineStyle,
    every_nanos: u64,
    next_nanos: u64,
    /// For the title, until the processes are known that it waits for.
    title: Option<String>,
    log: Option<CsvLog<File>>,
    log_failed: bool,
    /// Whether notices are wanted.
    quiet: bool,
    deferred: DeferredWarnings,
}

impl LiveLine {
    /// For a terminal that nobody else writes to.
    pub(crate) fn own_terminal(when: When, quiet: bool, log: Option<CsvLog<File>>) -> LiveLine {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let terminal = std::io::stderr().is_terminal() && !dumb;
        let style = match when {
            _ if quiet => LiveLineStyle::Off,
            When::Never => LiveLineStyle::Off,
            When::Auto | When::Always if terminal => LiveLineStyle::InPlace(InPlace::default()),
            When::Always => LiveLineStyle::Lines,
            When::Auto => LiveLineStyle::Off,
        };
        LiveLine::new(style, quiet, log, DeferredWarnings::default())
    }

    /// For a terminal that our command writes to.
    pub(crate) fn commands_terminal(
        when: When,
        quiet: bool,
        log: Option<CsvLog<File>>,
        deferred: DeferredWarnings,
    ) -> LiveLine {
        let title = match when {
            When::Auto | When::Always if !quiet => TerminalTitle::open(),
            _ => None,
        };
        let style = match (title, when) {
            (Some(title), _) => LiveLineStyle::Title(title),
            (None, When::Always) if !quiet => LiveLineStyle::Lines,
            _ => LiveLineStyle::Off,
        };
        LiveLine::new(style, quiet, log, deferred)
    }

    fn new(
        style: LiveLineStyle,
        quiet: bool,
        log: Option<CsvLog<File>>,
        deferred: DeferredWarnings,
    ) -> LiveLine {
        LiveLine {
            every_nanos: match style {
                LiveLineStyle::InPlace(_) => SECOND / 10,
                _ => SECOND,
            },
            style,
            next_nanos: 0,
            title: None,
            log,
            log_failed: false,
            quiet,
            deferred,
        }
    }

    /// Takes the line away, so that the summary starts on a clean one.
    pub(crate) fn clear(&mut self) {
        if let LiveLineStyle::InPlace(line) = &mut self.style {
            line.clear();
        }
    }

    fn draw(&mut self, live: &LiveReading) {
        if live.time_nanos < self.next_nanos {
            return;
        }
        // A command that ends within a second gets its summary and nothing else.
        let first = self.next_nanos == 0 && self.every_nanos == SECOND;
        self.next_nanos = live.time_nanos - live.time_nanos % self.every_nanos + self.every_nanos;
        if first {
            return;
        }
        match &mut self.style {
            LiveLineStyle::InPlace(line) if may_draw() => line.draw(&live_text(live, columns())),
            LiveLineStyle::Lines => write_line(&live_text(live, usize::MAX)),
            LiveLineStyle::Title(_) => self.title = Some(title_text(live, &self.deferred)),
            _ => {}
        }
    }

    fn write_log(&mut self, live: &LiveReading) {
        let Some(log) = &mut self.log else { return };
        let written = log.row(live.time_nanos, live.memory_bytes as f64, live.cpu_percent);
        if let Err(error) = written
            && !std::mem::replace(&mut self.log_failed, true)
        {
            let text = format!("the memory log has gaps from here on: {error}");
            self.deferred.warn(&text);
        }
    }
}

impl Observer for LiveLine {
    fn on_tick(&mut self, live: &LiveReading) {
        self.write_log(live);
        self.draw(live);
    }

    fn on_processes(&mut self, pids: &mut dyn Iterator<Item = u32>) {
        if let Some(text) = self.title.take()
            && let LiveLineStyle::Title(title) = &self.style
        {
            title.show(text, pids.collect());
        }
    }

    fn on_notice(&mut self, text: &str) {
        if !self.quiet {
            self.clear();
            self.deferred.warn(text);
        }
    }
}

/// A line that is drawn over again, with the cursor in its first column.
#[derive(Debug, Default)]
pub(crate) struct InPlace {
    drawn_chars: usize,
}

impl InPlace {
    /// Draws a line over the one before.
    pub(crate) fn draw(&mut self, text: &str) {
        let width = columns();
        let text: String = text.chars().take(width).collect();
        // Without wrapping: a terminal may tell us later than its screen that it has become narrower (tmux takes up to 250 ms).
        let line = format!("{}\x1b[?7l{text}\x1b[?7h\r", self.erasing(width + 1));
        self.drawn_chars = text.chars().count();
        // In one piece, so that nothing is seen half drawn.
        std::io::stderr().write_all(line.as_bytes()).ok();
    }

    /// Takes the line away.
    pub(crate) fn clear(&mut self) {
        if self.drawn_chars > 0 {
            let erasing = self.erasing(columns() + 1);
            std::io::stderr().write_all(erasing.as_bytes()).ok();
        }
        self.drawn_chars = 0;
    }

    /// Erases every row that the line takes: a window that became narrower has wrapped it.
    ///
    /// Not with "everything below the cursor", which tmux moves into its history where the line is on the first row.
    fn erasing(&self, width: usize) -> String {
        let more_rows = self.drawn_chars.saturating_sub(1) / width.max(1);
        let mut sequence = "\r\x1b[K".to_owned();
        if more_rows > 0 {
            sequence += &"\x1b[B\x1b[K".repeat(more_rows);
            sequence += &format!("\x1b[{more_rows}A");
        }
        sequence
    }
}

/// The width that a line may have on standard error without being wrapped.
pub(crate) fn columns() -> usize {
    terminal_size::terminal_size_of(std::io::stderr())
        .map_or(79, |(width, _)| usize::from(width.0).saturating_sub(1))
}

/// `Time:   15.2s | Memory:   45.67 MiB | Peak:   45.67 MiB | CPU:  85.3%`, with fewer fields where there is no room.
pub(crate) fn live_text(live: &LiveReading, most: usize) -> String {
    let time = format!("Time: {:6.1}s", to_secs(live.time_nanos));
    let memory = format!("Memory: {:>11}", format_bytes(live.memory_bytes as f64));
    let peak = format!("Peak: {:>11}", format_bytes(live.peak_bytes as f64));
    let cpu = format!("CPU: {:5.1}%", live.cpu_percent);
    let bytes = format_bytes(live.memory_bytes as f64);
    let choices: [&[&str]; 5] = [
        &[&time, &memory, &peak, &cpu],
        &[&time, &memory, &peak],
        &[&memory, &peak],
        &[&memory],
        &[&bytes],
    ];
    let mut texts = choices.iter().map(|fields| fields.join(" | "));
    texts.find(|text| text.len() <= most).unwrap_or_default()
}

/// As for the line, with what matters most where the title is cut.
fn title_text(live: &LiveReading, deferred: &DeferredWarnings) -> String {
    let alert = deferred.current_alert();
    format!(
        "{}Memory: {} | Peak: {} | CPU: {:.1}% | Time: {:.0}s",
        alert.map_or(String::new(), |alert| format!("[{alert}] ")),
        format_bytes(live.memory_bytes as f64),
        format_bytes(live.peak_bytes as f64),
        live.cpu_percent,
        to_secs(live.time_nanos),
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
        let live = LiveReading {
            time_nanos: 15_200_000_000,
            memory_bytes: 47_888_465,
            peak_bytes: 47_888_465,
            cpu_percent: 85.3,
            ..LiveReading::default()
        };
        assert_eq!(
            live_text(&live, 79),
            "Time:   15.2s | Memory:   45.67 MiB | Peak:   45.67 MiB | CPU:  85.3%"
        );
        assert_eq!(
            live_text(&live, 59),
            "Time:   15.2s | Memory:   45.67 MiB | Peak:   45.67 MiB"
        );
        assert_eq!(live_text(&live, 20), "Memory:   45.67 MiB");
        assert_eq!(live_text(&live, 10), "45.67 MiB");
        assert_eq!(live_text(&live, 5), "");
    }

    #[test]
    fn a_wrapped_line_is_erased_row_by_row() {
        let line = InPlace { drawn_chars: 70 };
        assert_eq!(line.erasing(80), "\r\x1b[K");
        assert_eq!(line.erasing(70), "\r\x1b[K");
        assert_eq!(line.erasing(30), "\r\x1b[K\x1b[B\x1b[K\x1b[B\x1b[K\x1b[2A");
    }
}
