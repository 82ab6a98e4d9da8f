//! What was computed from a run's files and is kept beside them, so that it need not be computed again.
//!
//! It holds for the program that wrote it, as long as all files of the run, and of the runs inside it, are as they were.
//! Nothing is lost with it: what is missing, out of date or damaged is computed again.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::{fs, io};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::description_file::replace_by_renaming;
use crate::family::RUNS;
use crate::filesystem::read_limited;
use crate::folder::RunFolder;
use crate::names;

const MAGIC: &[u8; 8] = b"NILODRV\n";
/// Magic, state of the files, CRC of what follows.
const HEADER_LEN: usize = 20;
/// What is kept is small; a larger file is not ours.
const MOST_BYTES: u64 = 4 << 20;

/// The state of a run's files at some moment, and who looked at them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilesState(u64);

/// How long a result holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// As long as the files are what they are.
    UntilFilesChange,
    /// It is another one the next time: the run is still running, say.
    Once,
}

impl RunFolder {
    /// What `compute` makes of the run; kept under a name beside its files, and taken from there as long as these do not change.
    ///
    /// `program` says what computes, and in which version: what another one kept does not count.
    /// Where nothing can be kept (a folder of somebody else, a full disk), it is computed each time.
    pub fn derive<T: Serialize + DeserializeOwned, E>(
        &self,
        name: &str,
        program: &str,
        compute: impl FnOnce() -> Result<(T, Validity), E>,
    ) -> Result<T, E> {
        let state = self.files_state(program).ok();
        let kept = state.and_then(|state| self.read_derived(name, state));
        if let Some(kept) = kept.and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
            return Ok(kept);
        }
        let (computed, validity) = compute()?;
        if let (Some(state), Validity::UntilFilesChange) = (state, validity)
            && let Ok(bytes) = serde_json::to_vec(&computed)
        {
            self.write_derived(name, state, &bytes);
        }
        Ok(computed)
    }

    /// Names, sizes and times of change of all files. `program` says what computes from them, and in which version.
    ///
    /// Take it before reading the files: what changes meanwhile makes the result out of date. A run that is still being written to has no lasting state.
    pub fn files_state(&self, program: &str) -> io::Result<FilesState> {
        let mut hasher = DefaultHasher::new();
        program.hash(&mut hasher);
        add_files(self.path(), &mut hasher)?;
        if let Ok(inside) = fs::read_dir(self.path().join(RUNS)) {
            let mut inside: Vec<_> = inside
                .map(|entry| Ok(entry?.path()))
                .collect::<io::Result<_>>()?;
            inside.sort();
            for path in inside.iter().filter(|path| path.is_dir()) {
                path.file_name().hash(&mut hasher);
                add_files(path, &mut hasher)?;
            }
        }
        Ok(FilesState(hasher.finish()))
    }

    /// What was kept under a name, if it was computed from the files as they are.
    pub fn read_derived(&self, name: &str, state: FilesState) -> Option<Vec<u8>> {
        let path = self.path().join(file_name(name));
        let mut bytes = read_limited(&path, "kept result", MOST_BYTES).ok()?;
        let (magic, rest) = bytes.split_first_chunk::<8>()?;
        let (known, rest) = rest.split_first_chunk::<8>()?;
        let (checksum, content) = rest.split_first_chunk::<4>()?;
        let holds = magic == MAGIC
            && *known == state.0.to_le_bytes()
            && *checksum == crc32c::crc32c(content).to_le_bytes();
        holds.then(|| bytes.split_off(HEADER_LEN))
    }

    /// Keeps what was computed from files in this state. Where that is not possible, it is computed again the next time.
    pub fn write_derived(&self, name: &str, state: FilesState, content: &[u8]) {
        let mut bytes = Vec::with_capacity(HEADER_LEN + content.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&state.0.to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(content).to_le_bytes());
        bytes.extend_from_slice(content);
        // A link may come with a cloned repository and lead to a run of somebody else's folder.
        if bytes.len() as u64 > MOST_BYTES || self.path().is_symlink() {
            return;
        }
        if let Ok(folder) = self.open_folder() {
            let _ = replace_by_renaming(&folder, &file_name(name), &bytes, false);
        }
    }
}

fn file_name(name: &str) -> String {
    format!("{name}{}", names::DERIVED_ENDING)
}

fn add_files(folder: &Path, hasher: &mut DefaultHasher) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let text = name.as_encoded_bytes();
        if text.ends_with(b".tmp") || text.ends_with(names::DERIVED_ENDING.as_bytes()) {
            continue;
        }
        let metadata = entry.metadata()?;
        if metadata.is_file() {
            let changed = (metadata.ctime(), metadata.ctime_nsec());
            files.push((name, metadata.ino(), metadata.len(), changed));
        }
    }
    files.sort();
    files.hash(hasher);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> (tempfile::TempDir, RunFolder) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("run");
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("run.json"), b"{}").unwrap();
        let folder = RunFolder::open(&path).unwrap();
        (root, folder)
    }

    #[test]
    fn a_result_holds_until_a_file_of_the_run_changes() {
        let (_root, folder) = run();
        let state = folder.files_state("a/1").unwrap();
        assert_eq!(folder.read_derived("list", state), None);
        folder.write_derived("list", state, b"content");
        let now = folder.files_state("a/1").unwrap();
        assert_eq!(folder.read_derived("list", now).unwrap(), b"content");
        let inside = folder.path().join("runs/b");
        std::fs::create_dir_all(&inside).unwrap();
        let writers = [folder.path().join("marks.nilo"), inside.join("run.json")];
        for path in &writers {
            let before = folder.files_state("a/1").unwrap();
            std::fs::write(path, b"x").unwrap();
            let after = folder.files_state("a/1").unwrap();
            assert_ne!(before, after, "{}", path.display());
            std::fs::write(path, b"xy").unwrap();
            assert_ne!(after, folder.files_state("a/1").unwrap());
        }
        let changed = folder.files_state("a/1").unwrap();
        assert_eq!(folder.read_derived("list", changed), None);
    }

    #[test]
    fn nothing_is_kept_behind_a_link() {
        let (root, folder) = run();
        let link = root.path().join("link");
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        let linked = RunFolder::open(&link).unwrap();
        let state = linked.files_state("a/1").unwrap();
        linked.write_derived("list", state, b"content");
        assert!(!folder.path().join("list.derived").exists());
    }

    #[test]
    fn a_result_of_another_program_and_a_damaged_one_do_not_hold() {
        let (_root, folder) = run();
        let state = folder.files_state("a/1").unwrap();
        folder.write_derived("list", state, b"content");
        let other = folder.files_state("a/2").unwrap();
        assert_eq!(folder.read_derived("list", other), None);
        let path = folder.path().join("list.derived");
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, &damaged).unwrap();
            assert_eq!(folder.read_derived("list", state), None, "byte {at}");
            std::fs::write(&path, &whole[..at]).unwrap();
            assert_eq!(folder.read_derived("list", state), None, "{at} bytes");
        }
    }
}
