//! What shows the level while a job runs, and the CSV log beside it.
//!
//! In a terminal of our own it is a line that is drawn over again.
//! A terminal that a command of ours writes to belongs to the command: the level is in the title of its window.

use std::fs::File;
use std::io::{IsTerminal, Write};

use nilo_export::CsvLog;
use nilo_recorder::{Live, Observer};
use nilo_sample::units::{format_bytes, to_secs};

use super::held_back::HeldBack;
use super::terminal_title::TerminalTitle;
use crate::args::Live as When;

const SECOND: u64 = 1_000_000_000;

/// How the level is shown.
enum Style {
    /// One line that is drawn over again.
    InPlace,
    /// In the title of the window.
    Title(TerminalTitle),
    /// A line of its own each second.
    Lines,
    Off,
}

/// Shows readings and logs them.
pub(crate) struct LiveLine {
    style: Style,
    every_nanos: u64,
    next_nanos: u64,
    drawn: bool,
    /// For the title, until the processes are known that it waits for.
    title: Option<String>,
    log: Option<CsvLog<File>>,
    log_failed: bool,
    /// Whether notices are wanted.
    quiet: bool,
    held_back: HeldBack,
}

impl LiveLine {
    /// For a terminal that nobody else writes to.
    pub(crate) fn own_terminal(when: When, quiet: bool, log: Option<CsvLog<File>>) -> LiveLine {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let terminal = std::io::stderr().is_terminal() && !dumb;
        let style = match when {
            _ if quiet => Style::Off,
            When::Never => Style::Off,
            When::Auto | When::Always if terminal => Style::InPlace,
            When::Always => Style::Lines,
            When::Auto => Style::Off,
        };
        LiveLine::new(style, quiet, log, HeldBack::default())
    }

    /// For a terminal that our command writes to.
    pub(crate) fn commands_terminal(
        when: When,
        quiet: bool,
        log: Option<CsvLog<File>>,
        held_back: HeldBack,
    ) -> LiveLine {
        let title = match when {
            When::Auto | When::Always if !quiet => TerminalTitle::open(),
            _ => None,
        };
        let style = match (title, when) {
            (Some(title), _) => Style::Title(title),
            (None, When::Always) if !quiet => Style::Lines,
            _ => Style::Off,
        };
        LiveLine::new(style, quiet, log, held_back)
    }

    fn new(style: Style, quiet: bool, log: Option<CsvLog<File>>, held_back: HeldBack) -> LiveLine {
        LiveLine {
            every_nanos: match style {
                Style::InPlace => SECOND / 10,
                _ => SECOND,
            },
            style,
            next_nanos: 0,
            drawn: false,
            title: None,
            log,
            log_failed: false,
            quiet,
            held_back,
        }
    }

    /// Takes the line away, so that the summary starts on a clean one.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) && matches!(self.style, Style::InPlace) {
            std::io::stderr().write_all(CLEAR.as_bytes()).ok();
        }
    }

    fn draw(&mut self, live: &Live) {
        if live.time_nanos < self.next_nanos {
            return;
        }
        // A command that ends within a second gets its summary and nothing else.
        let first = self.next_nanos == 0 && self.every_nanos == SECOND;
        self.next_nanos = live.time_nanos - live.time_nanos % self.every_nanos + self.every_nanos;
        if first {
            return;
        }
        match self.style {
            Style::InPlace if may_draw() => draw_in_place(&live_text(live, columns())),
            Style::Lines => {
                let text = live_text(live, usize::MAX);
                writeln!(std::io::stderr(), "{text}").ok();
            }
            Style::Title(_) => self.title = Some(title_text(live, &self.held_back)),
            _ => return,
        }
        self.drawn = true;
    }

    fn write_log(&mut self, live: &Live) {
        let Some(log) = &mut self.log else { return };
        let written = log.row(live.time_nanos, live.memory_bytes as f64, live.cpu_percent);
        if let Err(error) = written
            && !std::mem::replace(&mut self.log_failed, true)
        {
            let text = format!("the memory log has holes from here on: {error}");
            self.held_back.warn(&text);
        }
    }
}

impl Observer for LiveLine {
    fn on_tick(&mut self, live: &Live) {
        self.write_log(live);
        self.draw(live);
    }

    fn on_processes(&mut self, pids: &mut dyn Iterator<Item = u32>) {
        if let Some(text) = self.title.take()
            && let Style::Title(title) = &self.style
        {
            title.show(text, pids.collect());
        }
    }

    fn on_notice(&mut self, text: &str) {
        if !self.quiet {
            self.clear();
            self.held_back.warn(text);
        }
    }
}

/// To the first column, and everything from there: a line that a narrower window wrapped has a second row.
pub(crate) const CLEAR: &str = "\r\x1b[J";

/// Draws a line over the one before, and leaves the cursor in the first column.
pub(crate) fn draw_in_place(text: &str) {
    let line = format!("{CLEAR}{text}\r");
    // In one piece, so that nothing is seen half drawn.
    std::io::stderr().write_all(line.as_bytes()).ok();
}

/// The width that a line may have on standard error without being wrapped.
pub(crate) fn columns() -> usize {
    terminal_size::terminal_size_of(std::io::stderr())
        .map_or(79, |(width, _)| usize::from(width.0).saturating_sub(1))
}

/// `Time:   15.2s | Memory:   45.67 MiB | Peak:   45.67 MiB | CPU:  85.3%`, with fewer fields where there is no room.
pub(crate) fn live_text(live: &Live, most: usize) -> String {
    let time = format!("Time: {:6.1}s", to_secs(live.time_nanos));
    let memory = format!("Memory: {:>11}", format_bytes(live.memory_bytes as f64));
    let peak = format!("Peak: {:>11}", format_bytes(live.peak_bytes as f64));
    let cpu = format!("CPU: {:5.1}%", live.cpu_percent);
    let choices: [&[&str]; 4] = [
        &[&time, &memory, &peak, &cpu],
        &[&time, &memory, &peak],
        &[&memory, &peak],
        &[&memory],
    ];
    let mut texts = choices.iter().map(|fields| fields.join(" | "));
    texts.find(|text| text.len() <= most).unwrap_or_default()
}

/// As for the line, with what matters most where the title is cut.
fn title_text(live: &Live, held_back: &HeldBack) -> String {
    let alert = held_back.current_alert();
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
        let live = Live {
            time_nanos: 15_200_000_000,
            memory_bytes: 47_888_465,
            peak_bytes: 47_888_465,
            cpu_percent: 85.3,
            ..Live::default()
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
        assert_eq!(live_text(&live, 10), "");
    }
}
