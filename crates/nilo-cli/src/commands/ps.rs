//! `nilo ps`: processes that could be watched.

use std::time::Duration;

use nilo_answer::ps::{PsAnswer, WatchableProcess};
use nilo_export::CsvRows;
use nilo_sample::printable::printable;
use nilo_sample::units::format_bytes;
use nilo_source::{ProcessListing, Roots, list_processes};

use crate::args::{OutputFormat, PsArgs};
use crate::commands::ps_gpu::{self, GpuLook};
use crate::failure::{Failure, note};
use crate::screen::Screen;
use crate::text::json::write_sorted_json;
use crate::text::table::{left, right, write_table};

/// CPU use is measured over this long.
const LOOK: Duration = Duration::from_millis(200);
/// Without `--all`, this many are shown.
const FEW: usize = 25;

pub(crate) fn run(args: PsArgs) -> Result<u8, Failure> {
    let roots = Roots::default();
    let mut gpus = args.gpu.then(GpuLook::open).transpose()?;
    let before = list_processes(&roots);
    std::thread::sleep(LOOK);
    let listing = list_processes(&roots);
    if let Some(gpus) = &mut gpus {
        gpus.match_processes(&roots, &listing);
    }
    let holds = |process: &ProcessListing| {
        let looked = gpus.as_ref();
        looked.is_none_or(|gpus| gpus.of_process(process.id.pid).is_some())
    };
    let rows = listing
        .into_iter()
        .filter(|process| wanted(process, &args) && holds(process))
        .map(|process| row(process, &before));
    let mut rows: Vec<WatchableProcess> = rows.collect();
    if let Some(gpus) = &gpus {
        return list_gpu_holders(gpus, rows, &args);
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.rss_bytes));
    let hidden = truncate(&mut rows, args.all);
    let mut out = std::io::stdout().lock();
    match args.format {
        OutputFormat::Json => {
            write_sorted_json(&mut out, &PsAnswer::new(rows))?;
        }
        OutputFormat::Csv => write_csv(&mut out, &rows)?,
        OutputFormat::Text => {
            write_text(&mut out, &rows)?;
            if hidden > 0 {
                note(&not_shown(hidden));
            }
        }
    }
    Ok(0)
}

fn list_gpu_holders(
    gpus: &GpuLook,
    mut rows: Vec<WatchableProcess>,
    args: &PsArgs,
) -> Result<u8, Failure> {
    for row in &mut rows {
        row.gpus = gpus.of_process(row.pid).cloned();
    }
    let of_others = gpus.of_others(rows.len());
    let out_of_sight = gpus.out_of_sight();
    let mut answer = gpus.answer(rows, args.all, args.python);
    let hidden = truncate(&mut answer.processes, args.all);
    let mut out = std::io::stdout().lock();
    match args.format {
        OutputFormat::Json => {
            write_sorted_json(&mut out, &answer)?;
        }
        OutputFormat::Csv => ps_gpu::write_csv(&mut out, &answer)?,
        OutputFormat::Text => {
            ps_gpu::write_text(&mut out, &answer, beginning)?;
            if hidden > 0 {
                note(&not_shown(hidden));
            }
            if !args.all && !args.python {
                if of_others > 0 {
                    note(&others_not_shown(of_others));
                }
                if out_of_sight > 0 {
                    note(&out_of_sight_not_shown(out_of_sight));
                }
            }
        }
    }
    if args.format != OutputFormat::Json {
        for text in &answer.notes {
            note(text);
        }
    }
    Ok(0)
}

/// Leaves the first ones unless all are wanted; gives how many were dropped.
fn truncate(rows: &mut Vec<WatchableProcess>, all: bool) -> usize {
    let hidden = if all {
        0
    } else {
        rows.len().saturating_sub(FEW)
    };
    rows.truncate(rows.len() - hidden);
    hidden
}

fn others_not_shown(count: usize) -> String {
    match count {
        1 => "1 process of another user is not shown; use --all to list it".to_owned(),
        _ => format!("{count} processes of other users are not shown; use --all to list them"),
    }
}

fn out_of_sight_not_shown(count: usize) -> String {
    match count {
        1 => "1 process outside this container (or already exited) is hidden; use --all to list it"
            .to_owned(),
        _ => format!(
            "{count} processes outside this container (or already exited) are hidden; use --all to list them"
        ),
    }
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
        gpus: None,
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
