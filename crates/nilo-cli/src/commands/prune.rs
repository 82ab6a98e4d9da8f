//! `nilo prune`: delete old runs, never one that is still being recorded.

use std::io::Write;

use nilo_recorder::recorder_is_alive;
use nilo_runfile::find::readable_runs;
use nilo_runfile::{check_root, unix_nanos};
use nilo_sample::units::format_bytes;

use crate::args::PruneArgs;
use crate::failure::{Failure, warn};
use crate::folder::runs_root;
use crate::settings::Settings;

pub(crate) fn run(args: PruneArgs, settings: &Settings) -> Result<u8, Failure> {
    let root = runs_root(&args.place, settings);
    check_root(&root)?;
    let runs = readable_runs(&root);
    let oldest_kept = unix_nanos().saturating_sub(args.older_than.unwrap_or(0));
    let deletable = runs.len().saturating_sub(args.keep.unwrap_or(0));
    let mut out = std::io::stdout().lock();
    let (mut count, mut freed, mut failed) = (0, 0, false);
    for (folder, description) in &runs[..deletable] {
        let running = description.ending.is_none() && recorder_is_alive(description);
        if running || description.started_unix_nanos > oldest_kept {
            continue;
        }
        let size = folder.size_bytes();
        let verb = if args.dry_run {
            "would delete"
        } else {
            "deleted"
        };
        if !args.dry_run
            && let Err(error) = std::fs::remove_dir_all(folder.path())
        {
            warn(&format!(
                "could not delete {}: {error}",
                folder.path().display()
            ));
            failed = true;
            continue;
        }
        count += 1;
        freed += size;
        writeln!(
            out,
            "{verb} {} ({})",
            description.id,
            format_bytes(size as f64)
        )?;
    }
    let verb = if args.dry_run { "would free" } else { "freed" };
    writeln!(
        out,
        "{count} of {} runs, {verb} {}",
        runs.len(),
        format_bytes(freed as f64)
    )?;
    Ok(if failed { 2 } else { 0 })
}
