//! What words are written to: how wide it is, and whether it takes colour.

use std::io::IsTerminal;
use std::os::fd::AsFd;

use anstyle::{AnsiColor, Style};

/// A terminal narrower than this shows what it can: nothing is left out for its sake.
const NARROWEST: usize = 20;

/// A stream as its reader sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Screen {
    /// The width of a terminal; `None` for files and pipes, which take any line.
    pub(crate) columns: Option<usize>,
    /// Whether severity is shown in colour.
    pub(crate) colour: bool,
}

impl Screen {
    pub(crate) fn stdout() -> Screen {
        Screen::of(std::io::stdout())
    }

    pub(crate) fn stderr() -> Screen {
        Screen::of(std::io::stderr())
    }

    fn of(stream: impl IsTerminal + AsFd) -> Screen {
        if !stream.is_terminal() {
            return Screen {
                columns: None,
                colour: false,
            };
        }
        let columns = terminal_size::terminal_size_of(stream)
            .map(|(width, _)| usize::from(width.0))
            .filter(|width| *width >= NARROWEST);
        Screen {
            columns,
            colour: !is_refused("NO_COLOR") && std::env::var_os("TERM").is_none_or(|t| t != "dumb"),
        }
    }

    /// A text in the colour of a severity; the text stands without it.
    pub(crate) fn paint(self, severity: &str, text: &str) -> String {
        let style = match self.colour {
            true => severity_style(severity),
            false => Style::new(),
        };
        format!("{style}{text}{style:#}")
    }

    /// A length that fits.
    pub(crate) fn at_most(self, chars: usize) -> usize {
        self.columns.map_or(chars, |columns| columns.min(chars))
    }
}

/// A variable that is set to nothing is the usual way to unset one.
fn is_refused(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

/// `critical` and `error` are red, `warning` is yellow, `ok` green, everything else blue.
fn severity_style(severity: &str) -> Style {
    let colour = match severity {
        "critical" | "error" => AnsiColor::Red,
        "warning" => AnsiColor::Yellow,
        "ok" => AnsiColor::Green,
        "hint" => AnsiColor::Cyan,
        _ => AnsiColor::Blue,
    };
    Style::new().bold().fg_color(Some(colour.into()))
}
