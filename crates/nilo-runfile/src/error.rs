//! What can go wrong with a run folder, in sentences that a user reads.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A run folder that cannot be made, opened or read.
#[derive(Debug, Error)]
pub enum RunfileError {
    /// The system refused.
    #[error("could not {action}: {path}", path = path.display())]
    Io {
        /// What was tried, such as `create the segment`.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Nothing is there.
    #[error("no such run: {path}", path = path.display())]
    NotFound {
        /// Where.
        path: PathBuf,
    },
    /// Something is there, but not a run.
    #[error("not a run folder ({reason}): {path}", path = path.display())]
    NotARunFolder {
        /// What is missing.
        reason: &'static str,
        /// Where.
        path: PathBuf,
    },
    /// A run with this id exists.
    #[error("a run with this id already exists: {path}", path = path.display())]
    AlreadyExists {
        /// Where.
        path: PathBuf,
    },
    /// Something that is no folder stands where the folder of runs should be, or above it.
    #[error("{path} is not a folder", path = path.display())]
    NotAFolder {
        /// What stands there.
        path: PathBuf,
    },
    /// The folder of runs is a link, which may lead anywhere.
    #[error("{path} is a symbolic link to {target}; `nilo trust {path}` approves it", path = path.display(), target = target.display())]
    LinkedRoot {
        /// Where.
        path: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// The folder of runs is another user's, who could change and replace what we write.
    #[error("{path} belongs to another user (UID {uid}); to record there anyway, give its full path with --dir", path = path.display())]
    StrangersRoot {
        /// Where.
        path: PathBuf,
        /// Whose it is.
        uid: u32,
    },
    /// Everybody can rename and delete what is in the folder of runs.
    #[error("everybody can write to {path} (mode {mode:o}); `chmod o-w {path}` changes that", path = path.display())]
    WritableRoot {
        /// Where.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// `run.json` cannot be understood.
    #[error("run.json is damaged ({reason}): {path}", path = path.display())]
    BadDescription {
        /// What is wrong with it.
        reason: String,
        /// Where.
        path: PathBuf,
    },
    /// Something cannot be written as JSON.
    #[error("could not write as JSON: {path}", path = path.display())]
    Encode {
        /// Where it should have gone.
        path: PathBuf,
        /// What the serializer said.
        source: serde_json::Error,
    },
    /// A file or record beyond every sensible size.
    #[error("{what} is larger than {limit_bytes} bytes: {path}", path = path.display())]
    TooLarge {
        /// Which thing.
        what: &'static str,
        /// The most that is accepted.
        limit_bytes: u64,
        /// Where.
        path: PathBuf,
    },
    /// A name that an attachment may not have.
    #[error(
        "{name:?} cannot name an attachment: 1 to 100 letters, digits, '.', '_' or '-', and no dot in front"
    )]
    BadAttachmentName {
        /// What was asked for.
        name: String,
    },
    /// Not a media type.
    #[error("{text:?} is not a media type such as \"image/png\"")]
    BadMediaType {
        /// What was asked for.
        text: String,
    },
    /// The run has an attachment of this name; what was attached is never replaced.
    #[error("the run has an attachment of this name already: {path}", path = path.display())]
    AttachmentExists {
        /// Where.
        path: PathBuf,
    },
    /// The run has as many attachments as it may have.
    #[error("the run has {most} attachments already, the maximum: {path}", path = path.display())]
    TooManyAttachments {
        /// How many it may have.
        most: usize,
        /// Where another one should have gone.
        path: PathBuf,
    },
    /// The file comes from a newer nilo.
    #[error("written by a later version of nilo (file format {version}, this one reads up to {known}): {path}", path = path.display())]
    LaterVersion {
        /// The file's format version.
        version: u16,
        /// The last version that this reader knows.
        known: u16,
        /// Where.
        path: PathBuf,
    },
    /// The first bytes are not those of a run file.
    #[error("{reason}: {path}", path = path.display())]
    BadHeader {
        /// What is wrong with them.
        reason: &'static str,
        /// Where.
        path: PathBuf,
    },
    /// No table of the run fits the question.
    #[error("the run has no such table: {what}")]
    NoSuchTable {
        /// What was asked for.
        what: String,
    },
    /// The table has no such column.
    #[error("the table has no such column: {column:?}")]
    NoSuchColumn {
        /// What was asked for.
        column: String,
    },
}

impl RunfileError {
    pub(crate) fn io<'a>(
        action: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> RunfileError + 'a {
        move |source| RunfileError::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }

    /// Whether something kept us from reading what may be whole: it is not said to be damaged.
    pub fn is_unreadable(&self) -> bool {
        match self {
            RunfileError::Io { source, .. } => !matches!(
                source.kind(),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData
            ),
            RunfileError::NotFound { .. }
            | RunfileError::TooLarge { .. }
            | RunfileError::LaterVersion { .. } => true,
            _ => false,
        }
    }

    /// Why runs can never be stored at a path; `None` where they can once a disk has space or may be written again.
    pub fn wrong_place(&self) -> Option<String> {
        let RunfileError::Io { path, source, .. } = self else {
            let is_wrong = matches!(self, RunfileError::NotAFolder { .. });
            return is_wrong.then(|| self.to_string());
        };
        let path = path.display();
        match source.kind() {
            io::ErrorKind::PermissionDenied => Some(format!("no permission to create {path}")),
            io::ErrorKind::InvalidFilename => Some("its name is too long".to_owned()),
            // What is missing above it was made before: file systems of the kernel have no folders of ours.
            io::ErrorKind::NotFound | io::ErrorKind::InvalidInput => {
                Some(format!("{path} cannot be created"))
            }
            _ => None,
        }
    }

    /// What the user can do about it, as one sentence for a `hint:` line.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            RunfileError::LaterVersion { .. } => {
                Some("update nilo on this machine, or export the run where it was recorded")
            }
            RunfileError::NotFound { .. } => Some("`nilo runs` lists the recorded runs"),
            RunfileError::BadDescription { .. } => {
                Some("restore run.json from a copy, or delete the folder; no other run is affected")
            }
            RunfileError::NotARunFolder { .. } => {
                Some("a run folder contains `run.json`; `nilo runs` lists the recorded runs")
            }
            RunfileError::Io { action, source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    Some("free some space, or record elsewhere with `--dir` or `NILO_DIR`")
                }
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
                    if is_writing(action) =>
                {
                    Some("record elsewhere with `--dir` or `NILO_DIR`")
                }
                io::ErrorKind::PermissionDenied => {
                    Some("you do not have permission to read it; `ls -l` shows its owner")
                }
                _ => None,
            },
            _ => None,
        }
    }
}

fn is_writing(action: &str) -> bool {
    ["create", "append", "write"]
        .iter()
        .any(|verb| action.starts_with(verb))
}

/// What the JSON parser says, without the names of Rust's types.
pub(crate) fn json_reason(error: &serde_json::Error) -> String {
    use serde_json::error::Category;
    let text = error.to_string();
    let (line, column) = (error.line(), error.column());
    match error.classify() {
        Category::Syntax => return format!("it is not JSON, at line {line} column {column}"),
        Category::Eof => return format!("it is cut off at line {line} column {column}"),
        Category::Data | Category::Io => {}
    }
    let (said, place) = match text.rfind(" at line ") {
        Some(at) => text.split_at(at),
        None => (text.as_str(), ""),
    };
    let Some((found, expected)) = said.split_once(", expected ") else {
        return text;
    };
    let expected = match expected {
        it if it.starts_with("struct ") || it == "a map" => "an object",
        it if it.starts_with("a tuple") || it.starts_with("an array") || it == "a sequence" => {
            "a list"
        }
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number of at least 0",
        "i8" | "i16" | "i32" | "i64" | "isize" | "i128" => "a whole number",
        "f32" | "f64" => "a number",
        it => it,
    };
    format!("{found}, expected {expected}{place}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_told_without_names_of_types() {
        use nilo_sample::RunDescription;
        let reason = |text: &str| {
            let error = serde_json::from_str::<RunDescription>(text).unwrap_err();
            json_reason(&error)
        };
        assert_eq!(
            reason("3"),
            "invalid type: integer `3`, expected an object at line 1 column 1"
        );
        let text = reason("[]");
        assert!(text.contains("expected an object"), "{text}");
        let text = reason(r#"{"schema": "nilo.run/1", "recorder_pid": "x"}"#);
        assert!(text.contains("expected a whole number"), "{text}");
        assert_eq!(reason("{"), "it is cut off at line 1 column 1");
        assert_eq!(reason("nothing"), "it is not JSON, at line 1 column 2");
    }

    #[test]
    fn a_damaged_description_has_a_hint() {
        let error = RunfileError::BadDescription {
            reason: "it is cut off at line 1 column 1".to_owned(),
            path: "run/run.json".into(),
        };
        assert!(error.hint().unwrap_or_default().contains("run.json"));
    }

    #[test]
    fn a_run_that_may_not_be_read_is_not_recorded_elsewhere() {
        let refused = |action| {
            RunfileError::io(action, Path::new("x"))(io::ErrorKind::PermissionDenied.into())
        };
        let hint = |action| refused(action).hint().unwrap_or_default();
        assert!(hint("create the folder").contains("--dir"));
        assert!(hint("write the run's description").contains("--dir"));
        assert!(!hint("open the run").contains("--dir"));
        assert!(!hint("read the run's description").contains("--dir"));
    }
}
