//! From names on the command line to files: plain names, patterns, folders, standard input.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::CorpusError;

/// So many characters of a name stand in an error; Linux allows 4,095 bytes.
const LONGEST_NAMED: usize = 200;

/// One file of the corpus, or standard input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFile {
    /// Where it lies; `None` is standard input.
    pub path: Option<PathBuf>,
    /// Its size on disk, where it is a regular file.
    pub size_bytes: Option<u64>,
    /// When it was last written, in nanoseconds since 1970, where it is a regular file.
    pub modified_nanos: Option<u64>,
}

impl SourceFile {
    /// Standard input.
    pub fn stdin() -> Self {
        Self {
            path: None,
            size_bytes: None,
            modified_nanos: None,
        }
    }

    /// A file as it is on disk at this moment.
    pub fn of(path: &Path) -> Result<Self, CorpusError> {
        let metadata = fs::metadata(path).map_err(CorpusError::read(path))?;
        let modified = metadata
            .modified()
            .ok()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let regular = metadata.is_file();
        Ok(Self {
            path: Some(path.to_owned()),
            size_bytes: regular.then_some(metadata.len()),
            modified_nanos: modified
                .filter(|_| regular)
                .map(|time| time.as_nanos() as u64),
        })
    }

    /// For messages.
    pub fn name(&self) -> PathBuf {
        self.path
            .clone()
            .unwrap_or_else(|| PathBuf::from("standard input"))
    }
}

/// The files that the inputs name, in their order; those of a folder or a pattern sorted by path.
pub(super) fn find(inputs: &[String]) -> Result<Vec<SourceFile>, CorpusError> {
    let mut found = Vec::new();
    for input in inputs {
        let before = found.len();
        let path = Path::new(input);
        if input == "-" {
            if found.iter().any(|file: &SourceFile| file.path.is_none()) {
                return Err(CorpusError::StdinTwice);
            }
            found.push(SourceFile::stdin());
        } else if path.is_dir() {
            walk(path, &mut found)?;
        } else if path.exists() {
            found.push(SourceFile::of(path)?);
        } else {
            for path in matches(input)? {
                match path.is_dir() {
                    true => walk(&path, &mut found)?,
                    false => found.push(SourceFile::of(&path)?),
                }
            }
        }
        if found.len() == before {
            return Err(CorpusError::Empty {
                input: input.clone(),
            });
        }
    }
    Ok(found)
}

fn matches(input: &str) -> Result<Vec<PathBuf>, CorpusError> {
    let not_found = || CorpusError::NotFound {
        input: shortened(input),
    };
    let mut paths = Vec::new();
    for entry in glob::glob(input).map_err(|_| not_found())? {
        paths.push(entry.map_err(|error| CorpusError::Read {
            path: error.path().to_owned(),
            source: error.into(),
        })?);
    }
    if paths.is_empty() {
        return Err(not_found());
    }
    paths.sort();
    Ok(paths)
}

/// What is named in an error: a text that was given in place of a path is not repeated in full.
fn shortened(input: &str) -> String {
    match input.char_indices().nth(LONGEST_NAMED) {
        None => input.to_owned(),
        Some((end, _)) => format!("{}… ({} bytes)", &input[..end], input.len()),
    }
}

/// Every file below a folder. Hidden names and links to folders are passed over.
fn walk(folder: &Path, found: &mut Vec<SourceFile>) -> Result<(), CorpusError> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(CorpusError::read(folder))? {
        let entry = entry.map_err(CorpusError::read(folder))?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            paths.push(entry.path());
        }
    }
    paths.sort();
    for path in paths {
        let kind = fs::symlink_metadata(&path)
            .map_err(CorpusError::read(&path))?
            .file_type();
        if kind.is_dir() {
            walk(&path, found)?;
        } else if path.is_file() {
            found.push(SourceFile::of(&path)?);
        }
    }
    Ok(())
}
