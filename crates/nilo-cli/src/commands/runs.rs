//! `nilo runs`: what was recorded here.

use std::path::Path;

use nilo_analysis::{Summary, summarize};
use nilo_export::csv_text;
use nilo_recorder::after_the_fact;
use nilo_runfile::{RunFolder, list_runs};
use nilo_sample::printable::printable;
use nilo_sample::units::format_bytes;
use nilo_sample::{Subject, TableSpec};

use crate::args::{Output, RunsArgs};
use crate::failure::{Failure, note};
use crate::folder::{load_where, runs_elsewhere, runs_root};
use crate::settings::Settings;
use crate::text::exception::short_type;
use crate::text::screen::Screen;
use crate::text::table::{left, right, write_coloured_table};

pub(crate) fn run(args: RunsArgs, settings: &Settings) -> Result<u8, Failure> {
    let root = runs_root(&args.place, settings);
    let mut summaries = Vec::new();
    let mut unreadable = 0;
    let elsewhere = runs_elsewhere(&root).into_iter();
    let elsewhere = elsewhere.flat_map(|(_, runs)| runs.into_iter().map(|(folder, _)| Ok(folder)));
    for folder in list_runs(&root).into_iter().chain(elsewhere) {
        match folder
            .map_err(Failure::from)
            .and_then(|folder| summarize_job(&folder))
        {
            Ok(found) => summaries.extend(found),
            Err(_) => unreadable += 1,
        }
    }
    let has_tags = |summary: &Summary| {
        args.tags
            .iter()
            .all(|(key, value)| summary.tags.get(key) == Some(value))
    };
    summaries.sort_by(|a, b| a.run.cmp(&b.run));
    let recorded = summaries.len();
    summaries.retain(has_tags);
    let mut out = std::io::stdout().lock();
    match args.format {
        Output::Json => {
            let rows: Vec<_> = summaries.iter().map(as_json).collect();
            let value = serde_json::json!({ "schema": "nilo.runs/1", "runs": rows });
            serde_json::to_writer_pretty(&mut out, &value).map_err(std::io::Error::from)?;
            std::io::Write::write_all(&mut out, b"\n")?;
        }
        Output::Csv => write_csv(&mut out, &summaries)?,
        Output::Text if summaries.is_empty() && recorded > 0 => {
            note(&format!("none of the {recorded} runs has these tags"));
        }
        Output::Text if summaries.is_empty() => {
            note(&format!(
                "no runs in {}; record one with `nilo run -- COMMAND`",
                root.display()
            ));
        }
        Output::Text => write_text(&mut out, &summaries)?,
    }
    if unreadable > 0 {
        crate::failure::warn(&format!(
            "{unreadable} folders could not be read; `nilo verify --all` says why"
        ));
    }
    if args.format == Output::Text {
        mention_runs_elsewhere(&root);
    }
    Ok(0)
}

/// A job and the runs inside it; what the job recorded is read once for all of them.
fn summarize_job(folder: &RunFolder) -> Result<Vec<Summary>, Failure> {
    let inside = folder.runs_inside();
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
    let mut summaries = vec![summarize(&recording, &ending)];
    for run in inside {
        let Ok(mut inner) = run.load_alone(&|_| false) else {
            continue;
        };
        let keep = |spec: &TableSpec| is_needed(spec) || is_needed_by_runs(spec);
        run.add_job(&mut inner, &recording, &keep, None);
        let ending = after_the_fact(&inner);
        summaries.push(summarize(&inner, &ending));
    }
    Ok(summaries)
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

fn as_json(summary: &Summary) -> serde_json::Value {
    serde_json::json!({
        "run": summary.run,
        "name": summary.name,
        "parent": summary.parent,
        "tags": summary.tags,
        "command": summary.command,
        "status": summary.status,
        "exit_code": summary.exit_code,
        "oom": summary.oom,
        "exception": summary.exception,
        "started_unix_nanos": summary.started_unix_nanos,
        "duration_secs": summary.duration_secs,
        "peak_bytes": summary.memory.peak_bytes,
        "peak_kind": summary.memory.peak_kind,
        "mean_bytes": summary.memory.mean_bytes,
    })
}

/// Where the table has how a run ended.
const STATUS: usize = 1;

fn write_text(out: &mut dyn std::io::Write, summaries: &[Summary]) -> std::io::Result<()> {
    let columns = [
        left("RUN"),
        left("STATUS").drops(1),
        right("DURATION").drops(3),
        right("PEAK"),
        right("MEAN").drops(5),
        left("NAME").drops(2),
        left("COMMAND").drops(4),
    ];
    let bytes =
        |value: Option<u64>| value.map_or("-".to_owned(), |value| format_bytes(value as f64));
    // A job with a single run is shown as that run.
    let is_single = |run: &Summary| {
        let same = summaries.iter().filter(|other| other.parent == run.parent);
        let job = summaries
            .iter()
            .find(|job| Some(&job.run) == run.parent.as_ref());
        same.count() == 1 && job.is_some_and(|job| job.mode != "python")
    };
    let is_shown = |summary: &&Summary| summary.parent.is_none() || !is_single(summary);
    let shown: Vec<&Summary> = summaries.iter().filter(is_shown).collect();
    let rows = shown.iter().map(|summary| {
        let mut status = summary.short_ending();
        if let Some(ended) = &summary.exception {
            status += &format!(" ({})", short_type(&ended.exception));
        }
        let command: String = summary.command.join(" ").chars().take(120).collect();
        vec![
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
        ]
    });
    let severity = |row: usize, column: usize| match column {
        STATUS => shown[row].ending_severity(),
        _ => None,
    };
    let rows: Vec<Vec<String>> = rows.collect();
    write_coloured_table(out, Screen::stdout(), &columns, &rows, &severity).map(drop)
}

fn write_csv(out: &mut dyn std::io::Write, summaries: &[Summary]) -> std::io::Result<()> {
    writeln!(
        out,
        "run,status,exit_code,duration_secs,peak_bytes,mean_bytes,command"
    )?;
    for summary in summaries {
        let number = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
        writeln!(
            out,
            "{},{},{},{:.3},{},{},{}",
            summary.run,
            summary.status,
            summary
                .exit_code
                .map_or(String::new(), |code| code.to_string()),
            summary.duration_secs,
            number(summary.memory.peak_bytes),
            number(summary.memory.mean_bytes),
            csv_text(&summary.command.join(" ")),
        )?;
    }
    Ok(())
}
