//! Writing and reading the files. A file is there whole or not at all: it is written beside its place and renamed.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::{Model, ModelError};
use crate::WholeFile;

/// What is in a folder after saving.
#[derive(Debug)]
pub struct SavedFiles {
    /// The files that were written.
    pub paths: Vec<PathBuf>,
    /// Why there are no ranks for tiktoken, if there are none.
    pub no_ranks: Option<ModelError>,
}

const TOKENIZER: &str = "tokenizer.json";
const VOCABULARY: &str = "vocab.json";
const MERGES: &str = "merges.txt";
const RANKS: &str = "ranks.tiktoken";
const RANKS_INFO: &str = "ranks.json";

impl Model {
    /// The names of all files that saving may write or take away.
    pub const SAVED_NAMES: [&'static str; 5] = [TOKENIZER, VOCABULARY, MERGES, RANKS, RANKS_INFO];

    /// Writes every form that another library reads. Ranks of another model, where this one has none, are taken away.
    pub fn save(&self, folder: &Path) -> Result<SavedFiles, ModelError> {
        let mut files = vec![
            (TOKENIZER, self.to_tokenizer_json()),
            (VOCABULARY, self.to_vocab_json()),
            (MERGES, self.to_merges_txt()),
        ];
        let no_ranks = match self.to_ranks() {
            Ok((ranks, info)) => {
                let info =
                    serde_json::to_string_pretty(&info).expect("numbers and texts can be written");
                files.extend([(RANKS, ranks), (RANKS_INFO, info + "\n")]);
                None
            }
            Err(error) => Some(error),
        };
        let paths = write_all(folder, &files)?;
        for name in [RANKS, RANKS_INFO].iter().filter(|_| no_ranks.is_some()) {
            std::fs::remove_file(folder.join(name)).ok();
        }
        Ok(SavedFiles { paths, no_ranks })
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
