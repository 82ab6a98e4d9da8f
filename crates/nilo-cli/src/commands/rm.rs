//! `nilo rm`: delete runs by name.
//!
//! Only a folder that is a run is deleted, and only itself: a link to one is refused, and links inside of it are removed, not followed.

use std::io::Write;

use nilo_answer::removed::{RemovedAnswer, RemovedRun};
use nilo_recorder::recorder_is_alive;
use nilo_runfile::RunFolder;
use nilo_sample::units::format_bytes;

use crate::args::{RmArgs, TextOrJson};
use crate::failure::{Failure, warn};
use crate::folder::{existing_root, find_only_run, folder_name, is_ours};
use crate::settings::Settings;
use crate::text::json::write_sorted_json;

pub(crate) fn run(args: RmArgs, settings: &Settings) -> Result<u8, Failure> {
    let root = existing_root(&args.place, settings)?;
    // All or nothing: a name that is wrong is said before anything is gone. `last~1` is counted before, too.
    let mut folders: Vec<RunFolder> = Vec::new();
    for asked in &args.runs {
        let folder = find_only_run(&root, without_slash(asked))?;
        check(&folder, args.force)?;
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    let (mut removed, mut failed) = (Vec::new(), false);
    for folder in &folders {
        let path = folder.path().display().to_string();
        let freed_bytes = folder.size_bytes();
        match std::fs::remove_dir_all(folder.path()) {
            Ok(()) => removed.push(RemovedRun {
                run: folder_name(folder),
                path,
                freed_bytes,
            }),
            Err(error) => {
                warn(&format!("could not delete {path}: {error}"));
                failed = true;
            }
        }
    }
    let mut out = std::io::stdout().lock();
    match args.format {
        TextOrJson::Json => {
            write_sorted_json(&mut out, &RemovedAnswer::new(removed))?;
        }
        TextOrJson::Text => {
            for run in &removed {
                let freed = format_bytes(run.freed_bytes as f64);
                writeln!(out, "deleted {} ({freed})", run.run)?;
            }
        }
    }
    Ok(if failed { 2 } else { 0 })
}

/// Whether a folder may be deleted.
fn check(folder: &RunFolder, force: bool) -> Result<(), Failure> {
    let path = folder.path();
    if std::fs::symlink_metadata(path)?.file_type().is_symlink() {
        return Err(
            Failure::new(format!("{} is a symbolic link", path.display()))
                .hint("delete the run under its own path, or the link with `rm`"),
        );
    }
    let description = folder.describe()?;
    if !is_ours(&description) {
        return Err(Failure::new(format!("not a run: {}", path.display()))
            .hint("its `run.json` is not nilo's; delete it with `rm -r`"));
    }
    if !force && description.ending.is_none() && recorder_is_alive(&description) {
        return Err(
            Failure::new(format!("{} is still being recorded", description.id))
                .hint("stop the job first, or delete the run with --force"),
        );
    }
    Ok(())
}

/// A link with a slash behind it is the folder that it leads to.
fn without_slash(asked: &str) -> &str {
    match asked.trim_end_matches('/') {
        "" => asked,
        path => path,
    }
}
