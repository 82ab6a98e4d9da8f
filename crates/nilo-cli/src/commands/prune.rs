//! `nilo prune`: delete old runs, never one that is still being recorded.

use std::io::Write;

use nilo_answer::pruned::PrunedAnswer;
use nilo_answer::removed::RemovedRun;
use nilo_recorder::recorder_is_alive;
use nilo_runfile::find::readable_runs;
use nilo_runfile::{check_root, unix_nanos};
use nilo_sample::units::format_bytes;

use crate::args::{PruneArgs, TextOrJson};
use crate::failure::{Failure, warn};
use crate::folder::{existing_root, folder_name, is_ours};
use crate::settings::Settings;
use crate::text::json::write_sorted_json;

pub(crate) fn run(args: PruneArgs, settings: &Settings) -> Result<u8, Failure> {
    let root = existing_root(&args.place, settings)?;
    check_root(&root)?;
    let mut runs = readable_runs(&root);
    runs.retain(|(_, description)| is_ours(description));
    let oldest_kept = unix_nanos().saturating_sub(args.older_than.unwrap_or(0));
    let deletable = runs.len().saturating_sub(args.keep.unwrap_or(0));
    let (mut removed, mut failed) = (Vec::new(), false);
    for (folder, description) in &runs[..deletable] {
        let running = description.ending.is_none() && recorder_is_alive(description);
        if running || description.started_unix_nanos > oldest_kept {
            continue;
        }
        let path = folder.path().display().to_string();
        let freed_bytes = folder.size_bytes();
        if !args.dry_run
            && let Err(error) = std::fs::remove_dir_all(folder.path())
        {
            warn(&format!("could not delete {path}: {error}"));
            failed = true;
            continue;
        }
        removed.push(RemovedRun {
            run: folder_name(folder),
            path,
            freed_bytes,
        });
    }
    let answer = PrunedAnswer::new(removed, runs.len(), args.dry_run);
    let mut out = std::io::stdout().lock();
    match args.format {
        TextOrJson::Json => write_sorted_json(&mut out, &answer)?,
        TextOrJson::Text => write_text(&mut out, &answer, runs.len())?,
    }
    Ok(if failed { 2 } else { 0 })
}

fn write_text(out: &mut dyn Write, answer: &PrunedAnswer, runs: usize) -> std::io::Result<()> {
    let (delete, free) = match answer.dry_run {
        true => ("would delete", "would free"),
        false => ("deleted", "freed"),
    };
    for run in &answer.removed {
        let freed = format_bytes(run.freed_bytes as f64);
        writeln!(out, "{delete} {} ({freed})", run.run)?;
    }
    let freed = format_bytes(answer.freed_bytes as f64);
    writeln!(
        out,
        "{delete} {} of {runs} runs, {free} {freed}",
        answer.removed.len()
    )
}
