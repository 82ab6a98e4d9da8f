//! A run in a temporary folder, for the tests beside this.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::path::Path;

use nilo_runfile::{RunFolder, WriterOptions};
use nilo_sample::{Column, RunDescription, RunId, Subject, TableSpec, Unit};

/// A run that goes away with the test.
pub struct Scratch {
    folder: tempfile::TempDir,
    pub run: RunFolder,
    /// The monotonic time at which the run began.
    pub start: u64,
}

impl Scratch {
    pub fn new() -> Scratch {
        let folder = tempfile::tempdir().unwrap();
        let start = nilo_runfile::monotonic_nanos();
        let run = RunFolder::create(folder.path(), &description(start)).unwrap();
        Scratch { folder, run, start }
    }

    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    /// The run's files, sorted.
    pub fn file_names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.run.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// The bytes of the only file with such an ending.
    pub fn bytes_of(&self, ending: &str) -> (String, Vec<u8>) {
        let mut names = self.file_names();
        names.retain(|name| name.ends_with(ending));
        assert_eq!(names.len(), 1, "{names:?}");
        let bytes = std::fs::read(self.run.path().join(&names[0])).unwrap();
        (names.remove(0), bytes)
    }
}

pub fn description(start: u64) -> RunDescription {
    RunDescription {
        id: RunId::new(nilo_runfile::unix_nanos().into(), "test"),
        cwd: String::new(),
        host: String::new(),
        started_unix_nanos: nilo_runfile::unix_nanos(),
        started_monotonic_nanos: start,
        boot_id: nilo_runfile::boot_id(),
        recorder_pid: 0,
        interval_nanos: 0,
        ..nilo_sample::fixture::description()
    }
}

/// A table of the user's metrics with so many columns.
pub fn metrics(name: &str, columns: usize) -> TableSpec {
    TableSpec {
        rank: None,
        subject: Subject::Metrics {
            name: name.to_owned(),
        },
        columns: (0..columns)
            .map(|index| Column::gauge(&format!("c{index}"), Unit::Plain))
            .collect(),
        hold: false,
    }
}

/// Many small segments, so that a test sees rotation and compaction.
pub fn small_segments(compact: bool) -> WriterOptions {
    WriterOptions {
        first_segment_bytes: 16 << 10,
        max_segment_bytes: 64 << 10,
        compact,
        ..WriterOptions::default()
    }
}

/// Waits until every full segment lies in a block: on a busy machine that takes its time, and closing does not wait for long.
#[allow(dead_code)]
pub fn wait_for_blocks(folder: &std::path::Path) {
    let segments = || {
        let files = std::fs::read_dir(folder).unwrap().flatten();
        let is_segment =
            |file: &std::fs::DirEntry| file.path().extension() == Some("nilo".as_ref());
        files.filter(is_segment).count()
    };
    while segments() > 1 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
