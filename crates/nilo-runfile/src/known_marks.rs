//! The marks of a run that has ended: `run.json` has the length of their file, which only grows.

use std::path::Path;

use nilo_sample::RunDescription;

use crate::names;

/// The length of the file of marks; `None` where there is none.
pub(crate) fn marks_now(folder: &Path) -> Option<u64> {
    let found = folder.join(names::MARKS).symlink_metadata().ok()?;
    found.is_file().then_some(found.len())
}

/// What is to be said of marks that are not all there any more. Marks may be added to a run that has ended.
pub(crate) fn missing_marks(folder: &Path, told: &RunDescription) -> Option<String> {
    let known = told.marks_bytes?;
    match marks_now(folder) {
        // Whatever else stands in its place is told where it is opened.
        None => {
            let path = folder.join(names::MARKS);
            let is_gone = path.symlink_metadata().is_err();
            is_gone.then(|| "the file is missing".to_owned())
        }
        Some(now) if now < known => Some(format!(
            "it ends at {now} bytes and had {known} when the run ended"
        )),
        Some(_) => None,
    }
}
