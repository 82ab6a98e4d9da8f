//! The levels of everything looked at on one line: drawn over again on a terminal, a line now and then elsewhere.

use std::io::{self, IsTerminal, Write};

use nilo_analysis::tracking::ResourceVerdict;
use nilo_sample::units::{format_bytes, to_secs};

use crate::text::live_line::{InPlace, may_draw};
use crate::text::one_line::one_line;

/// In a pipe a line comes this often.
const LINE_NANOS: u64 = 5_000_000_000;
const NAME_CHARS: usize = 40;

/// Where levels are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LevelDisplay {
    /// Nowhere.
    Off,
    /// On a terminal only, as a sign of life.
    OnTerminal,
    /// On a terminal, or else as lines among the results.
    Always,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LevelLineStyle {
    Off,
    InPlace,
    Lines,
}

pub(crate) struct LevelLine {
    style: LevelLineStyle,
    next_nanos: u64,
    line: InPlace,
}

impl LevelLine {
    pub(crate) fn new(levels: LevelDisplay) -> LevelLine {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let terminal = io::stderr().is_terminal() && !dumb;
        let style = match levels {
            LevelDisplay::Off => LevelLineStyle::Off,
            _ if terminal => LevelLineStyle::InPlace,
            LevelDisplay::OnTerminal => LevelLineStyle::Off,
            LevelDisplay::Always => LevelLineStyle::Lines,
        };
        LevelLine {
            style,
            next_nanos: 0,
            line: InPlace::default(),
        }
    }

    pub(crate) fn is_in_place(&self) -> bool {
        self.style == LevelLineStyle::InPlace
    }

    /// Whether a line is due by its time, where lines are wanted.
    pub(crate) fn is_due(&mut self, now_nanos: u64) -> bool {
        let due = self.style == LevelLineStyle::Lines && now_nanos >= self.next_nanos;
        if due {
            self.next_nanos = now_nanos - now_nanos % LINE_NANOS + LINE_NANOS;
        }
        due
    }

    pub(crate) fn show(
        &mut self,
        risks: &[ResourceVerdict],
        now_nanos: u64,
        duration_nanos: Option<u64>,
    ) -> io::Result<()> {
        let due = self.is_due(now_nanos);
        match self.style {
            LevelLineStyle::Lines if due => {
                let text = level_text(risks, now_nanos, duration_nanos);
                let mut out = io::stdout().lock();
                writeln!(out, "{text}")?;
                out.flush()
            }
            LevelLineStyle::InPlace if may_draw() => {
                let text = level_text(risks, now_nanos, duration_nanos);
                self.line.draw(&text);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.line.clear();
    }
}

/// `12s of 30s | job memory 230.12 MiB (45.1%) | host memory 14.20 GiB (60.3%)`
fn level_text(risks: &[ResourceVerdict], now_nanos: u64, duration_nanos: Option<u64>) -> String {
    let mut text = format!("{:.0}s", to_secs(now_nanos));
    if let Some(nanos) = duration_nanos {
        text += &format!(" of {:.0}s", to_secs(nanos));
    }
    for risk in risks {
        let name = one_line(&risk.resource.to_string(), NAME_CHARS);
        let level = format_bytes(risk.reading.needed_bytes());
        text += &format!(" | {name} {level}");
        if let Some(share) = risk.reading.used_share() {
            text += &format!(" ({:.1}%)", 100.0 * share);
        }
    }
    text
}
