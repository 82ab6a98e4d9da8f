//! The processes that write to a run, and when each of them left it.

use std::path::Path;

use nilo_sample::{ProcessId, RunDescription};

use crate::axis::TimeAxis;
use crate::folder::RunFolder;
use crate::header::{Magic, SegmentHeader};
use crate::load::open_with_header;
use crate::names::{self, StreamFiles};

/// A process that writes to a run, or did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunWriterProcess {
    pub(crate) id: ProcessId,
    /// When it closed its stream, on the run's axis; 0 where an earlier version did. Nothing where it did not: it lives, or was killed.
    pub(crate) left_nanos: Option<u64>,
}

impl RunFolder {
    /// The processes that write to this run, or did.
    pub fn writing_processes(&self) -> Vec<ProcessId> {
        let headers = stream_headers(self.path());
        let mut members: Vec<ProcessId> = headers.map(|header| writer_of(&header)).collect();
        if members.is_empty() {
            members.extend(self.describe().ok().map(|told| recorder_of(&told)));
        }
        members
    }

    /// The same, with the time when each of them left. `told` is the run's description.
    pub(crate) fn writers(&self, told: &RunDescription) -> Vec<RunWriterProcess> {
        let axis = TimeAxis::new(told);
        let headers = stream_headers(self.path());
        let writer = |header: SegmentHeader| RunWriterProcess {
            id: writer_of(&header),
            left_nanos: (header.closed_len > 0)
                .then(|| axis.shift(&header.clock).apply(header.closed_nanos)),
        };
        let mut writers: Vec<RunWriterProcess> = headers.map(writer).collect();
        if writers.is_empty() {
            writers.push(RunWriterProcess {
                id: recorder_of(told),
                left_nanos: None,
            });
        }
        writers
    }
}

pub(crate) fn writer_of(header: &SegmentHeader) -> ProcessId {
    ProcessId {
        pid: header.pid,
        start_ticks: header.pid_start_ticks,
    }
}

pub(crate) fn recorder_of(told: &RunDescription) -> ProcessId {
    ProcessId {
        pid: told.recorder_pid,
        start_ticks: told.recorder_start_ticks,
    }
}

/// The header of the newest file of each stream.
fn stream_headers(folder: &Path) -> impl Iterator<Item = SegmentHeader> {
    let files = names::list(folder).unwrap_or_default();
    files
        .streams
        .into_values()
        .filter_map(|stream| newest_header(&stream))
}

pub(crate) fn newest_header(stream: &StreamFiles) -> Option<SegmentHeader> {
    let segments = stream.segments.values().rev();
    let segments = segments.map(|path| (path, Magic::Segment));
    let compacted = stream.compacted.iter();
    let mut files = segments.chain(compacted.map(|path| (path, Magic::Compacted)));
    files.find_map(|(path, magic)| Some(open_with_header(path, magic).ok()?.1))
}
