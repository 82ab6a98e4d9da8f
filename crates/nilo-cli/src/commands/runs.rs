//! `nilo runs`: what was recorded here.

use std::path::Path;

use nilo_answer::damage::damage_warning;
use nilo_answer::runs::{ListedRun, RunsAnswer};
use nilo_export::CsvRows;
use nilo_runfile::{RunFolder, list_runs};
use nilo_sample::Severity;
use nilo_sample::printable::printable;
use nilo_sample::units::format_bytes;

use crate::args::{OutputFormat, RunsArgs};
use crate::failure::{Failure, note, warn};
use crate::folder::{existing_root, runs_elsewhere};
use crate::listed_runs::{RunLine, list_jobs};
use crate::pasted_command::{command_for_run, command_in};
use crate::screen::Screen;
use crate::settings::Settings;
use crate::text::json::write_sorted_json;
use crate::text::one_line::one_line;
use crate::text::table::{TextColumn, left, right, whole, write_coloured_table, write_left_out};

pub(crate) fn run(args: RunsArgs, settings: &Settings) -> Result<u8, Failure> {
    let root = existing_root(&args.place, settings)?;
    let mut listed: Vec<RunLine> = Vec::new();
    let mut unreadable = 0;
    let elsewhere = runs_elsewhere(&root).into_iter();
    let elsewhere = elsewhere.flat_map(|(_, runs)| runs.into_iter().map(|(folder, _)| Ok(folder)));
    for job in list_jobs(list_runs(&root).into_iter().chain(elsewhere).collect()) {
        match job {
            Ok(found) => listed.extend(found),
            Err(failure) => {
                unreadable += 1;
                warn(&failure.sentence());
            }
        }
    }
    let has_tags = |figures: &ListedRun| {
        args.tags
            .iter()
            .all(|(key, value)| figures.tags.get(key) == Some(value))
    };
    // By age, and a run inside a job behind its job.
    listed.sort_by(|a, b| age(&a.figures).cmp(&age(&b.figures)));
    let recorded = listed.len();
    listed.retain(|listed| has_tags(&listed.figures));
    let figures: Vec<&ListedRun> = listed.iter().map(|listed| &listed.figures).collect();
    let mut out = std::io::stdout().lock();
    match args.format {
        OutputFormat::Json => {
            let runs = listed.into_iter().map(|listed| listed.figures);
            write_sorted_json(&mut out, &RunsAnswer::of(runs))?;
        }
        OutputFormat::Csv => write_csv(&mut out, &figures)?,
        OutputFormat::Text if figures.is_empty() && recorded > 0 => {
            note(&format!("none of the {recorded} runs has these tags"));
        }
        // What there is was warned of.
        OutputFormat::Text if figures.is_empty() && unreadable > 0 => {}
        OutputFormat::Text if figures.is_empty() => {
            note(&format!(
                "no runs in {}; record one with `nilo run -- COMMAND`",
                root.display()
            ));
        }
        OutputFormat::Text => {
            write_text(&mut out, &listed)?;
            mention_damaged(&listed, &root, settings);
        }
    }
    if args.format == OutputFormat::Text {
        mention_runs_elsewhere(&root);
    }
    Ok(0)
}

/// What a run is sorted by: ids begin with the time.
fn age(figures: &ListedRun) -> (&str, bool, &str) {
    let job = figures.parent.as_ref().unwrap_or(&figures.run);
    (job, figures.parent.is_some(), &figures.run)
}

/// Says how to find out more of runs whose figures may be wrong.
fn mention_damaged(listed: &[RunLine], root: &Path, settings: &Settings) {
    let mut damaged = listed.iter().filter(|listed| listed.figures.damaged);
    match (damaged.next(), damaged.count()) {
        (None, _) => {}
        (Some(only), 0) => {
            let run = only.figures.label();
            let path = match &only.figures.parent {
                Some(job) => root.join(job).join("runs").join(run),
                None => root.join(run),
            };
            let command = match RunFolder::open(&path) {
                Ok(folder) => command_for_run("verify", &folder, settings),
                Err(_) => command_in("verify", root, run, settings),
            };
            warn(&damage_warning(&command));
        }
        (Some(_), more) => warn(&format!(
            "{} runs are damaged, and their figures may be incomplete: {}",
            more + 1,
            command_in("verify", root, "--all", settings)
        )),
    }
}

/// Says which of the listed runs lie elsewhere.
fn mention_runs_elsewhere(root: &Path) {
    for (folder, runs) in runs_elsewhere(root) {
        let (runs, are) = match runs.len() {
            1 => ("1 run".to_owned(), "is"),
            count => (format!("{count} runs"), "are"),
        };
        note(&format!(
            "{runs} of this folder {are} in {0}, because the folder for runs here could not be used: nilo runs --dir {0}",
            folder.display()
        ));
    }
}

/// Where the table has how a run ended.
const STATUS: usize = 1;

/// Where it has the mean; what was charged to the cgroup that sets the limit stands before it, where it is not what the processes held.
const MEAN: usize = 4;

/// Where it has the command, which is long and comes last.
const COMMAND: usize = 6;

/// What is shown of a name; JSON and CSV have all of it.
const NAME_CHARS: usize = 40;

/// What is shown of an ending beside little else.
const STATUS_CHARS: usize = 16;

fn write_text(out: &mut dyn std::io::Write, listed: &[RunLine]) -> std::io::Result<()> {
    let has_resumed = listed.iter().any(|listed| listed.figures.resumes.is_some());
    let has_charged = |listed: &RunLine| listed.figures.charged_bytes().is_some();
    let has_charged = listed.iter().any(has_charged);
    let mut columns = vec![
        left("RUN"),
        left("STATUS").drops(1),
        right("DURATION").drops(3),
        right("PEAK"),
        right("MEAN").drops(5),
        left("NAME").drops(2),
        left("COMMAND").drops(4),
    ];
    if has_resumed {
        columns.insert(COMMAND, left("RESUMED FROM").drops(6));
    }
    if has_charged {
        columns.insert(MEAN, right("CHARGED").drops(6));
    }
    let bytes =
        |value: Option<u64>| value.map_or("-".to_owned(), |value| format_bytes(value as f64));
    let rows = listed.iter().map(|listed| {
        let figures = &listed.figures;
        let command: String = match figures.command.is_empty() {
            // A look at the machine.
            true => "-".to_owned(),
            false => figures.command.join(" ").chars().take(120).collect(),
        };
        let mut row = vec![
            match figures.parent {
                Some(_) => format!("  {}", figures.run),
                None => printable(figures.label()),
            },
            listed.short_ending.clone(),
            nilo_sample::units::format_duration((figures.duration_secs * 1e9) as u64),
            bytes(figures.peak_bytes),
            bytes(figures.mean_bytes),
            one_line(figures.name.as_deref().unwrap_or("-"), NAME_CHARS),
            printable(&command),
        ];
        if has_resumed {
            let earlier = figures.resumes.as_deref().unwrap_or("-");
            row.insert(COMMAND, printable(earlier));
        }
        if has_charged {
            row.insert(MEAN, bytes(figures.charged_bytes()));
        }
        row
    });
    let severity = |row: usize, column: usize| match column {
        STATUS => listed[row].severity.map(Severity::as_str),
        _ => None,
    };
    let rows: Vec<Vec<String>> = rows.collect();
    let screen = Screen::stdout();
    let mut table = Vec::new();
    let left_out = write_coloured_table(&mut table, screen, &columns, &rows, &severity)?;
    if left_out
        .iter()
        .any(|it| matches!(columns[*it].head(), "STATUS" | "NAME"))
    {
        return write_narrow(out, screen, listed, &columns);
    }
    out.write_all(&table)?;
    write_left_out(out, screen, &columns, &left_out)
}

/// What people look at first, where there is room for little: the name, or the id of a run without one. Commands take either.
fn write_narrow(
    out: &mut dyn std::io::Write,
    screen: Screen,
    listed: &[RunLine],
    columns: &[TextColumn<'_>],
) -> std::io::Result<()> {
    let narrow = [left("RUN"), whole("STATUS"), right("PEAK")];
    let rows = listed.iter().map(|listed| {
        let figures = &listed.figures;
        let inside = figures.parent.as_ref().map_or("", |_| "  ");
        let name = figures.name.as_deref().unwrap_or(figures.label());
        let peak = figures.peak_bytes;
        vec![
            format!("{inside}{}", one_line(name, NAME_CHARS)),
            one_line(&listed.short_ending, STATUS_CHARS),
            peak.map_or("-".to_owned(), |bytes| format_bytes(bytes as f64)),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let severity = |row: usize, column: usize| match column {
        STATUS => listed[row].severity.map(Severity::as_str),
        _ => None,
    };
    write_coloured_table(out, screen, &narrow, &rows, &severity)?;
    let is_shown = |head: &str| matches!(head, "RUN" | "NAME" | "STATUS" | "PEAK");
    let left_out: Vec<usize> = (0..columns.len())
        .filter(|column| !is_shown(columns[*column].head()))
        .collect();
    write_left_out(out, screen, columns, &left_out)
}

fn write_csv(out: &mut dyn std::io::Write, figures: &[&ListedRun]) -> std::io::Result<()> {
    let header = [
        "run",
        "name",
        "parent",
        "status",
        "exit_code",
        "duration_secs",
        "peak_bytes",
        "mean_bytes",
        "command",
        "limit_bytes",
        "limit_used_bytes",
        "damaged",
        "folder",
    ];
    let mut csv = CsvRows::new(out, header)?;
    for figures in figures {
        csv.text(&figures.run)?;
        csv.text(figures.name.as_deref().unwrap_or_default())?;
        csv.text(figures.parent.as_deref().unwrap_or_default())?;
        csv.text(figures.status.as_str())?;
        csv.number_if_known(figures.exit_code)?;
        csv.number(format_args!("{:.3}", figures.duration_secs))?;
        csv.number_if_known(figures.peak_bytes)?;
        csv.number_if_known(figures.mean_bytes)?;
        csv.text(&figures.command.join(" "))?;
        csv.number_if_known(figures.limit_bytes)?;
        csv.number_if_known(figures.limit_used_bytes)?;
        csv.text(if figures.damaged { "true" } else { "false" })?;
        csv.text(figures.folder.as_deref().unwrap_or_default())?;
        csv.end_row()?;
    }
    csv.finish()
}
