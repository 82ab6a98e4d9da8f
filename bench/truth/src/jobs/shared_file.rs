//! Two processes of a job read one mapped file whole; the harness maps it too, as a stranger would.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{MIB, SHARED_FILE_BYTES, rest};
use crate::region::Region;
use crate::settings::JobArgs;

/// What each process allocates for itself in the middle of the job.
const OWN_BYTES: usize = 20 * MIB;

/// Where the file lies in the job's folder.
pub(crate) fn path_in(folder: &Path) -> PathBuf {
    folder.join("shared-data")
}

/// The first process starts the second as another program, so that nothing is shared by inheritance.
pub(super) fn perform(job: &JobArgs) -> io::Result<()> {
    let mut other = if job.census.is_none() {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["job", "shared-file", "--census", "0", "--folder"]);
        Some(command.arg(&job.folder).arg0("reader").spawn()?)
    } else {
        None
    };
    let file = File::options()
        .read(true)
        .write(true)
        .open(path_in(&job.folder))?;
    let data = Region::shared_file(&file, SHARED_FILE_BYTES)?;
    (0..data.pages()).for_each(|page| {
        data.read(page);
    });
    rest(6000);
    // Something has to move after the stranger came, or nobody would look again.
    let more = Region::anonymous(OWN_BYTES)?;
    (0..more.pages()).for_each(|page| more.write(page, 1));
    rest(5000);
    if let Some(other) = &mut other {
        other.wait()?;
    }
    Ok(())
}
