//! The word about runs whose files are damaged.

use nilo_analysis::damage;
use nilo_answer::damage::damage_warning;
use nilo_runfile::RunFolder;
use nilo_sample::Recording;

use crate::failure::warn;
use crate::pasted_command::command_for_run;
use crate::settings::Settings;

/// Says that what follows may be incomplete, where the files of a run are damaged.
pub(crate) fn warn_of_damage(recording: &Recording, folder: &RunFolder, settings: &Settings) {
    if !damage(recording).is_empty() {
        warn_of_damaged_run(folder, settings);
    }
}

/// The same, where it is known that they are.
pub(crate) fn warn_of_damaged_run(folder: &RunFolder, settings: &Settings) {
    let command = command_for_run("verify", folder, settings);
    warn(&damage_warning(&command));
}
