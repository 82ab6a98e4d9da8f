//! The folder `attachments/` of a run, reached through a descriptor: nothing in it, nor a link in its place, leads elsewhere.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Its name in the run folder.
pub(crate) const ATTACHMENTS: &str = "attachments";

/// A file in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredFile {
    pub(crate) name: String,
    pub(crate) size_bytes: u64,
}

/// The open folder.
pub(crate) struct AttachmentFolder {
    folder: File,
    /// Who may read the files: those who may read the run.
    file_mode: Mode,
}

impl AttachmentFolder {
    /// Opens the folder of a run; `None` when it has none.
    pub(crate) fn open(run: &File) -> io::Result<Option<AttachmentFolder>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(run, ATTACHMENTS, flags, Mode::empty()) {
            Ok(folder) => Ok(Some(AttachmentFolder {
                folder: File::from(folder),
                file_mode: Mode::from_raw_mode(run.metadata()?.mode() & 0o666),
            })),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The same; the folder is made where it is missing, for whom the run folder is.
    pub(crate) fn open_or_create(run: &File) -> io::Result<AttachmentFolder> {
        let mode = Mode::from_raw_mode(run.metadata()?.mode() & 0o777);
        match rustix::fs::mkdirat(run, ATTACHMENTS, mode) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        AttachmentFolder::open(run)?.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The regular files in it, by name.
    pub(crate) fn list(&self) -> io::Result<Vec<StoredFile>> {
        let mut found = Vec::new();
        for entry in Dir::read_from(&self.folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            // It may be gone since, or be a draft that has got its name.
            let Ok(stat) = rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
                found.push(StoredFile {
                    name: name.to_owned(),
                    size_bytes: u64::try_from(stat.st_size).unwrap_or(0),
                });
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Opens a regular file for reading; links are not followed, and a FIFO does not block.
    pub(crate) fn open_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(
            &self.folder,
            name,
            flags,
            Mode::empty(),
        )?);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    pub(crate) fn create_draft(&self, draft: &str) -> io::Result<File> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.folder, draft, flags, self.file_mode)?;
        Ok(File::from(file))
    }

    /// Gives a draft its name, unless something has that name.
    pub(crate) fn publish(&self, draft: &str, name: &str) -> io::Result<()> {
        match rename_if_free(&self.folder, draft, name) {
            // Not every file system can rename so (NFS cannot), nearly all can link.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                rustix::fs::linkat(&self.folder, draft, &self.folder, name, AtFlags::empty())?;
                self.remove(draft);
            }
            outcome => outcome?,
        }
        self.folder.sync_all()
    }

    pub(crate) fn remove(&self, name: &str) {
        let _ = rustix::fs::unlinkat(&self.folder, name, AtFlags::empty());
    }
}

#[cfg(target_os = "linux")]
fn rename_if_free(folder: &File, from: &str, to: &str) -> Result<(), Errno> {
    rustix::fs::renameat_with(folder, from, folder, to, rustix::fs::RenameFlags::NOREPLACE)
}

#[cfg(not(target_os = "linux"))]
fn rename_if_free(_folder: &File, _from: &str, _to: &str) -> Result<(), Errno> {
    Err(Errno::NOSYS)
}
