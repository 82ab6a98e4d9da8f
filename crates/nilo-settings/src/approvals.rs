//! Which settings files the user has approved: one small file for each path and content, in the user's state folder.
//!
//! Its name is a SHA-256 of path and content, so that a file that changes, or another one with the same content, needs an approval of its own.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};
use rustix::fs::{Mode, OFlags};

use crate::file::{SettingsFile, resolved};

/// The user's approvals.
#[derive(Debug, Clone)]
pub struct Approvals {
    folder: PathBuf,
}

impl Approvals {
    /// Those of this user: `$XDG_STATE_HOME/nilo/trusted`, or below `~/.local/state`. `None` without a home.
    pub fn of_user() -> Option<Approvals> {
        let state = absolute_variable("XDG_STATE_HOME")
            .or_else(|| Some(absolute_variable("HOME")?.join(".local/state")))?;
        Some(Approvals::at(state.join("nilo/trusted")))
    }

    /// Those in a folder.
    pub fn at(folder: PathBuf) -> Approvals {
        Approvals { folder }
    }

    /// Whether this file with this content was approved.
    pub fn contains(&self, file: &SettingsFile) -> bool {
        self.is_ours()
            && self.read(&self.record_of(file)).as_deref() == Some(path_bytes(&file.path))
    }

    /// Approves this file with this content.
    pub fn add(&self, file: &SettingsFile) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)?;
        if !self.is_ours() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "the folder of approvals belongs to another user, or others can write to it",
            ));
        }
        let record = self.record_of(file);
        // One that was cut off by a kill is written anew.
        let _ = std::fs::remove_file(&record);
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(record)?
            .write_all(path_bytes(&file.path))
    }

    /// Takes back every approval of a path, whatever the content was; gives their number.
    pub fn revoke(&self, path: &Path) -> io::Result<usize> {
        let path = resolved(path);
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error),
        };
        let mut revoked = 0;
        for entry in entries {
            let record = entry?.path();
            if self.read(&record).as_deref() == Some(path_bytes(&path)) {
                std::fs::remove_file(record)?;
                revoked += 1;
            }
        }
        Ok(revoked)
    }

    fn record_of(&self, file: &SettingsFile) -> PathBuf {
        let path = path_bytes(&file.path);
        let mut hash = Context::new(&SHA256);
        hash.update(&(path.len() as u64).to_le_bytes());
        hash.update(path);
        hash.update(&file.bytes);
        let digest = hash.finish();
        let name: String = digest
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        self.folder.join(name)
    }

    /// Whether nobody else can put approvals here.
    fn is_ours(&self) -> bool {
        std::fs::symlink_metadata(&self.folder)
            .is_ok_and(|folder| folder.is_dir() && is_only_ours(&folder))
    }

    /// The path that a record is for.
    fn read(&self, record: &Path) -> Option<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(record, flags, Mode::empty()).ok()?);
        let metadata = file.metadata().ok()?;
        if !metadata.is_file() || !is_only_ours(&metadata) {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(1 << 16).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }
}

fn is_only_ours(metadata: &std::fs::Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o022 == 0
}

fn path_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// A variable that names a folder; one that is empty or relative is as good as unset.
pub(crate) fn absolute_variable(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os(name)?);
    path.is_absolute().then_some(path)
}
