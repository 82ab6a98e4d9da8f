//! A file that is there whole or not at all: written beside its place under a passing name, and renamed in the end.
//!
//! Errors never speak of the passing name, which means nothing to anybody.

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// A file that is being written. Unless it is kept, nothing is left of it.
#[derive(Debug)]
pub struct WholeFile {
    file: NamedTempFile<File>,
    target: PathBuf,
}

impl WholeFile {
    /// Begins the file that will lie at `path`. A link stays a link: what it leads to is written.
    pub fn create(path: &Path) -> io::Result<Self> {
        let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if target.metadata().is_ok_and(|there| !there.is_file()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"));
        }
        let folder = match target.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        // The permissions of any other file: the user's mask takes away from them.
        let refusal = Cell::new(None);
        let open = |name: &Path| {
            let mut options = OpenOptions::new();
            let options = options.read(true).write(true).create_new(true).mode(0o666);
            let opened = options.open(name);
            opened.inspect_err(|error| refusal.set(error.raw_os_error()))
        };
        // Its own error carries the passing name.
        let said = |error: io::Error| match refusal.get() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::from(error.kind()),
        };
        let file = tempfile::Builder::new()
            .prefix(".nilo-")
            .make_in(folder, open)
            .map_err(said)?;
        Ok(Self { file, target })
    }

    /// Waits until what was written is on disk.
    pub fn sync(&self) -> io::Result<()> {
        self.file.as_file().sync_all()
    }

    /// Everything is written: the file appears under its name.
    pub fn keep(self) -> io::Result<()> {
        let persisted = self.file.persist(&self.target);
        persisted.map(drop).map_err(|error| error.error)
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.as_file_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_file_mut().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_not_kept_leaves_nothing_and_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ids");
        std::fs::write(&path, "old").unwrap();
        let mut file = WholeFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(names(folder.path()), ["ids"]);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
    }

    #[test]
    fn what_is_kept_is_whole_and_a_link_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("ids"), folder.path().join("link"));
        std::fs::write(&path, "old").unwrap();
        std::os::unix::fs::symlink("ids", &link).unwrap();
        let mut file = WholeFile::create(&link).unwrap();
        file.write_all(b"whole").unwrap();
        file.sync().unwrap();
        file.keep().unwrap();
        assert_eq!(names(folder.path()), ["ids", "link"]);
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
    }

    #[test]
    fn errors_do_not_speak_of_the_passing_name() {
        let folder = tempfile::tempdir().unwrap();
        let error = WholeFile::create(&folder.path().join("nowhere/ids")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert_eq!(
            error.to_string(),
            io::Error::from_raw_os_error(2).to_string()
        );
        let error = WholeFile::create(folder.path()).unwrap_err();
        assert_eq!(error.to_string(), "not a file");
    }
}
