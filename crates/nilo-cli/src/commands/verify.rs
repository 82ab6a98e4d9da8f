//! `nilo verify`: are the files of a run whole?

use std::io::Write;
use std::path::Path;

use nilo_runfile::{RunFolder, RunfileError, Verification, list_runs};
use nilo_sample::printable::printable;
use nilo_sample::units::format_bytes;

use crate::args::{Output, VerifyArgs};
use crate::failure::Failure;
use crate::folder::{find_run, runs_root};
use crate::settings::Settings;
use crate::text::json::write_json;
use crate::text::screen::Screen;

/// What a check came to; the worst of several counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Whole = 0,
    Damaged = 1,
    NotChecked = 2,
}

impl Outcome {
    fn of(verification: &Verification) -> Outcome {
        let mut files = verification.files.iter();
        match verification.ok {
            true => Outcome::Whole,
            false if files.any(|file| file.not_checked.is_some()) => Outcome::NotChecked,
            false => Outcome::Damaged,
        }
    }
}

pub(crate) fn run(args: VerifyArgs, settings: &Settings) -> Result<u8, Failure> {
    if args.format == Output::Csv {
        return Err(Failure::new("verify has no CSV form").hint("use --format json"));
    }
    let root = runs_root(&args.place, settings);
    let folders = match args.all {
        true => every_run(&root)?,
        false => vec![Ok(find_run(&root, args.run.as_deref())?)],
    };
    let mut worst = Outcome::Whole;
    let mut reports = Vec::new();
    let mut out = std::io::stdout().lock();
    for folder in folders {
        let checked = folder.and_then(|folder| {
            let mut verification = folder.verify()?;
            // Checksums cannot tell what is not there any more.
            let recording = folder.load_where(&|_| false)?;
            let damage = nilo_analysis::damage(&recording).into_iter();
            let missing: Vec<String> = damage
                .filter(|text| !recording.damage.contains(text))
                .collect();
            verification.ok &= missing.is_empty();
            Ok((folder.path().to_owned(), verification, missing))
        });
        match checked {
            Ok((path, verification, missing)) => {
                let outcome = Outcome::of(&verification);
                worst = worst.max(outcome);
                if args.format == Output::Text {
                    let verdict = verdict(outcome, &verification);
                    writeln!(out, "{}: {verdict}", path.display())?;
                    write_files(&mut out, &verification)?;
                    for text in &missing {
                        writeln!(out, "    damaged: {text}")?;
                    }
                }
                reports.push(serde_json::json!({ "path": path, "verification": verification, "missing": missing }));
            }
            Err(error) => {
                worst = worst.max(match error.is_unreadable() {
                    true => Outcome::NotChecked,
                    false => Outcome::Damaged,
                });
                let sentence = Failure::from(error).sentence();
                if args.format == Output::Text {
                    writeln!(out, "{sentence}")?;
                }
                reports.push(serde_json::json!({ "error": sentence }));
            }
        }
    }
    if args.format != Output::Text {
        let ok = worst == Outcome::Whole;
        let value = serde_json::json!({ "schema": "nilo.verify/1", "ok": ok, "runs": reports });
        write_json(&mut out, &value)?;
    }
    Ok(worst as u8)
}

/// Every run of a folder, broken ones too; it is an error that there is none.
fn every_run(root: &Path) -> Result<Vec<Result<RunFolder, RunfileError>>, Failure> {
    let runs = list_runs(root);
    if !runs.is_empty() {
        return Ok(runs);
    }
    Err(Failure::new(format!("no runs in {}", root.display()))
        .hint("say where they are with --dir"))
}

fn verdict(outcome: Outcome, verification: &Verification) -> String {
    let files = verification.files.iter();
    let lost: u64 = files.map(|file| file.dropped_rows).sum();
    let screen = Screen::stdout();
    match (outcome, lost) {
        (Outcome::NotChecked, _) => screen.paint("critical", "not checked"),
        (Outcome::Damaged, _) => screen.paint("critical", "damaged"),
        (Outcome::Whole, 0) => "whole".to_owned(),
        (Outcome::Whole, lost) => {
            let rows = if lost == 1 { "row" } else { "rows" };
            let incomplete = screen.paint("warning", "incomplete:");
            format!("{incomplete} {lost} {rows} could not be stored; what was stored is undamaged")
        }
    }
}

fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

fn write_files(out: &mut dyn Write, verification: &Verification) -> std::io::Result<()> {
    for file in &verification.files {
        write!(
            out,
            "  {}: {}, {}, {}",
            printable(&file.name),
            counted(file.rows, "row"),
            counted(file.events, "event"),
            format_bytes(file.used_bytes as f64)
        )?;
        if file.torn_tail_bytes > 0 {
            write!(
                out,
                ", a torn last record of {} bytes",
                file.torn_tail_bytes
            )?;
        }
        if file.dropped_rows > 0 {
            write!(out, ", {} rows could not be stored", file.dropped_rows)?;
        }
        writeln!(out)?;
        if let Some(reason) = &file.not_checked {
            writeln!(out, "    not checked: {reason}")?;
        }
        for damage in &file.damage {
            writeln!(out, "    damaged: {}", printable(damage))?;
        }
    }
    Ok(())
}
