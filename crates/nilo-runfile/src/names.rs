//! The names of the files in a run folder, written and read in one place.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// What ran, where, when, and how it ended.
pub(crate) const DESCRIPTION: &str = "run.json";
/// Of files that can be computed again from the others.
pub(crate) const DERIVED_ENDING: &str = ".derived";
/// Of the files by which the ranks of a distributed program find their run.
pub(crate) const RANKS_BEGINNING: &str = ".ranks-";
/// Tells which program of a job was the first to log; a later one has a run of its own.
pub(crate) const FIRST_PROGRAM: &str = ".first-program";
/// Of a job in which another program than the first has logged: its single run is not the job's own training.
pub(crate) const SEVERAL_PROGRAMS: &str = ".several-programs";
/// Events of processes too short-lived for a stream of their own.
pub(crate) const MARKS: &str = "marks.nilo";

/// `recorder-4711.0003.nilo`
pub(crate) fn segment_path(folder: &Path, writer: &str, number: u32) -> PathBuf {
    folder.join(format!("{writer}.{number:04}.nilo"))
}

/// `recorder-4711.nilc`
pub(crate) fn compacted_path(folder: &Path, writer: &str) -> PathBuf {
    folder.join(format!("{writer}.nilc"))
}

/// A role as part of a file name: letters, digits, `-` and `_`, at most 48.
pub(crate) fn clean_role(role: &str) -> String {
    let clean: String = role
        .chars()
        .take(48)
        .map(|c| match c {
            c if c.is_ascii_alphanumeric() || c == '_' => c,
            _ => '-',
        })
        .collect();
    if clean.is_empty() {
        "writer".to_owned()
    } else {
        clean
    }
}

/// Whether a writer samples memory; the others are programs that log.
pub(crate) fn is_recorder(writer: &str) -> bool {
    writer == "recorder" || writer.starts_with("recorder-")
}

/// What a file name says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileName {
    Description,
    Marks,
    Segment { writer: String, number: u32 },
    Compacted { writer: String },
    Other,
}

impl FileName {
    pub(crate) fn parse(name: &str) -> FileName {
        if name == DESCRIPTION {
            return FileName::Description;
        }
        if name == MARKS {
            return FileName::Marks;
        }
        if let Some(writer) = name
            .strip_suffix(".nilc")
            .filter(|writer| !writer.is_empty())
        {
            return FileName::Compacted {
                writer: writer.to_owned(),
            };
        }
        let parts = name
            .strip_suffix(".nilo")
            .and_then(|stem| stem.rsplit_once('.'));
        match parts {
            Some((writer, digits))
                if !writer.is_empty()
                    && digits.len() >= 4
                    && digits.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                digits
                    .parse()
                    .map_or(FileName::Other, |number| FileName::Segment {
                        writer: writer.to_owned(),
                        number,
                    })
            }
            _ => FileName::Other,
        }
    }
}

/// The files of one writer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StreamFiles {
    pub(crate) segments: BTreeMap<u32, PathBuf>,
    pub(crate) compacted: Option<PathBuf>,
}

/// The files of a run, by writer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RunFiles {
    pub(crate) streams: BTreeMap<String, StreamFiles>,
    pub(crate) marks: Option<PathBuf>,
}

/// Lists a run folder.
pub(crate) fn list(folder: &Path) -> io::Result<RunFiles> {
    let mut files = RunFiles::default();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        match FileName::parse(&name) {
            FileName::Segment { writer, number } => {
                let stream = files.streams.entry(writer).or_default();
                stream.segments.insert(number, entry.path());
            }
            FileName::Compacted { writer } => {
                files.streams.entry(writer).or_default().compacted = Some(entry.path());
            }
            FileName::Marks => files.marks = Some(entry.path()),
            FileName::Description | FileName::Other => {}
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_read_as_they_are_written() {
        let folder = Path::new("/r");
        for (path, name) in [
            (
                segment_path(folder, "a.b-1", 12),
                FileName::Segment {
                    writer: "a.b-1".to_owned(),
                    number: 12,
                },
            ),
            (
                segment_path(folder, "a", 123_456),
                FileName::Segment {
                    writer: "a".to_owned(),
                    number: 123_456,
                },
            ),
            (
                compacted_path(folder, "a"),
                FileName::Compacted {
                    writer: "a".to_owned(),
                },
            ),
        ] {
            let text = path.file_name().unwrap().to_str().unwrap();
            assert_eq!(FileName::parse(text), name);
        }
        for other in [
            "",
            ".nilo",
            ".nilc",
            "x.nilo",
            "x.12.nilo",
            "x.-001.nilo",
            "x.99999999999.nilo",
        ] {
            assert_eq!(FileName::parse(other), FileName::Other, "{other}");
        }
    }

    #[test]
    fn roles_become_safe_names() {
        assert_eq!(clean_role("../../etc"), "------etc");
        assert_eq!(clean_role(""), "writer");
    }
}
