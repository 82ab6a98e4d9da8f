//! Puts a file in the place of another one in one step, and leaves nothing behind when the program is killed meanwhile.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, OFlags, linkat};

/// Names of what is being written, where a file without a name cannot be.
const PREFIX: &str = ".nilo-";

/// A file that another one takes the place of.
pub(crate) struct ReplacedFile {
    target: PathBuf,
}

impl ReplacedFile {
    /// A link stays a link: what it leads to is replaced. A device or a pipe cannot hold a file.
    pub(crate) fn of(path: &Path) -> io::Result<ReplacedFile> {
        let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        match target.metadata() {
            Ok(there) if !there.is_file() => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"))
            }
            _ => Ok(ReplacedFile { target }),
        }
    }

    fn folder(&self) -> &Path {
        match self.target.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        }
    }

    /// Writes the file and puts it into place once it is on disk.
    pub(crate) fn write(&self, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        match self.nameless() {
            Ok(mut file) => {
                write(&mut file)?;
                file.sync_all()?;
                self.name(&file)?;
            }
            Err(_) => self.write_named(write)?,
        }
        // The name has to last as well; folders of some file systems cannot be synced.
        let _ = File::open(self.folder()).and_then(|folder| folder.sync_all());
        Ok(())
    }

    /// A file without a name is gone with the process that writes it. Not every file system has them.
    fn nameless(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        let options = options.write(true).mode(0o666);
        let flags = i32::try_from(OFlags::TMPFILE.bits()).expect("the flags of open(2) fit");
        let file = options.custom_flags(flags).open(self.folder())?;
        // Without /proc it could not be named in the end.
        descriptor_path(&file).metadata()?;
        Ok(file)
    }

    /// No call gives a nameless file the name of one that exists: it gets a passing one first.
    fn name(&self, file: &File) -> io::Result<()> {
        let source = descriptor_path(file);
        let named = tempfile::Builder::new()
            .prefix(PREFIX)
            .make_in(self.folder(), |name| {
                Ok(linkat(CWD, &source, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
            })?;
        named.persist(&self.target).map_err(|error| error.error)
    }

    fn write_named(&self, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        let mut file = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(self.folder())?;
        write(file.as_file_mut())?;
        file.as_file().sync_all()?;
        file.persist(&self.target)
            .map(drop)
            .map_err(|error| error.error)
    }
}

fn descriptor_path(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn while_a_file_is_written_nothing_of_it_has_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("buffer");
        std::fs::write(&path, "old").unwrap();
        let replaced = ReplacedFile::of(&path).unwrap();
        if replaced.nameless().is_err() {
            eprintln!("skipped: this file system has no files without a name");
            return;
        }
        let write = |file: &mut File| {
            assert_eq!(names(folder.path()), ["buffer"]);
            assert_eq!(std::fs::read(&path)?, b"old");
            file.write_all(b"new")
        };
        replaced.write(write).unwrap();
        assert_eq!(names(folder.path()), ["buffer"]);
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn where_files_need_a_name_they_are_replaced_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("buffer");
        std::fs::write(&path, "old").unwrap();
        let replaced = ReplacedFile::of(&path).unwrap();
        replaced.write_named(|file| file.write_all(b"new")).unwrap();
        let failed = replaced.write_named(|_| Err(io::Error::other("full")));
        assert_eq!(failed.unwrap_err().to_string(), "full");
        assert_eq!(names(folder.path()), ["buffer"]);
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn a_link_stays_a_link_and_a_pipe_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("buffer"), folder.path().join("link"));
        std::fs::write(&path, "old").unwrap();
        std::os::unix::fs::symlink("buffer", &link).unwrap();
        let replaced = ReplacedFile::of(&link).unwrap();
        replaced.write(|file| file.write_all(b"new")).unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let refused = ReplacedFile::of(&pipe).map(drop).unwrap_err();
        assert_eq!(refused.to_string(), "not a file");
    }
}
