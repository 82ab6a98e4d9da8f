//! `nilo runs`: what was recorded here.

use std::path::Path;

use nilo_analysis::{Summary, summarize};
use nilo_answer::runs::RunsAnswer;
use nilo_export::CsvRows;
use nilo_recorder::after_the_fact;
use nilo_runfile::{RunFolder, list_runs};
use nilo_sample::printable::printable;
use nilo_sample::units::format_bytes;
use nilo_sample::{Severity, Subject, TableSpec};

use crate::args::{Output, RunsArgs};
use crate::failure::{Failure, note, warn};
use crate::folder::{load_where, runs_elsewhere, runs_root};
use crate::screen::Screen;
use crate::settings::Settings;
use crate::text::exception::short_type;
use crate::text::json::write_sorted_json;
use crate::text::table::{left, right, write_coloured_table};

pub(crate) fn run(args: RunsArgs, settings: &Settings) -> Result<u8, Failure> {
    let root = runs_root(&args.place, settings);
    let mut listed: Vec<Listed> = Vec::new();
    let mut unreadable = 0;
    let elsewhere = runs_elsewhere(&root).into_iter();
    let elsewhere = elsewhere.flat_map(|(_, runs)| runs.into_iter().map(|(folder, _)| Ok(folder)));
    for folder in list_runs(&root).into_iter().chain(elsewhere) {
        match folder
            .map_err(Failure::from)
            .and_then(|folder| summarize_job(&folder))
        {
            Ok(found) => listed.extend(found),
            Err(failure) => {
                unreadable += 1;
                warn(&failure.sentence());
            }
        }
    }
    let has_tags = |summary: &Summary| {
        args.tags
            .iter()
            .all(|(key, value)| summary.tags.get(key) == Some(value))
    };
    listed.sort_by(|a, b| a.summary.run.cmp(&b.summary.run));
    let recorded = listed.len();
    listed.retain(|listed| has_tags(&listed.summary));
    let summaries: Vec<&Summary> = listed.iter().map(|listed| &listed.summary).collect();
    let mut out = std::io::stdout().lock();
    match args.format {
        Output::Json => {
            write_sorted_json(&mut out, &RunsAnswer::of(summaries))?;
        }
        Output::Csv => write_csv(&mut out, &summaries)?,
        Output::Text if summaries.is_empty() && recorded > 0 => {
            note(&format!("none of the {recorded} runs has these tags"));
        }
        // What there is was warned of.
        Output::Text if summaries.is_empty() && unreadable > 0 => {}
        Output::Text if summaries.is_empty() => {
            note(&format!(
                "no runs in {}; record one with `nilo run -- COMMAND`",
                root.display()
            ));
        }
        Output::Text => write_text(&mut out, &listed)?,
    }
    if args.format == Output::Text {
        mention_runs_elsewhere(&root);
    }
    Ok(0)
}

/// A run of the list.
struct Listed {
    summary: Summary,
    /// It is the single run of its job, which stands for both where a person reads.
    is_shown_as_job: bool,
}

/// A job and the runs inside it; what the job recorded is read once for all of them.
fn summarize_job(folder: &RunFolder) -> Result<Vec<Listed>, Failure> {
    let inside = folder.list_runs_inside();
    let is_needed = |spec: &TableSpec| {
        matches!(
            spec.subject,
            Subject::Tree | Subject::Cgroup { .. } | Subject::Host | Subject::Gpu { .. }
        )
    };
    let is_needed_by_runs = |spec: &TableSpec| {
        matches!(
            spec.subject,
            Subject::Process(_) | Subject::ProcessDetail(_)
        )
    };
    let (recording, ending) = load_where(folder, &|spec| {
        is_needed(spec) || !inside.is_empty() && is_needed_by_runs(spec)
    })?;
    let is_shown_as_job = folder.only_run(&recording.description).is_some();
    let mut listed = vec![Listed {
        summary: summarize(&recording, &ending),
        is_shown_as_job: false,
    }];
    for run in inside {
        let read = run.and_then(|run| Ok((run.load_alone(&|_| false)?, run)));
        let (mut inner, run) = match read {
            Ok(read) => read,
            Err(error) => {
                warn(&Failure::from(error).sentence());
                continue;
            }
        };
        let keep = |spec: &TableSpec| is_needed(spec) || is_needed_by_runs(spec);
        run.add_job(&mut inner, &recording, &keep, None);
        let ending = after_the_fact(&inner);
        listed.push(Listed {
            summary: summarize(&inner, &ending),
            is_shown_as_job,
        });
    }
    Ok(listed)
}

/// Says which of the listed runs lie elsewhere.
fn mention_runs_elsewhere(root: &Path) {
    for (folder, runs) in runs_elsewhere(root) {
        let (runs, lie) = match runs.len() {
            1 => ("1 run".to_owned(), "lies"),
            count => (format!("{count} runs"), "lie"),
        };
        note(&format!(
            "{runs} of this folder {lie} in {0}, since this one could not be written: nilo runs --dir {0}",
            folder.display()
        ));
    }
}

/// Where the table has how a run ended.
const STATUS: usize = 1;

/// Where it has the command, which is long and comes last.
const COMMAND: usize = 6;

fn write_text(out: &mut dyn std::io::Write, listed: &[Listed]) -> std::io::Result<()> {
    let has_resumed = listed.iter().any(|listed| listed.summary.resumes.is_some());
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
    let bytes =
        |value: Option<u64>| value.map_or("-".to_owned(), |value| format_bytes(value as f64));
    let shown = listed.iter().filter(|listed| !listed.is_shown_as_job);
    let shown: Vec<&Summary> = shown.map(|listed| &listed.summary).collect();
    let rows = shown.iter().map(|summary| {
        let mut status = summary.short_ending();
        if let Some(ended) = &summary.exception {
            status += &format!(" ({})", short_type(&ended.exception));
        }
        let command: String = summary.command.join(" ").chars().take(120).collect();
        let mut row = vec![
            match summary.parent {
                Some(_) => format!("  {}", summary.run),
                None => summary.run.clone(),
            },
            status,
            nilo_sample::units::format_duration((summary.duration_secs * 1e9) as u64),
            bytes(summary.memory.peak_bytes),
            bytes(summary.memory.mean_bytes),
            printable(summary.name.as_deref().unwrap_or("-")),
            printable(&command),
        ];
        if has_resumed {
            let earlier = summary.resumes.as_deref().unwrap_or("-");
            row.insert(COMMAND, printable(earlier));
        }
        row
    });
    let severity = |row: usize, column: usize| match column {
        STATUS => shown[row].ending_severity().map(Severity::as_str),
        _ => None,
    };
    let rows: Vec<Vec<String>> = rows.collect();
    write_coloured_table(out, Screen::stdout(), &columns, &rows, &severity).map(drop)
}

fn write_csv(out: &mut dyn std::io::Write, summaries: &[&Summary]) -> std::io::Result<()> {
    let header = [
        "run",
        "status",
        "exit_code",
        "duration_secs",
        "peak_bytes",
        "mean_bytes",
        "command",
    ];
    let mut csv = CsvRows::new(out, header)?;
    for summary in summaries {
        csv.text(&summary.run)?;
        csv.text(summary.status.as_str())?;
        csv.number_if_known(summary.exit_code)?;
        csv.number(format_args!("{:.3}", summary.duration_secs))?;
        csv.number_if_known(summary.memory.peak_bytes)?;
        csv.number_if_known(summary.memory.mean_bytes)?;
        csv.text(&summary.command.join(" "))?;
        csv.end_row()?;
    }
    csv.finish()
}
