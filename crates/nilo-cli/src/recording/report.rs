//! What is said and written when a recording has ended.

use std::path::Path;

use nilo_analysis::summarize;
use nilo_runfile::RunFolder;
use nilo_sample::Ending;

use crate::failure;
use crate::folder::{is_deleted, load_recorded};
use crate::pasted_command::command_for_run;
use crate::screen::Screen;
use crate::settings::Settings;
use crate::text::fresh_line::begin_line;
use crate::text::json::json_text;
use crate::text::left_running::still_alive;
use crate::text::summary::{FEW, write_summary};
use crate::wrap::WrappingWriter;

/// Prints the summary and writes it where asked; trouble here never changes the command's status.
///
/// The ending and the number of lost rows are those that the recorder knows: on a full disk the folder has neither.
/// `before_text` is called once what was asked for as a file is written, and says whether anything may be printed.
pub(crate) fn report(
    folder: &RunFolder,
    (ending, dropped): (&Ending, u64),
    quiet: bool,
    json: Option<&Path>,
    settings: &Settings,
    before_text: impl FnOnce() -> bool,
) {
    if quiet && json.is_none() && !is_deleted(folder) {
        before_text();
        return;
    }
    let mut recording = match load_recorded(folder) {
        Ok(recording) => recording,
        Err(failure) => {
            if before_text() {
                begin_line();
                failure.report();
            }
            return;
        }
    };
    let of_programs = recording.dropped_program_rows;
    recording.dropped_rows = recording.dropped_rows.max(dropped + of_programs);
    let summary = summarize(&recording, ending);
    let unwritten = json.and_then(|path| {
        let text = json_text(&summary).unwrap_or_default();
        Some((path, std::fs::write(path, text).err()?))
    });
    if !before_text() {
        return;
    }
    if !quiet {
        begin_line();
    }
    if let Some((path, error)) = unwritten {
        failure::warn(&format!(
            "could not write the summary to {}: {error}",
            path.display()
        ));
    }
    if !quiet {
        let mut text = Vec::new();
        write_summary(
            &mut WrappingWriter::new(&mut text, Screen::stderr()),
            Screen::stderr(),
            &summary,
            &folder.path().display().to_string(),
            FEW,
            &still_alive(&recording, &summary.left_running),
            &|verb: &str| command_for_run(verb, folder, settings),
        )
        .ok();
        std::io::Write::write_all(&mut std::io::stderr().lock(), &text).ok();
    }
}
