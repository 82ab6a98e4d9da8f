//! Writing `run.json`: whole or not at all, and also where the file system has no inode left.
//!
//! Everything happens through a descriptor of the run folder, so that a link which takes the folder's place is not followed.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use rustix::fs::{AtFlags, Mode, OFlags};

use crate::filesystem;
use crate::names;

/// Puts these bytes into the folder's `run.json`.
pub(crate) fn replace(folder: &File, bytes: &[u8], sync: bool) -> io::Result<()> {
    match replace_by_renaming(folder, names::DESCRIPTION, bytes, sync) {
        Err(error) if is_out_of_space(&error) => {
            // A draft needs an inode and a block; the file that is there has both.
            overwrite(folder, bytes, sync).map_err(|_| error)
        }
        outcome => outcome,
    }
}

/// Puts these bytes into a file of this name, whole or not at all.
pub(crate) fn replace_by_renaming(
    folder: &File,
    name: &str,
    bytes: &[u8],
    sync: bool,
) -> io::Result<()> {
    let draft = format!("{name}.{}.tmp", std::process::id());
    // A draft of this name is what a killed process with our PID left behind.
    let _ = rustix::fs::unlinkat(folder, &draft, AtFlags::empty());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let written = rustix::fs::openat(folder, &draft, flags, Mode::from_raw_mode(0o666))
        .map_err(io::Error::from)
        .and_then(|draft| {
            let mut draft = File::from(draft);
            draft.write_all(bytes)?;
            if sync { draft.sync_data() } else { Ok(()) }
        })
        .and_then(|()| Ok(rustix::fs::renameat(folder, &draft, folder, name)?));
    if written.is_err() {
        let _ = rustix::fs::unlinkat(folder, &draft, AtFlags::empty());
    }
    written
}

/// Writes over the file in one call, with blanks behind it where it was longer; what was there is put back when that fails.
fn overwrite(folder: &File, bytes: &[u8], sync: bool) -> io::Result<()> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(
        folder,
        names::DESCRIPTION,
        flags,
        Mode::empty(),
    )?);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut before = vec![0; metadata.len() as usize];
    let filled = filesystem::read_at(&file, &mut before, 0)?;
    before.truncate(filled);
    let mut padded = bytes.to_vec();
    if padded.len() < before.len() {
        padded.resize(before.len(), b' ');
    }
    let written = file.write_at(&padded, 0);
    if written.as_ref().is_ok_and(|count| *count == padded.len()) {
        let _ = file.set_len(bytes.len() as u64);
        return if sync { file.sync_data() } else { Ok(()) };
    }
    let _ = file.write_all_at(&before, 0);
    let _ = file.set_len(before.len() as u64);
    Err(written.err().unwrap_or(io::ErrorKind::StorageFull.into()))
}

fn is_out_of_space(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
