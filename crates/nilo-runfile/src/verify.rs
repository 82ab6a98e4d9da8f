//! Checking a run: every file, every checksum, one report for each.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use nilo_sample::{Event, RunDescription, TimedEvent};
use schemars::JsonSchema;
use serde::Serialize;

use crate::attachment_folder::ATTACHMENTS;
use crate::attachments::{AttachmentState, check_attachments};
use crate::axis::TimeAxis;
use crate::blocks::{collect_block, list_blocks};
use crate::collect::{Collector, Tally};
use crate::contradicted_end::contradicted_end;
use crate::error::RunfileError;
use crate::family::RUNS;
use crate::header::{ClockPair, HeaderFault, Magic, SegmentHeader};
use crate::known_marks::missing_marks;
use crate::known_streams::{segments_known, streams_told};
use crate::load::{
    StreamParts, Tail, had_header, is_unborn, missing_segments, open_with_header, read_segment,
};
use crate::names::{
    self, DERIVED_ENDING, FIRST_PROGRAM, FileName, RANKS_BEGINNING, SEVERAL_PROGRAMS,
};
use crate::scan::AtBadBytes;

/// The state of a run's files.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Verification {
    /// Whether everything was checked and nothing is damaged. A torn tail is what a kill leaves and is not damage.
    pub ok: bool,
    /// One report for each file, by name.
    pub files: Vec<FileReport>,
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileKind {
    /// `run.json`.
    Description,
    /// Records as they were written.
    Segment,
    /// Blocks of columns.
    Compacted,
    /// Events of short-lived processes.
    Marks,
    /// A file that was attached to the run.
    Attachment,
    /// Not ours, or of a later version.
    Other,
}

/// The state of one file.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct FileReport {
    /// Its name in the run folder.
    pub name: String,
    /// What it is.
    pub kind: FileKind,
    /// Records, or blocks' tables and loose records.
    pub records: u64,
    /// Rows.
    pub rows: u64,
    /// Events.
    pub events: u64,
    /// Rows that the writer counted as dropped.
    pub dropped_rows: u64,
    /// Its length.
    pub size_bytes: u64,
    /// Bytes up to the end of the last whole record.
    pub used_bytes: u64,
    /// Bytes of a record that was cut off.
    pub torn_tail_bytes: u64,
    /// What is wrong, one sentence each.
    pub damage: Vec<String>,
    /// Why it could not be checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_checked: Option<String>,
}

/// Checks all files of a run.
pub(crate) fn verify(
    folder: &Path,
    description: Result<RunDescription, RunfileError>,
) -> Result<Verification, RunfileError> {
    let entries = std::fs::read_dir(folder).map_err(RunfileError::io("list the run", folder))?;
    let axis = match &description {
        Ok(description) => TimeAxis::new(description),
        Err(_) => TimeAxis::at(ClockPair::default()),
    };
    let mut events = Vec::new();
    let (mut files, last_segments) = verify_streams(folder, description.as_ref().ok())?;
    for entry in entries {
        let entry = entry.map_err(RunfileError::io("list the run", folder))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        if is_beside_the_recording(&name) {
            continue;
        }
        let size_bytes = entry.metadata().map_or(0, |metadata| metadata.len());
        let mut report = FileReport::new(name.clone(), FileKind::Other, size_bytes);
        let outcome = match FileName::parse(&name) {
            FileName::Description => {
                report.kind = FileKind::Description;
                report.used_bytes = report.size_bytes;
                match &description {
                    Ok(_) => {}
                    Err(error) => report.complain(error),
                }
                Ok(())
            }
            FileName::Segment { writer, number } => {
                report.kind = FileKind::Segment;
                let is_last = last_segments.get(&writer) == Some(&number);
                let tail =
                    |header: &SegmentHeader| Tail::of(is_last, header, description.as_ref().ok());
                let bad = AtBadBytes::Resync;
                let is_closed = |told: &RunDescription| had_header(&writer, number, told);
                let has_no_header = || {
                    let opened = open_with_header(&path, Magic::Segment);
                    opened.is_err_and(|error| is_unborn(&error))
                };
                if description.as_ref().is_ok_and(is_closed) && has_no_header() {
                    report.damage.push(HeaderFault::Short.as_str().to_owned());
                }
                verify_records(&path, bad, &tail, &axis, &mut report, &mut events)
            }
            FileName::Marks => {
                report.kind = FileKind::Marks;
                verify_records(
                    &path,
                    AtBadBytes::ResyncUnaligned,
                    &|_| Tail::MayBeTorn,
                    &axis,
                    &mut report,
                    &mut events,
                )
            }
            FileName::Compacted { .. } => {
                report.kind = FileKind::Compacted;
                verify_blocks(&path, &axis, &mut report, &mut events)
            }
            FileName::Other => Ok(()),
        };
        if let Err(error) = outcome {
            report.complain(&error);
        }
        files.push(report);
    }
    if let Ok(told) = &description {
        let lost = missing_marks(folder, told);
        complain_of(&mut files, names::MARKS, FileKind::Marks, lost);
        let changed = contradicted_end(told, &events);
        complain_of(
            &mut files,
            names::DESCRIPTION,
            FileKind::Description,
            changed,
        );
    }
    match verify_attachments(folder, &events) {
        Ok(reports) => files.extend(reports),
        Err(error) => {
            let mut report = FileReport::new(ATTACHMENTS.to_owned(), FileKind::Other, 0);
            report.complain(&error);
            files.push(report);
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Verification {
        ok: files
            .iter()
            .all(|file| file.damage.is_empty() && file.not_checked.is_none()),
        files,
    })
}

/// Adds a sentence to the report of a file, which is made where the file is not there.
fn complain_of(files: &mut Vec<FileReport>, name: &str, kind: FileKind, sentence: Option<String>) {
    let Some(sentence) = sentence else { return };
    if !files.iter().any(|file| file.name == name) {
        files.push(FileReport::new(name.to_owned(), kind, 0));
    }
    for file in files.iter_mut().filter(|file| file.name == name) {
        file.damage.push(sentence.clone());
    }
}

/// What is no file of this recording: attachments come later, runs inside are runs of their own, and what is derived can be computed again.
fn is_beside_the_recording(name: &str) -> bool {
    name == ATTACHMENTS
        || name == RUNS
        || name.starts_with(RANKS_BEGINNING)
        || name == FIRST_PROGRAM
        || name == SEVERAL_PROGRAMS
        || name.ends_with(DERIVED_ENDING)
}

/// A report for each gap among the segments of a stream, and each stream's last segment.
fn verify_streams(
    folder: &Path,
    told: Option<&RunDescription>,
) -> Result<(Vec<FileReport>, BTreeMap<String, u32>), RunfileError> {
    let listed = names::list(folder).map_err(RunfileError::io("list the run", folder))?;
    let mut reports = Vec::new();
    let mut report_missing = |writer: &str, numbers: &[u32], known: u32| {
        for (number, sentence) in missing_segments(writer, numbers, known) {
            let path = names::segment_path(Path::new(""), writer, number);
            let name = path.to_string_lossy().into_owned();
            let mut report = FileReport::new(name, FileKind::Segment, 0);
            report.damage.push(sentence);
            reports.push(report);
        }
    };
    for (writer, known) in told.into_iter().flat_map(streams_told) {
        if !listed.streams.contains_key(writer) {
            report_missing(writer, &[], known);
        }
    }
    let mut last_segments = BTreeMap::new();
    for (writer, stream) in &listed.streams {
        // What is wrong with the compacted file is told in its own report.
        let parts = StreamParts::find(folder, writer, stream, &mut Vec::new());
        let known = told.map_or(0, |told| segments_known(writer, told));
        report_missing(writer, &parts.numbers, known);
        last_segments.extend(parts.numbers.last().map(|last| (writer.clone(), *last)));
    }
    Ok((reports, last_segments))
}

fn with_cause(error: &RunfileError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// `None` for a file that was created and never got its header: the writer died in between, and nothing is lost.
fn open_born(path: &Path, magic: Magic) -> Result<Option<(File, SegmentHeader)>, RunfileError> {
    match open_with_header(path, magic) {
        Ok(opened) => Ok(Some(opened)),
        Err(error) if is_unborn(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn verify_records(
    path: &Path,
    at_bad_bytes: AtBadBytes,
    tail: &dyn Fn(&SegmentHeader) -> Tail,
    axis: &TimeAxis,
    report: &mut FileReport,
    events: &mut Vec<TimedEvent>,
) -> Result<(), RunfileError> {
    let Some((file, header)) = open_born(path, Magic::Segment)? else {
        return Ok(());
    };
    let mut collector = Collector::new(&|_| false, 0);
    let read = read_segment(&file, path, &header, at_bad_bytes, axis, &mut collector)?;
    report.damage.extend(read.damage(path, tail(&read.header)));
    report.dropped_rows = read.header.dropped_rows;
    report.used_bytes = read.end.end;
    report.torn_tail_bytes = read.end.torn_tail_bytes;
    report.take_counts(&read.tally);
    keep_claims(collector, events);
    Ok(())
}

fn verify_blocks(
    path: &Path,
    axis: &TimeAxis,
    report: &mut FileReport,
    events: &mut Vec<TimedEvent>,
) -> Result<(), RunfileError> {
    let Some((file, header)) = open_born(path, Magic::Compacted)? else {
        return Ok(());
    };
    let list =
        list_blocks(&file, header.header_len as u64).map_err(RunfileError::io("read", path))?;
    report.used_bytes = list.end;
    report.torn_tail_bytes = list.torn_tail_bytes;
    report.damage.extend(header.missing_end(list.end));
    for (offset, len) in &list.holes {
        let sentence = format!("{len} bytes at offset {offset} are unreadable");
        report.damage.push(sentence);
    }
    let file = Arc::new(file);
    let mut tally = Tally::default();
    for block in &list.blocks {
        // A collector for each block, so that memory stays bounded by one.
        let mut collector = Collector::new(&|_| true, 0);
        let outcome = collect_block(&file, block, axis, &mut collector, &mut tally);
        if let Err(error) = outcome {
            tally.complain(format!("a block could not be read: {error}"));
        }
        collector.unpack(&mut tally);
        keep_claims(collector, events);
        report.dropped_rows += block.head.dropped_rows;
    }
    report.take_counts(&tally);
    report.damage.extend(tally.damage());
    Ok(())
}

/// Keeps of a file's events those that are compared with other files: attachments, and the end of the command.
fn keep_claims(collector: Collector<'_>, events: &mut Vec<TimedEvent>) {
    let found = collector.finish().events.into_iter();
    let is_claim =
        |event: &Event| matches!(event, Event::Attachment { .. } | Event::CommandEnded { .. });
    events.extend(found.filter(|timed| is_claim(&timed.event)));
}

/// One report for each attachment: its bytes against what the run's events say.
fn verify_attachments(
    folder: &Path,
    events: &[TimedEvent],
) -> Result<Vec<FileReport>, RunfileError> {
    let run = File::open(folder).map_err(RunfileError::io("open the run", folder))?;
    let attachments = check_attachments(&run, folder, events)?.into_iter();
    let reports = attachments.map(|attachment| {
        let name = format!("{ATTACHMENTS}/{}", attachment.name);
        let mut report = FileReport::new(name, FileKind::Attachment, attachment.stored_bytes);
        match attachment.state {
            AttachmentState::Whole => report.used_bytes = attachment.bytes,
            AttachmentState::Missing => report.damage.push("the file is missing".to_owned()),
            AttachmentState::Changed { reason } => {
                let sentence = format!("it is not what was attached: {reason}");
                report.damage.push(sentence);
            }
            // What a kill leaves, like the torn end of a stream.
            AttachmentState::Unfinished => report.torn_tail_bytes = attachment.bytes,
            AttachmentState::NotChecked { reason } => report.not_checked = Some(reason),
        }
        report
    });
    Ok(reports.collect())
}

impl FileReport {
    fn new(name: String, kind: FileKind, size_bytes: u64) -> FileReport {
        FileReport {
            name,
            kind,
            records: 0,
            rows: 0,
            events: 0,
            dropped_rows: 0,
            size_bytes,
            used_bytes: 0,
            torn_tail_bytes: 0,
            damage: Vec::new(),
            not_checked: None,
        }
    }

    fn complain(&mut self, error: &RunfileError) {
        match error.is_unreadable() {
            true => self.not_checked = Some(with_cause(error)),
            false => self.damage.push(with_cause(error)),
        }
    }

    fn take_counts(&mut self, tally: &Tally) {
        self.records = tally.records;
        self.rows = tally.rows;
        self.events = tally.events;
    }
}
