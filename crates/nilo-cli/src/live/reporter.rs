//! What a live verb says while it looks: warnings, their end, leaks and levels, in words or as one JSON object a line.

use std::io::{self, Write};

use nilo_analysis::assessment::Thresholds;
use nilo_analysis::tracking::ResourceVerdict;
use nilo_answer::monitor::{MonitorEnd, MonitorEvent};
use nilo_answer::oom::ResourceRisk;
use nilo_sample::Alert;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub(crate) use super::level_line::LevelDisplay;
use super::level_line::LevelLine;
use crate::args::TextOrJson;
use crate::screen::Screen;
use crate::text::json::write_json_line;
use crate::text::one_line::one_line;
use crate::text::oom::write_warning;
use crate::wrap::WrappingWriter;

const TEXT_CHARS: usize = 400;

/// How to say it.
pub(crate) struct Reporter {
    format: TextOrJson,
    line: LevelLine,
    thresholds: Thresholds,
    is_silent: bool,
}

impl Reporter {
    pub(crate) fn new(
        format: TextOrJson,
        levels: LevelDisplay,
        threshold_percent: f64,
    ) -> Reporter {
        Reporter {
            thresholds: Thresholds::from_percent(threshold_percent),
            format,
            line: LevelLine::new(levels),
            is_silent: false,
        }
    }

    /// Whether somebody reads standard output, as far as the system knows: a pipe without a reader is in error.
    pub(crate) fn is_heard() -> bool {
        let stdout = io::stdout();
        let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
        let at_once = Timespec::default();
        let asked = poll(&mut fds, Some(&at_once));
        asked.is_err() || !fds[0].revents().contains(PollFlags::ERR)
    }

    /// Nobody listens any more.
    pub(crate) fn fall_silent(&mut self) {
        self.is_silent = true;
    }

    /// Takes the level line away.
    pub(crate) fn clear(&mut self) {
        self.line.clear();
    }

    pub(crate) fn warning(&mut self, risk: &ResourceRisk, time_nanos: u64) -> io::Result<()> {
        match self.format {
            TextOrJson::Json => self.event(&MonitorEvent::warning(risk, time_nanos)),
            TextOrJson::Text => self.say_text(|out| write_warning(out, risk)),
        }
    }

    pub(crate) fn over(&mut self, alert: &Alert) -> io::Result<()> {
        self.tell(MonitorEvent::over, ("[OK]", "OOM Warning over"), alert)
    }

    pub(crate) fn leak(&mut self, alert: &Alert) -> io::Result<()> {
        let words = match alert.raised {
            true => ("[WARNING]", "Memory Leak"),
            false => ("[OK]", "Memory Leak over"),
        };
        self.tell(MonitorEvent::leak, words, alert)
    }

    fn tell(
        &mut self,
        event: fn(&Alert) -> MonitorEvent,
        (tag, label): (&str, &str),
        alert: &Alert,
    ) -> io::Result<()> {
        match self.format {
            TextOrJson::Json => self.event(&event(alert)),
            TextOrJson::Text => {
                let text = one_line(&alert.text, TEXT_CHARS);
                let severity = if alert.raised { "warning" } else { "ok" };
                let tag = Screen::stdout().paint(severity, tag);
                self.say_text(|out| writeln!(out, "{tag} {label}: {text}"))
            }
        }
    }

    /// The levels of everything, as often as they are wanted.
    pub(crate) fn level(
        &mut self,
        risks: &[ResourceVerdict],
        duration_nanos: Option<u64>,
    ) -> io::Result<()> {
        let now = risks.iter().map(|risk| risk.reading.time_nanos);
        let Some(now_nanos) = now.max().filter(|_| !self.is_silent) else {
            return Ok(());
        };
        if self.format == TextOrJson::Text || self.line.is_in_place() {
            return self.line.show(risks, now_nanos, duration_nanos);
        }
        if !self.line.is_due(now_nanos) {
            return Ok(());
        }
        let each = risks.iter().cloned();
        let risks: Vec<ResourceRisk> = each
            .map(|risk| ResourceRisk::now(risk, &self.thresholds, None))
            .collect();
        self.event(&MonitorEvent::level(&risks, now_nanos))
    }

    fn event(&mut self, event: &MonitorEvent) -> io::Result<()> {
        self.say(|out| write_json_line(out, event))
    }

    /// Words, which fit the terminal; JSON stays on its line.
    fn say_text(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        self.say(|out| write(&mut WrappingWriter::new(out, Screen::stdout())))
    }

    fn say(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        if self.is_silent {
            return Ok(());
        }
        self.line.clear();
        let mut text = Vec::new();
        write(&mut text)?;
        // At once and in one piece: whoever reads a pipe waits for this.
        let mut out = io::stdout().lock();
        out.write_all(&text)?;
        out.flush()
    }
}

/// Writes the last line, with its keys in alphabetical order.
pub(crate) fn write_end(end: MonitorEnd) -> io::Result<()> {
    let event = MonitorEvent::End(Box::new(end));
    let sorted = serde_json::to_value(event)?;
    write_json_line(&mut io::stdout().lock(), &sorted)
}
