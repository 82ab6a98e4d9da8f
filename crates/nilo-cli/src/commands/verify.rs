//! `nilo verify`: are the files of a run whole?

use std::io::Write;

use nilo_runfile::{Verification, list_runs};
use nilo_sample::printable::printable;
use nilo_sample::units::format_bytes;

use crate::args::{Output, VerifyArgs};
use crate::failure::Failure;
use crate::folder::{find_run, runs_root};
use crate::settings::Settings;

/// The status for "something found".
const FOUND: u8 = 1;

pub(crate) fn run(args: VerifyArgs, settings: &Settings) -> Result<u8, Failure> {
    if args.format == Output::Csv {
        return Err(Failure::new("verify has no CSV form").hint("use --format json"));
    }
    let root = runs_root(&args.place, settings);
    let folders = match args.all {
        true => list_runs(&root),
        false => vec![Ok(find_run(&root, args.run.as_deref())?)],
    };
    let mut all_whole = true;
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
                all_whole &= verification.ok;
                if args.format == Output::Text {
                    writeln!(out, "{}: {}", path.display(), verdict(&verification))?;
                    write_files(&mut out, &verification)?;
                    for text in &missing {
                        writeln!(out, "    damaged: {text}")?;
                    }
                }
                reports.push(serde_json::json!({ "path": path, "verification": verification, "missing": missing }));
            }
            Err(error) => {
                all_whole = false;
                if args.format == Output::Text {
                    writeln!(out, "{error}")?;
                }
                reports.push(serde_json::json!({ "error": error.to_string() }));
            }
        }
    }
    if args.format != Output::Text {
        let value =
            serde_json::json!({ "schema": "nilo.verify/1", "ok": all_whole, "runs": reports });
        serde_json::to_writer_pretty(&mut out, &value).map_err(std::io::Error::from)?;
        out.write_all(b"\n")?;
    }
    Ok(if all_whole { 0 } else { FOUND })
}

fn verdict(verification: &Verification) -> String {
    let files = verification.files.iter();
    let lost: u64 = files.map(|file| file.dropped_rows).sum();
    match (verification.ok, lost) {
        (false, _) => "damaged".to_owned(),
        (true, 0) => "whole".to_owned(),
        (true, 1) => {
            "incomplete: 1 row could not be stored; what was stored is undamaged".to_owned()
        }
        (true, _) => {
            format!("incomplete: {lost} rows could not be stored; what was stored is undamaged")
        }
    }
}

fn write_files(out: &mut dyn Write, verification: &Verification) -> std::io::Result<()> {
    for file in &verification.files {
        write!(
            out,
            "  {}: {} rows, {} events, {}",
            printable(&file.name),
            file.rows,
            file.events,
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
        for damage in &file.damage {
            writeln!(out, "    damaged: {}", printable(damage))?;
        }
    }
    Ok(())
}
