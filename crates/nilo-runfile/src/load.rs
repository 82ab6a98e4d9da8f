//! Reading a whole run: every writer's segments and blocks, each once, whatever state a crash has left them in.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nilo_sample::{RecordedRank, Recording, RunDescription, RunMode, TableSpec, TimedEvent};

use crate::axis::TimeAxis;
use crate::blocks::{BlockPlace, collect_block, list_blocks};
use crate::clock;
use crate::collect::{Collected, Collector, Declared, RowsWanted, Tally};
use crate::contradicted_end::contradicted_end;
use crate::error::RunfileError;
use crate::filesystem;
use crate::header::{FORMAT_VERSION, HEADER_LEN, HeaderFault, Magic, SegmentHeader};
use crate::hook_lines::{add_left_over, left_over};
use crate::joined_recorders::join_recorders;
use crate::known_marks::missing_marks;
use crate::known_streams::{segments_known, streams_told};
use crate::names::{self, StreamFiles};
use crate::run_writers::{newest_header, writer_of};
use crate::scan::{AtBadBytes, ScanEnd, scan};

/// A folder in which a segment is missing is listed again until this many times in all.
const MOST_LOOKS: u32 = 3;

/// Reads of everything that `keep` wants what is wanted of it, and all events.
pub(crate) fn load(
    folder: &Path,
    description: RunDescription,
    keep: &dyn Fn(&TableSpec) -> bool,
    wanted: RowsWanted<'_>,
) -> Result<Recording, RunfileError> {
    let own = description.clone();
    load_inside(folder, &own, description, keep, wanted)
}

/// The same of a run inside a job, on the time axis of the job's `description`.
pub(crate) fn load_inside(
    folder: &Path,
    own: &RunDescription,
    description: RunDescription,
    keep: &dyn Fn(&TableSpec) -> bool,
    wanted: RowsWanted<'_>,
) -> Result<Recording, RunfileError> {
    let files = names::list(folder).map_err(RunfileError::io("list the run", folder))?;
    let axis = TimeAxis::new(&description);
    // Before the streams: the recorder copies it there, and deletes it at its end.
    let told_by_hooks = left_over(folder, &axis);
    let mut collector = Collector::new(keep, 0).taking(wanted);
    let mut damage = Vec::new();
    let mut dropped_rows = 0;
    let mut dropped_program_rows = 0;
    let mut ranks = Vec::new();
    for (writer, stream) in &files.streams {
        collector.begin_writer(writer);
        let dropped = load_stream(
            folder,
            writer,
            stream,
            own,
            &axis,
            &mut collector,
            &mut damage,
        );
        dropped_rows += dropped;
        ranks.extend(rank_of_stream(&collector, stream, own));
        if !names::is_recorder(writer) {
            dropped_program_rows += dropped;
        }
    }
    for (writer, known) in streams_told(own) {
        if !files.streams.contains_key(writer) {
            let missing = missing_segments(writer, &[], known).into_iter();
            damage.extend(missing.map(|(_, sentence)| sentence));
        }
    }
    let about =
        |name: &str, sentence: String| format!("{sentence}: {}", folder.join(name).display());
    let marks_lost = missing_marks(folder, own);
    let is_told = marks_lost.is_some();
    damage.extend(marks_lost.map(|lost| about(names::MARKS, lost)));
    if let Some(path) = &files.marks {
        collector.begin_writer("marks");
        let outcome = open_with_header(path, Magic::Segment);
        let outcome = outcome.and_then(|(file, header)| {
            read_segment(
                &file,
                path,
                &header,
                AtBadBytes::ResyncUnaligned,
                &axis,
                &mut collector,
            )
        });
        match outcome {
            Ok(read) => damage.extend(read.damage(path, Tail::MayBeTorn)),
            Err(error) if is_told && is_unborn(&error) => {}
            Err(error) => complain(&mut damage, &error),
        }
    }
    let written_until_nanos = collector.written_until_nanos();
    let thinned_nanos = collector.thinned_nanos();
    let Collected {
        mut tables,
        mut events,
        stacks,
    } = collector.finish();
    join_recorders(&mut tables, &mut events);
    add_left_over(&mut events, told_by_hooks);
    let end_changed = contradicted_end(own, &events);
    damage.extend(end_changed.map(|changed| about(names::DESCRIPTION, changed)));
    Ok(Recording {
        description,
        tables,
        events,
        stacks: stacks.into_tree(),
        is_job_open: false,
        ranks,
        written_until_nanos,
        thinned_nanos,
        dropped_rows,
        dropped_program_rows,
        damage,
    })
}

/// The process of a stream that has just been read, where it is a rank of the run on the machine that this began on.
fn rank_of_stream(
    collector: &Collector<'_>,
    stream: &StreamFiles,
    told: &RunDescription,
) -> Option<RecordedRank> {
    let (rank, written_until_nanos) = collector.writer_rank()?;
    let header = newest_header(stream)?;
    let is_here = clock::boot_id_bytes(&told.boot_id) == Some(header.clock.boot_id);
    is_here.then(|| RecordedRank {
        rank,
        id: writer_of(&header),
        written_until_nanos,
        has_left: header.closed_len > 0,
    })
}

/// The events of short-lived processes alone.
pub(crate) fn load_marks(folder: &Path, description: &RunDescription) -> Vec<TimedEvent> {
    let path = folder.join(names::MARKS);
    let axis = TimeAxis::new(description);
    let mut collector = Collector::new(&|_| false, 0);
    if let Ok((file, header)) = open_with_header(&path, Magic::Segment) {
        let bad = AtBadBytes::ResyncUnaligned;
        let _ = read_segment(&file, &path, &header, bad, &axis, &mut collector);
    }
    collector.finish().events
}

/// Reads one writer's stream in the order of its segments; returns the rows that the writer dropped.
fn load_stream(
    folder: &Path,
    writer: &str,
    stream: &StreamFiles,
    description: &RunDescription,
    axis: &TimeAxis,
    collector: &mut Collector<'_>,
    damage: &mut Vec<String>,
) -> u64 {
    let StreamParts {
        segments,
        mut blocks,
        numbers,
    } = StreamParts::find(folder, writer, stream, damage);
    let last = numbers.last().copied();
    let known = segments_known(writer, description);
    let missing = missing_segments(writer, &numbers, known).into_iter();
    damage.extend(missing.map(|(_, sentence)| sentence));
    let mut dropped_rows = 0;
    for number in numbers {
        let raw = segments.get(&number);
        let mut raw_fault = None;
        if let Some(path) = raw {
            let outcome = open_with_header(path, Magic::Segment).and_then(|(file, header)| {
                read_segment(&file, path, &header, AtBadBytes::Resync, axis, collector)
            });
            match outcome {
                Ok(read) => {
                    dropped_rows += read.header.dropped_rows;
                    let is_last = last == Some(number);
                    let tail = Tail::of(is_last, &read.header, Some(description));
                    damage.extend(read.damage(path, tail));
                    continue;
                }
                Err(error) => raw_fault = Some(error),
            }
            // The segment may have been compacted since the folder was listed.
            if is_not_found(raw_fault.as_ref()) {
                let path = names::compacted_path(folder, writer);
                blocks = open_blocks(&path, &mut Vec::new());
            }
        }
        let block = blocks
            .as_ref()
            .and_then(|open| open.by_segment.get(&number).map(|block| (open, block)));
        match (block, raw_fault) {
            (Some((open, block)), _) => {
                let mut tally = Tally::default();
                let outcome = collect_block(&open.file, block, axis, collector, &mut tally);
                dropped_rows += block.head.dropped_rows;
                if let Err(error) = outcome {
                    tally.complain(format!("segment {number} could not be read: {error}"));
                }
                damage.extend(tally.sentences(&open.path));
            }
            (None, Some(error))
                if is_unborn(&error)
                    && last == Some(number)
                    && !had_header(writer, number, description) => {}
            (None, Some(error)) => complain(damage, &error),
            (None, None) => {}
        }
    }
    let mut tally = Tally::default();
    collector.unpack(&mut tally);
    damage.extend(tally.sentences(&names::compacted_path(folder, writer)));
    dropped_rows
}

/// Where each segment of a stream is: in a file of its own, in a block, or in both.
pub(crate) struct StreamParts {
    pub(crate) segments: BTreeMap<u32, PathBuf>,
    pub(crate) blocks: Option<OpenBlocks>,
    /// Every segment that there is, in order.
    pub(crate) numbers: Vec<u32>,
}

impl StreamParts {
    /// Looks again where a segment seems to be missing: a listing takes time, and meanwhile one may have moved from its file into a block.
    /// What is wrong with the compacted file goes to `damage`.
    pub(crate) fn find(
        folder: &Path,
        writer: &str,
        listed: &StreamFiles,
        damage: &mut Vec<String>,
    ) -> StreamParts {
        let mut segments = listed.segments.clone();
        let mut looks = 1;
        loop {
            // Listed or not: it may have been made since.
            let path = names::compacted_path(folder, writer);
            let mut trouble = Vec::new();
            let is_there = path.symlink_metadata().is_ok();
            let blocks = match is_there {
                true => open_blocks(&path, &mut trouble),
                false => None,
            };
            let known = blocks.iter().flat_map(|open| open.by_segment.keys());
            let mut numbers: Vec<u32> = known.chain(segments.keys()).copied().collect();
            numbers.sort_unstable();
            numbers.dedup();
            let is_whole = numbers.iter().copied().eq(0..numbers.len() as u32);
            if is_whole || looks == MOST_LOOKS {
                damage.append(&mut trouble);
                return StreamParts {
                    segments,
                    blocks,
                    numbers,
                };
            }
            looks += 1;
            let again = names::list(folder).unwrap_or_default();
            if let Some(found) = again.streams.get(writer) {
                segments.clone_from(&found.segments);
            }
        }
    }
}

/// A file was created and its writer died before the header: nothing was ever in it.
pub(crate) fn is_unborn(error: &RunfileError) -> bool {
    matches!(error, RunfileError::BadHeader { reason, .. } if *reason == HeaderFault::Short.as_str())
}

/// Whether a segment had a header once: it was there when the run ended, or is the first of a program that closed its run itself.
pub(crate) fn had_header(writer: &str, number: u32, told: &RunDescription) -> bool {
    let pid = writer.split('-').nth(1).and_then(|pid| pid.parse().ok());
    let is_closed = told.mode == RunMode::Python && told.ending.is_some();
    let is_first_of_closed = number == 0 && is_closed && pid == Some(told.recorder_pid);
    is_first_of_closed || number < segments_known(writer, told)
}

fn is_not_found(error: Option<&RunfileError>) -> bool {
    matches!(error, Some(RunfileError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound)
}

/// The number of the first segment of each gap, and what is to be said of the gap. `known` is how many segments there are at the least.
pub(crate) fn missing_segments(writer: &str, numbers: &[u32], known: u32) -> Vec<(u32, String)> {
    let first = numbers.first().map(|first| (0, *first));
    let after_last = numbers.last().map_or(0, |last| last.saturating_add(1));
    let pairs = numbers.windows(2).map(|pair| (pair[0] + 1, pair[1]));
    let gaps = first
        .into_iter()
        .chain(pairs)
        .chain([(after_last, known)])
        .filter(|(from, to)| from < to);
    gaps.map(|(from, to)| {
        let sentence = match to - from {
            1 => format!("segment {from} is missing: {writer}"),
            _ => format!("segments {from} to {} are missing: {writer}", to - 1),
        };
        (from, sentence)
    })
    .collect()
}

pub(crate) fn complain(damage: &mut Vec<String>, error: &RunfileError) {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    damage.push(format!("{error}{}", cause.unwrap_or_default()));
}

/// A compacted file and its blocks by segment; the first of a number counts.
pub(crate) struct OpenBlocks {
    pub(crate) file: Arc<File>,
    pub(crate) path: PathBuf,
    pub(crate) by_segment: BTreeMap<u32, BlockPlace>,
}

/// Opens a compacted file; what is wrong with it goes to `damage`.
pub(crate) fn open_blocks(path: &Path, damage: &mut Vec<String>) -> Option<OpenBlocks> {
    let opened = open_with_header(path, Magic::Compacted).and_then(|(file, header)| {
        let list =
            list_blocks(&file, header.header_len as u64).map_err(RunfileError::io("read", path))?;
        Ok((file, header, list))
    });
    match opened {
        Ok((file, header, list)) => {
            if let Some(sentence) = header.missing_end(list.end) {
                damage.push(format!("{sentence}: {}", path.display()));
            }
            for (offset, len) in &list.holes {
                damage.push(format!(
                    "{len} bytes at offset {offset} are unreadable: {}",
                    path.display()
                ));
            }
            let mut by_segment = BTreeMap::new();
            for block in list.blocks {
                by_segment.entry(block.head.segment).or_insert(block);
            }
            Some(OpenBlocks {
                file: Arc::new(file),
                path: path.to_owned(),
                by_segment,
            })
        }
        Err(error) if is_unborn(&error) => None,
        Err(error) => {
            complain(damage, &error);
            None
        }
    }
}

/// Opens a file of the run and checks what it is.
pub(crate) fn open_with_header(
    path: &Path,
    magic: Magic,
) -> Result<(File, SegmentHeader), RunfileError> {
    let file = filesystem::open_regular(path).map_err(RunfileError::io("open", path))?;
    let mut bytes = [0; HEADER_LEN];
    let filled =
        filesystem::read_at(&file, &mut bytes, 0).map_err(RunfileError::io("read", path))?;
    let path = path.to_owned();
    match SegmentHeader::decode(&bytes[..filled]) {
        Ok(header) if header.magic == magic => Ok((file, header)),
        Ok(_) => Err(RunfileError::BadHeader {
            reason: "the file name does not match its contents",
            path,
        }),
        Err(HeaderFault::Later(version)) => Err(RunfileError::LaterVersion {
            version,
            known: FORMAT_VERSION,
            path,
        }),
        Err(fault) => Err(RunfileError::BadHeader {
            reason: fault.as_str(),
            path,
        }),
    }
}

/// Whether a cut-off record at the end is the normal trace of a kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tail {
    MayBeTorn,
    IsSealed,
}

impl Tail {
    /// A segment that another one follows was sealed, and so was the last one of a program that closed its run itself.
    pub(crate) fn of(
        is_last: bool,
        header: &SegmentHeader,
        description: Option<&RunDescription>,
    ) -> Tail {
        let closed = |told: &RunDescription| {
            told.mode == RunMode::Python
                && told.ending.is_some()
                && told.recorder_pid == header.pid
                && told.recorder_start_ticks == header.pid_start_ticks
        };
        match is_last && !description.is_some_and(closed) {
            true => Tail::MayBeTorn,
            false => Tail::IsSealed,
        }
    }
}

/// A segment, read.
pub(crate) struct ReadSegment {
    pub(crate) header: SegmentHeader,
    pub(crate) tally: Tally,
    pub(crate) end: ScanEnd,
}

impl ReadSegment {
    /// What was wrong, in sentences.
    pub(crate) fn damage(&self, path: &Path, tail: Tail) -> Vec<String> {
        let mut sentences: Vec<String> = self.tally.damage().collect();
        for (offset, len) in &self.end.holes {
            sentences.push(format!("{len} bytes at offset {offset} are unreadable"));
        }
        if self.end.gave_up {
            sentences.push(format!(
                "too much unreadable data from offset {}",
                self.end.end
            ));
        } else if tail == Tail::IsSealed && self.end.torn_tail_bytes > 0 {
            sentences.push(format!(
                "{} bytes at the end are unreadable",
                self.end.torn_tail_bytes
            ));
        } else {
            sentences.extend(self.header.missing_end(self.end.end));
        }
        sentences.truncate(crate::collect::MAX_SENTENCES);
        let name = path.display();
        sentences
            .into_iter()
            .map(|text| format!("{text}: {name}"))
            .collect()
    }
}

/// Takes the records of a segment into a collector.
pub(crate) fn read_segment(
    file: &File,
    path: &Path,
    header: &SegmentHeader,
    at_bad_bytes: AtBadBytes,
    axis: &TimeAxis,
    collector: &mut Collector<'_>,
) -> Result<ReadSegment, RunfileError> {
    let shift = axis.shift(&header.clock);
    let mut declared = Declared::new();
    let mut tally = Tally::default();
    let end = scan(file, header.header_len as u64, at_bad_bytes, |record| {
        collector.add(record, shift, &mut declared, &mut tally);
    })
    .map_err(RunfileError::io("read", path))?;
    Ok(ReadSegment {
        header: header.clone(),
        tally,
        end,
    })
}
