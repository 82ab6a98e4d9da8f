//! `nilo runs`: what was recorded here.

use std::path::Path;

use nilo_analysis::{Summary, summarize};
use nilo_export::csv_text;
use nilo_recorder::fallback_folders;
use nilo_runfile::list_runs;
use nilo_sample::Subject;
use nilo_sample::printable::printable;
use nilo_sample::units::format_bytes;

use crate::args::{Output, RunsArgs};
use crate::failure::{Failure, note};
use crate::folder::{load_where, readable_runs, runs_root};
use crate::settings::Settings;
use crate::text::exception::short_type;
use crate::text::table::{Lean, write_table};

pub(crate) fn run(args: RunsArgs, settings: &Settings) -> Result<u8, Failure> {
    let root = runs_root(&args.place, settings);
    let mut summaries = Vec::new();
    let mut unreadable = 0;
    for folder in list_runs(&root) {
        let loaded = folder.map_err(Failure::from).and_then(|folder| {
            load_where(&folder, &|spec| {
                matches!(
                    spec.subject,
                    Subject::Tree | Subject::Cgroup { .. } | Subject::Host | Subject::Gpu { .. }
                )
            })
        });
        match loaded {
            Ok((recording, ending)) => summaries.push(summarize(&recording, &ending)),
            Err(_) => unreadable += 1,
        }
    }
    let has_tags = |summary: &Summary| {
        args.tags
            .iter()
            .all(|(key, value)| summary.tags.get(key) == Some(value))
    };
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

/// Says where runs of this folder lie that could not be written to it.
fn mention_runs_elsewhere(root: &Path) {
    let Ok(here) = std::env::current_dir() else {
        return;
    };
    for folder in fallback_folders() {
        if folder.canonicalize().ok() == root.canonicalize().ok() {
            continue;
        }
        let runs = readable_runs(&folder).into_iter();
        let count = runs
            .filter(|(_, description)| Path::new(&description.cwd) == here)
            .count();
        if count > 0 {
            let (runs, lie) = if count == 1 {
                ("run", "lies")
            } else {
                ("runs", "lie")
            };
            note(&format!(
                "{count} {runs} of this folder {lie} in {0}, since this one could not be written: nilo runs --dir {0}",
                folder.display()
            ));
        }
    }
}

fn as_json(summary: &Summary) -> serde_json::Value {
    serde_json::json!({
        "run": summary.run,
        "name": summary.name,
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

fn write_text(out: &mut dyn std::io::Write, summaries: &[Summary]) -> std::io::Result<()> {
    let columns = [
        ("RUN", Lean::Left),
        ("STATUS", Lean::Left),
        ("DURATION", Lean::Right),
        ("PEAK", Lean::Right),
        ("MEAN", Lean::Right),
        ("NAME", Lean::Left),
        ("COMMAND", Lean::Left),
    ];
    let bytes =
        |value: Option<u64>| value.map_or("-".to_owned(), |value| format_bytes(value as f64));
    let rows = summaries.iter().map(|summary| {
        let mut status = match (summary.status, summary.exit_code, summary.signal) {
            ("exited", Some(code), _) => format!("exited {code}"),
            ("killed", _, Some(signal)) => format!("killed {signal}"),
            (status, _, _) => status.to_owned(),
        };
        if let Some(ended) = &summary.exception {
            status += &format!(" ({})", short_type(&ended.exception));
        }
        let command: String = summary.command.join(" ").chars().take(120).collect();
        vec![
            summary.run.clone(),
            status,
            nilo_sample::units::format_duration((summary.duration_secs * 1e9) as u64),
            bytes(summary.memory.peak_bytes),
            bytes(summary.memory.mean_bytes),
            printable(summary.name.as_deref().unwrap_or("-")),
            printable(&command),
        ]
    });
    write_table(out, &columns, &rows.collect::<Vec<_>>())
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
