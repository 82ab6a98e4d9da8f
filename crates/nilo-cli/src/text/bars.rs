//! Progress bars of long work, drawn over again on a terminal; elsewhere each is one line when it is full.
//!
//! `Training BPE: 100%|████████████████| 743/743 [00:02<00:00, 350.45merges/s]`

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nilo_sample::units::{format_bytes, to_secs};

use crate::failure::write_line;

const REDRAW: Duration = Duration::from_millis(100);
const WIDTH: usize = 80;
const BAR: usize = 16;
/// A shorter bar shows nothing.
const SHORTEST: usize = 5;

/// What a bar counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BarUnit {
    Bytes,
    Merges,
}

/// One bar after the other.
#[derive(Debug)]
pub(crate) struct Bars {
    in_place: bool,
    quiet: bool,
    bar: Mutex<Option<Bar>>,
}

#[derive(Debug)]
struct Bar {
    title: &'static str,
    unit: BarUnit,
    began: Instant,
    drawn: Instant,
    done: u64,
    total: Option<u64>,
}

impl Bars {
    pub(crate) fn new(quiet: bool) -> Bars {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Bars {
            in_place: !quiet && !dumb && std::io::stderr().is_terminal(),
            quiet,
            bar: Mutex::new(None),
        }
    }

    /// Moves the bar of this title, after ending the one before it.
    pub(crate) fn put(&self, title: &'static str, unit: BarUnit, done: u64, total: Option<u64>) {
        let mut bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        if bar.as_ref().is_some_and(|bar| bar.title != title) {
            self.end_bar(&mut bar);
        }
        let now = Instant::now();
        let bar = bar.get_or_insert(Bar {
            title,
            unit,
            began: now,
            drawn: now,
            done: 0,
            total,
        });
        // Threads report in any order.
        bar.done = bar.done.max(done);
        bar.total = total;
        if self.in_place && now.duration_since(bar.drawn) >= REDRAW {
            bar.drawn = now;
            let line = bar.line(now.duration_since(bar.began), terminal_width());
            let line = format!("\r{line}\x1b[K");
            std::io::stderr().write_all(line.as_bytes()).ok();
        }
    }

    /// Ends the bar, if there is one: its last state stays.
    pub(crate) fn end(&self) {
        let mut bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        self.end_bar(&mut bar);
    }

    fn end_bar(&self, bar: &mut Option<Bar>) {
        if let Some(bar) = bar.take()
            && !self.quiet
        {
            let (width, before, after) = match self.in_place {
                true => (terminal_width(), "\r", "\x1b[K"),
                false => (usize::MAX, "", ""),
            };
            let line = bar.line(bar.began.elapsed(), width);
            write_line(&format!("{before}{line}{after}"));
        }
    }
}

/// Columns that a line may have without breaking.
fn terminal_width() -> usize {
    let size = terminal_size::terminal_size_of(std::io::stderr());
    size.map_or(WIDTH, |(width, _)| usize::from(width.0))
        .saturating_sub(1)
}

impl Bar {
    fn line(&self, passed: Duration, width: usize) -> String {
        let secs = passed.as_secs_f64().max(1e-3);
        let rate = self.done as f64 / secs;
        let (done, total) = (
            self.spell(self.done),
            self.total.map(|total| self.spell(total)),
        );
        let speed = match self.unit {
            BarUnit::Bytes => format!("{}/s", format_bytes(rate)),
            BarUnit::Merges => format!("{rate:.2}merges/s"),
        };
        let text = match (self.total, total) {
            (Some(count), Some(total)) => {
                let share = self.done as f64 / (count.max(1)) as f64;
                let left = if rate > 0.0 {
                    minutes((count.saturating_sub(self.done)) as f64 / rate)
                } else {
                    "?".to_owned()
                };
                let head = format!("{}: {:3.0}%", self.title, 100.0 * share.min(1.0));
                let tail = format!("{done}/{total} [{}<{left}, {speed}]", minutes(secs));
                // A narrow terminal takes the bar away first, then what is nearest to it.
                let room = width.saturating_sub(head.chars().count() + tail.chars().count() + 3);
                match room.min(BAR) {
                    0..SHORTEST => match head.len() + 1 + tail.len() <= width {
                        true => format!("{head} {tail}"),
                        false => format!("{head} [{}<{left}]", minutes(secs)),
                    },
                    cells => {
                        let full = ((share * cells as f64) as usize).min(cells);
                        let bar = "█".repeat(full) + &" ".repeat(cells - full);
                        format!("{head}|{bar}| {tail}")
                    }
                }
            }
            _ => format!("{}: {done} [{}, {speed}]", self.title, minutes(secs)),
        };
        text.chars().take(width).collect()
    }

    fn spell(&self, amount: u64) -> String {
        match self.unit {
            BarUnit::Bytes => format_bytes(amount as f64),
            BarUnit::Merges => amount.to_string(),
        }
    }
}

/// `02:15`, or with hours `1:02:15`.
fn minutes(secs: f64) -> String {
    let nanos = (secs.clamp(0.0, 1e9) * 1e9) as u64;
    let whole = to_secs(nanos) as u64;
    let (hours, minutes, secs) = (whole / 3600, whole / 60 % 60, whole % 60);
    match hours {
        0 => format!("{minutes:02}:{secs:02}"),
        _ => format!("{hours}:{minutes:02}:{secs:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(unit: BarUnit, done: u64, total: Option<u64>) -> Bar {
        let now = Instant::now();
        Bar {
            title: "Training BPE",
            unit,
            began: now,
            drawn: now,
            done,
            total,
        }
    }

    #[test]
    fn merges_look_as_people_know_them() {
        let line = bar(BarUnit::Merges, 743, Some(743)).line(Duration::from_millis(2120), 200);
        assert_eq!(
            line,
            "Training BPE: 100%|████████████████| 743/743 [00:02<00:00, 350.47merges/s]"
        );
    }

    #[test]
    fn what_is_left_is_foretold_and_a_narrow_terminal_cuts() {
        let half = bar(BarUnit::Bytes, 1 << 30, Some(2 << 30));
        let line = half.line(Duration::from_secs(3700), 200);
        assert!(
            line.contains(" 50%|████████        | 1.00 GiB/2.00 GiB [1:01:40<1:01:40, "),
            "{line}"
        );
        let narrow = |width| half.line(Duration::from_secs(1), width);
        assert_eq!(
            narrow(76),
            "Training BPE:  50%|██████      | 1.00 GiB/2.00 GiB [00:01<00:01, 1.00 GiB/s]"
        );
        assert_eq!(
            narrow(66),
            "Training BPE:  50% 1.00 GiB/2.00 GiB [00:01<00:01, 1.00 GiB/s]"
        );
        assert_eq!(narrow(39), "Training BPE:  50% [00:01<00:01]");
        assert_eq!(narrow(20).chars().count(), 20);
    }

    #[test]
    fn an_unknown_total_has_no_percentage() {
        let line = bar(BarUnit::Bytes, 0, None).line(Duration::ZERO, 80);
        assert_eq!(line, "Training BPE: 0 B [00:00, 0 B/s]");
    }
}
