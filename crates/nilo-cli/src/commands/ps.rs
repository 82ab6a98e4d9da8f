//! `nilo ps`: processes that could be watched.

use std::time::Duration;

use nilo_answer::ps::{PsAnswer, WatchableProcess};
use nilo_export::CsvRows;
use nilo_sample::printable::printable;
use nilo_sample::units::format_bytes;
use nilo_source::{ProcessListing, Roots, list_processes};

use crate::args::{OutputFormat, PsArgs};
use crate::failure::Failure;
use crate::screen::Screen;
use crate::text::json::write_sorted_json;
use crate::text::table::{left, right, write_table};

/// CPU use is measured over this long.
const LOOK: Duration = Duration::from_millis(200);
/// Without `--all`, this many are shown.
const FEW: usize = 25;

pub(crate) fn run(args: PsArgs) -> Result<u8, Failure> {
    let roots = Roots::default();
    let before = list_processes(&roots);
    std::thread::sleep(LOOK);
    let mut rows: Vec<WatchableProcess> = list_processes(&roots)
        .into_iter()
        .filter(|process| wanted(process, &args))
        .map(|process| row(process, &before))
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.rss_bytes));
    let hidden = if args.all {
        0
    } else {
        rows.len().saturating_sub(FEW)
    };
    rows.truncate(rows.len() - hidden);
    let mut out = std::io::stdout().lock();
    match args.format {
        OutputFormat::Json => {
            write_sorted_json(&mut out, &PsAnswer::new(rows))?;
        }
        OutputFormat::Csv => write_csv(&mut out, &rows)?,
        OutputFormat::Text => {
            write_text(&mut out, &rows)?;
            if hidden > 0 {
                crate::failure::note(&not_shown(hidden));
            }
        }
    }
    Ok(0)
}

fn not_shown(hidden: usize) -> String {
    match hidden {
        1 => "1 smaller process is not shown; use --all to list it".to_owned(),
        _ => format!("{hidden} smaller processes are not shown; use --all to list them"),
    }
}

/// By default the user's own programs; kernel threads have no command line and hold no memory.
fn wanted(process: &ProcessListing, args: &PsArgs) -> bool {
    let ours = process.info.uid == Some(rustix::process::getuid().as_raw());
    let ourselves = process.is_nilo;
    if args.python && !process.is_python {
        return false;
    }
    args.all || (ours && !ourselves && process.rss_bytes > 0)
}

fn row(process: ProcessListing, before: &[ProcessListing]) -> WatchableProcess {
    let earlier = before
        .iter()
        .find(|other| other.id == process.id)
        .map_or(0, |other| other.cpu_nanos);
    let spent = process.cpu_nanos.saturating_sub(earlier);
    WatchableProcess {
        pid: process.id.pid,
        parent: process.info.parent,
        user: process.user,
        rss_bytes: process.rss_bytes,
        cpu_percent: 100.0 * spent as f64 / LOOK.as_nanos() as f64,
        name: process.info.name,
        command: process.info.command,
        cwd: process.info.cwd,
        python: process.is_python,
    }
}

fn write_text(out: &mut dyn std::io::Write, rows: &[WatchableProcess]) -> std::io::Result<()> {
    let columns = [
        right("PID"),
        left("USER").drops(2),
        right("MEMORY"),
        right("CPU%").drops(1),
        left("DIRECTORY").drops(3),
        left("COMMAND"),
    ];
    let cells = rows.iter().map(|row| {
        vec![
            row.pid.to_string(),
            row.user.clone().unwrap_or_else(|| "?".to_owned()),
            format_bytes(row.rss_bytes as f64),
            format!("{:.1}", row.cpu_percent),
            shorten(row.cwd.as_deref().unwrap_or("-")),
            beginning(&row.command),
        ]
    });
    let cells: Vec<Vec<String>> = cells.collect();
    write_table(out, Screen::stdout(), &columns, &cells).map(drop)
}

/// The end of a path says more than its beginning.
fn shorten(path: &str) -> String {
    let length = path.chars().count();
    if length <= 28 {
        printable(path)
    } else {
        format!(
            "…{}",
            printable(&path.chars().skip(length - 27).collect::<String>())
        )
    }
}

/// The beginning of a command line, which may be very long.
fn beginning(text: &str) -> String {
    printable(&text.chars().take(300).collect::<String>())
}

fn write_csv(out: &mut dyn std::io::Write, rows: &[WatchableProcess]) -> std::io::Result<()> {
    let header = ["pid", "user", "rss_bytes", "cpu_percent", "cwd", "command"];
    let mut csv = CsvRows::new(out, header)?;
    for row in rows {
        csv.number(row.pid)?;
        csv.text(row.user.as_deref().unwrap_or(""))?;
        csv.number(row.rss_bytes)?;
        csv.number(format_args!("{:.1}", row.cpu_percent))?;
        csv.text(row.cwd.as_deref().unwrap_or(""))?;
        csv.text(&row.command)?;
        csv.end_row()?;
    }
    csv.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_that_is_not_shown_is_one() {
        assert!(not_shown(1).starts_with("1 smaller process is not shown"));
        assert!(not_shown(2).starts_with("2 smaller processes are not shown"));
    }
}
