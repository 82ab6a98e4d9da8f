//! `nilo verify`: are the files of a run whole?

use std::io::Write;
use std::path::Path;

use nilo_answer::verify::{CheckedRun, Integrity, VerifiedRun, VerifyAnswer};
use nilo_runfile::find::folder_of_id;
use nilo_runfile::{FileKind, RunFolder, RunfileError, Verification, list_runs};
use nilo_sample::printable::printable;
use nilo_sample::units::format_bytes;

use crate::args::{TextOrJson, VerifyArgs};
use crate::failure::{Failure, verdict_status};
use crate::folder::{existing_root, find_run, known_runs};
use crate::screen::Screen;
use crate::settings::Settings;
use crate::text::json::write_sorted_json;
use crate::wrap::WrappingWriter;

pub(crate) fn run(args: VerifyArgs, settings: &Settings) -> Result<u8, Failure> {
    let root = existing_root(&args.place, settings)?;
    let folders = match args.all {
        true => every_run(&root)?,
        false => vec![one_run(&root, args.run.as_deref())?],
    };
    let mut checked = Vec::new();
    let mut out = std::io::stdout().lock();
    let is_text = args.format == TextOrJson::Text;
    let mut written = Ok(());
    for folder in folders {
        match folder.and_then(|folder| CheckedRun::of(&folder)) {
            Ok(run) => {
                let outcome = run.outcome();
                // Who stopped reading still gets the status of all of them.
                if is_text && written.is_ok() {
                    let mut out = WrappingWriter::new(&mut out, Screen::stdout());
                    written = write_run(&mut out, &run);
                }
                checked.push((VerifiedRun::Checked(run), outcome));
            }
            Err(error) => {
                let outcome = Integrity::of_error(&error);
                let error = Failure::from(error).sentence();
                if is_text && written.is_ok() {
                    written = writeln!(out, "{error}");
                }
                checked.push((VerifiedRun::NotOpened { error }, outcome));
            }
        }
    }
    let answer = VerifyAnswer::of(checked);
    if !is_text {
        written = write_sorted_json(&mut out, &answer);
    }
    verdict_status(answer.outcome.exit_status(), written)
}

/// The run that the user means. One that is there and cannot be opened is damaged, which is for this verb to find;
/// what is not there at all is a mistake.
fn one_run(root: &Path, asked: Option<&str>) -> Result<Result<RunFolder, RunfileError>, Failure> {
    let id = asked.map(|asked| {
        let path = Path::new(asked);
        let is_below = path.parent().is_some_and(|above| is_same(above, root));
        match path.file_name().and_then(|id| id.to_str()) {
            Some(id) if is_below => id,
            _ => asked,
        }
    });
    if let Some(path) = id.and_then(|id| folder_of_id(root, id)) {
        let folder = RunFolder::open(&path);
        let is_described = folder
            .as_ref()
            .is_ok_and(|folder| folder.describe().is_ok());
        if !is_described {
            return Ok(folder);
        }
    }
    if asked.is_none_or(|asked| asked == "last")
        && known_runs(root).is_empty()
        && let Some(newest) = list_runs(root).pop()
    {
        return Ok(newest);
    }
    Ok(Ok(find_run(root, asked)?))
}

fn is_same(folder: &Path, other: &Path) -> bool {
    let place = folder.canonicalize();
    place.is_ok_and(|place| other.canonicalize().is_ok_and(|other| other == place))
}

/// Every run of a folder, broken ones too; it is an error that there is none.
fn every_run(root: &Path) -> Result<Vec<Result<RunFolder, RunfileError>>, Failure> {
    let runs = list_runs(root);
    if !runs.is_empty() {
        return Ok(runs);
    }
    Err(Failure::new(format!("no runs in {}", root.display()))
        .hint("choose another folder with --dir"))
}

fn write_run(out: &mut dyn Write, run: &CheckedRun) -> std::io::Result<()> {
    writeln!(out, "{}: {}", run.path, verdict(run))?;
    write_files(out, &run.verification)?;
    for text in &run.missing {
        writeln!(out, "    damaged: {text}")?;
    }
    Ok(())
}

fn verdict(run: &CheckedRun) -> String {
    let screen = Screen::stdout();
    match (run.outcome(), run.dropped_rows()) {
        (Integrity::NotChecked, _) => screen.paint("critical", "not checked"),
        (Integrity::Damaged, _) => screen.paint("critical", "damaged"),
        (Integrity::Whole, 0) => "ok".to_owned(),
        (Integrity::Whole, lost) => {
            let rows = if lost == 1 { "row" } else { "rows" };
            let incomplete = screen.paint("warning", "incomplete:");
            format!("{incomplete} {lost} {rows} could not be stored; what was stored is intact")
        }
    }
}

fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

fn write_files(out: &mut dyn Write, verification: &Verification) -> std::io::Result<()> {
    for file in &verification.files {
        let size = format_bytes(file.used_bytes as f64);
        let content = match file.kind {
            FileKind::Attachment if file.torn_tail_bytes > 0 => "unfinished".to_owned(),
            FileKind::Attachment => format_bytes(file.size_bytes as f64),
            FileKind::Description => size,
            FileKind::Other => format!(
                "not part of the recording, {}",
                format_bytes(file.size_bytes as f64)
            ),
            _ => format!(
                "{}, {}, {size}",
                counted(file.rows, "row"),
                counted(file.events, "event")
            ),
        };
        write!(out, "  {}: {content}", printable(&file.name))?;
        if file.torn_tail_bytes > 0 && file.kind != FileKind::Attachment {
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
