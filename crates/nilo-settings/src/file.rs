//! Opening a settings file: once, and judged by the descriptor, so that nobody can swap it between look and read.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use nilo_runfile::DEFAULT_ROOT;
use rustix::fs::{Mode, OFlags};
use thiserror::Error;

/// A settings file is a page of text, not a data set.
const LARGEST_BYTES: u64 = 1 << 20;
/// Permission of the group or of everybody to write.
const OTHERS_WRITE: u32 = 0o022;

/// A file that was read.
#[derive(Debug)]
pub struct SettingsFile {
    /// Where it is, links in the folders above it resolved.
    pub path: PathBuf,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// Why a file is left alone.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum UntrustedFile {
    /// It is a link, which may lead anywhere.
    #[error("it is a symbolic link")]
    Link,
    /// Another user owns it.
    #[error("it belongs to another user (UID {uid})")]
    Stranger {
        /// Whose it is.
        uid: u32,
    },
    /// Others can change it at any time.
    #[error("others can write to it (mode {mode:03o}; `chmod go-w` changes that)")]
    Writable {
        /// Its permissions.
        mode: u32,
    },
    /// A directory, a FIFO or a device, of which nothing is read.
    #[error("it is {what}, not a file")]
    NotAFile {
        /// What it is, with its article.
        what: &'static str,
    },
    /// It is too long for a settings file.
    #[error("it is larger than 1 MiB")]
    TooLarge,
    /// It cannot be opened or read.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
}

impl From<io::Error> for UntrustedFile {
    fn from(error: io::Error) -> UntrustedFile {
        UntrustedFile::Unreadable(error.to_string())
    }
}

/// Whose files are acceptable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileOrigin {
    /// Found by searching: ours or root's, no link, not writable by others.
    Found,
    /// In the user's own configuration folder: the same, but it may be a link, as dotfile managers make them.
    Own,
    /// Named by the user.
    Named,
}

/// Reads a file that was found by searching; `None` when there is none.
pub fn read_found(path: &Path) -> Result<Option<SettingsFile>, UntrustedFile> {
    read(path, FileOrigin::Found)
}

/// A link in the place of the default folder of runs, for an approval: its content is where it leads. `None` for anything else.
pub fn read_linked_root(path: &Path) -> Option<SettingsFile> {
    if path.file_name() != Some(OsStr::new(DEFAULT_ROOT)) {
        return None;
    }
    let target = std::fs::read_link(path).ok()?;
    Some(SettingsFile {
        path: resolved(path),
        bytes: target.into_os_string().into_encoded_bytes(),
    })
}

pub(crate) fn read(path: &Path, whose: FileOrigin) -> Result<Option<SettingsFile>, UntrustedFile> {
    // Non-blocking: a FIFO of this name must not hold us up.
    let mut flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    if whose == FileOrigin::Found {
        flags |= OFlags::NOFOLLOW;
    }
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(descriptor) => File::from(descriptor),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => return Ok(None),
        Err(rustix::io::Errno::LOOP) => return Err(UntrustedFile::Link),
        Err(error) => return Err(io::Error::from(error).into()),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        let what = kind_of(metadata.file_type());
        return Err(UntrustedFile::NotAFile { what });
    }
    if whose != FileOrigin::Named {
        let (uid, ours) = (metadata.uid(), rustix::process::geteuid().as_raw());
        if uid != ours && uid != 0 {
            return Err(UntrustedFile::Stranger { uid });
        }
        let mode = metadata.mode() & 0o777;
        if mode & OTHERS_WRITE != 0 {
            return Err(UntrustedFile::Writable { mode });
        }
    }
    let mut bytes = Vec::new();
    file.take(LARGEST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST_BYTES {
        return Err(UntrustedFile::TooLarge);
    }
    Ok(Some(SettingsFile {
        path: resolved(path),
        bytes,
    }))
}

fn kind_of(kind: std::fs::FileType) -> &'static str {
    match kind {
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a FIFO",
        kind if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "something else",
    }
}

/// The path with the folder's links resolved: an approval is for one file, however it is reached.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => match parent.canonicalize() {
            Ok(parent) => parent.join(name),
            Err(_) => absolute,
        },
        _ => absolute,
    }
}
