//! What a live verb says while it looks: warnings, their end, leaks and levels, in words or as one JSON object a line.

use std::io::{self, Write};

use nilo_analysis::assessment::{Thresholds, assess_verdict};
use nilo_analysis::tracking::Verdict;
use nilo_sample::Alert;
use nilo_sample::units::to_secs;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use super::level_line::LevelLine;
pub(crate) use super::level_line::Levels;
use crate::args::TextOrJson;
use crate::commands::oom::{AnswerResource, Danger};
use crate::text::json::write_json_line;
use crate::text::one_line::one_line;
use crate::text::oom::write_warning;
use crate::text::screen::Screen;

const TEXT_CHARS: usize = 400;

/// How to say it.
pub(crate) struct Reporter {
    format: TextOrJson,
    line: LevelLine,
    thresholds: Thresholds,
    is_silent: bool,
}

/// An event as JSON.
#[derive(Serialize)]
struct Spoken<'a, T> {
    event: &'static str,
    secs: f64,
    #[serde(flatten)]
    what: &'a T,
}

/// A level as JSON.
#[derive(Serialize)]
struct LevelsSpoken<'a> {
    resources: Vec<AnswerResource<'a>>,
}

impl Reporter {
    pub(crate) fn new(format: TextOrJson, levels: Levels, threshold_percent: f64) -> Reporter {
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

    pub(crate) fn warning(&mut self, danger: &Danger, time_nanos: u64) -> io::Result<()> {
        let resource = AnswerResource::of(danger, time_nanos);
        match self.format {
            TextOrJson::Json => self.object("warning", time_nanos, &resource),
            TextOrJson::Text => self.say(|out| write_warning(out, danger)),
        }
    }

    pub(crate) fn over(&mut self, alert: &Alert) -> io::Result<()> {
        self.tell("over", ("[OK]", "OOM Warning over"), alert)
    }

    pub(crate) fn leak(&mut self, alert: &Alert) -> io::Result<()> {
        match alert.raised {
            true => self.tell("leak", ("[WARNING]", "Memory Leak"), alert),
            false => self.tell("leak-over", ("[OK]", "Memory Leak over"), alert),
        }
    }

    fn tell(
        &mut self,
        event: &'static str,
        (tag, label): (&str, &str),
        alert: &Alert,
    ) -> io::Result<()> {
        match self.format {
            TextOrJson::Json => self.object(event, alert.time_nanos, alert),
            TextOrJson::Text => {
                let text = one_line(&alert.text, TEXT_CHARS);
                let severity = if alert.raised { "warning" } else { "ok" };
                let tag = Screen::stdout().paint(severity, tag);
                self.say(|out| writeln!(out, "{tag} {label}: {text}"))
            }
        }
    }

    /// The levels of everything, as often as they are wanted.
    pub(crate) fn level(
        &mut self,
        risks: &[Verdict],
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
        let dangers: Vec<Danger> = risks
            .iter()
            .map(|risk| Danger {
                assessment: assess_verdict(risk, &self.thresholds, None),
                verdict: risk.clone(),
                history: Vec::new(),
            })
            .collect();
        let of = |danger| AnswerResource::of(danger, now_nanos);
        let levels = LevelsSpoken {
            resources: dangers.iter().map(of).collect(),
        };
        self.object("level", now_nanos, &levels)
    }

    fn object(
        &mut self,
        event: &'static str,
        time_nanos: u64,
        what: &impl Serialize,
    ) -> io::Result<()> {
        let spoken = Spoken {
            event,
            secs: to_secs(time_nanos),
            what,
        };
        self.say(|out| write_json_line(out, &spoken))
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
