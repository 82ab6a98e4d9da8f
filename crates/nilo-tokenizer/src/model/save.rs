//! Writing and reading the files. A file is there whole or not at all: it is written beside its place and renamed.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::{Model, ModelError};
use crate::WholeFile;

impl Model {
    /// Writes `tokenizer.json` into a folder. Returns the paths written, as do the others.
    pub fn save_tokenizer_json(&self, folder: &Path) -> Result<Vec<PathBuf>, ModelError> {
        write_all(folder, &[("tokenizer.json", self.to_tokenizer_json())])
    }

    /// Writes `vocab.json` and `merges.txt` into a folder.
    pub fn save_vocab_merges(&self, folder: &Path) -> Result<Vec<PathBuf>, ModelError> {
        write_all(
            folder,
            &[
                ("vocab.json", self.to_vocab_json()),
                ("merges.txt", self.to_merges_txt()),
            ],
        )
    }

    /// Writes `ranks.tiktoken` and `ranks.json` into a folder.
    pub fn save_ranks(&self, folder: &Path) -> Result<Vec<PathBuf>, ModelError> {
        let (ranks, info) = self.to_ranks()?;
        let info = serde_json::to_string_pretty(&info).expect("numbers and texts can be written");
        write_all(
            folder,
            &[("ranks.tiktoken", ranks), ("ranks.json", info + "\n")],
        )
    }

    /// Reads a file, but no more of it than a vocabulary may have.
    pub fn read_file(path: &Path) -> Result<Vec<u8>, ModelError> {
        use std::io::Read;
        let read = || {
            let mut bytes = Vec::new();
            let most = super::MOST_FILE_BYTES as u64 + 1;
            std::fs::File::open(path)?
                .take(most)
                .read_to_end(&mut bytes)
                .map(|_| bytes)
        };
        read().map_err(|source| ModelError::Read {
            path: path.to_owned(),
            source,
        })
    }
}

/// All files are written before the first is renamed, so that a full disk leaves nothing behind.
fn write_all(folder: &Path, files: &[(&str, String)]) -> Result<Vec<PathBuf>, ModelError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| ModelError::Write { path, source }
    };
    std::fs::create_dir_all(folder).map_err(failed(folder))?;
    let mut written = Vec::new();
    for (name, text) in files {
        let path = folder.join(name);
        let write = || -> std::io::Result<WholeFile> {
            let mut file = WholeFile::create(&path)?;
            file.write_all(text.as_bytes())?;
            file.sync()?;
            Ok(file)
        };
        written.push((write().map_err(failed(&path))?, path));
    }
    let mut paths = Vec::new();
    for (file, path) in written {
        file.keep().map_err(failed(&path))?;
        paths.push(path);
    }
    Ok(paths)
}
