//! Following a run while it is written: each poll hands out what arrived since the one before.
//!
//! A writer goes from segment to segment, and compaction deletes the ones behind it.
//! The follower keeps its segment open, so that it reads to the end of a deleted file, and takes segments that it never saw from the compacted file.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nilo_sample::{RecordedTable, StackTree, TimedEvent};

use crate::axis::TimeAxis;
use crate::blocks::{BlockPlace, collect_block, list_blocks};
use crate::collect::{Collected, Collector, Declared, Tally};
use crate::error::RunfileError;
use crate::family::{inner_writer, runs_inside};
use crate::folder::RunFolder;
use crate::header::{Magic, SegmentHeader};
use crate::load::open_with_header;
use crate::names::{self, StreamFiles};
use crate::read_stacks::StackCollector;
use crate::scan::{AtBadBytes, scan};

/// What arrived between two polls.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Update {
    /// Tables with their rows since the last poll; tables without any are left out.
    pub tables: Vec<RecordedTable>,
    /// Events since the last poll, by time.
    pub events: Vec<TimedEvent>,
    /// What was unreadable, one sentence each.
    pub damage: Vec<String>,
}

impl Update {
    /// Whether nothing arrived.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.events.is_empty() && self.damage.is_empty()
    }
}

/// Follows a run.
pub struct Follower {
    folder: PathBuf,
    axis: Option<TimeAxis>,
    streams: BTreeMap<String, StreamTail>,
    marks: BTreeMap<PathBuf, MarksTail>,
    polls: u64,
    /// Kept from poll to poll, so that a stack keeps its number.
    stacks: StackCollector,
}

#[derive(Default)]
struct StreamTail {
    number: u32,
    open: Option<OpenSegment>,
    /// Blocks from the present number on, and how far the compacted file was listed for them.
    blocks: BTreeMap<u32, BlockPlace>,
    listed_to: u64,
    /// The number that was not there at first, although a later one was.
    looked_again: Option<u32>,
    /// The compacted file, open during a poll.
    compacted: Option<Arc<File>>,
}

struct OpenSegment {
    file: File,
    header: SegmentHeader,
    offset: u64,
    declared: Declared,
}

#[derive(Default)]
struct MarksTail {
    offset: u64,
    /// Where the last poll stopped before bad bytes; when it is still there, they are stepped over.
    stuck_at: Option<u64>,
}

impl Follower {
    pub(crate) fn new(folder: &Path) -> Follower {
        Follower {
            folder: folder.to_owned(),
            axis: None,
            streams: BTreeMap::new(),
            marks: BTreeMap::new(),
            polls: 0,
            stacks: StackCollector::default(),
        }
    }

    /// The stacks that the rows handed out so far name, of all writers.
    pub fn stacks(&self) -> &StackTree {
        self.stacks.tree()
    }

    /// What arrived since the last poll. The first one hands out everything from the beginning.
    pub fn poll(&mut self) -> Result<Update, RunfileError> {
        let axis = match self.axis {
            Some(axis) => axis,
            None => {
                let description = RunFolder::open(&self.folder)?.describe()?;
                *self.axis.insert(TimeAxis::new(&description))
            }
        };
        self.polls += 1;
        let mut collector =
            Collector::new(&|_| true, self.polls).with_stacks(std::mem::take(&mut self.stacks));
        let mut damage = Vec::new();
        self.poll_folder(None, &axis, &mut collector, &mut damage)?;
        for run in runs_inside(&self.folder) {
            self.poll_folder(Some(run.path()), &axis, &mut collector, &mut damage)?;
        }
        let Collected {
            tables,
            events,
            stacks,
        } = collector.finish();
        self.stacks = stacks;
        Ok(Update {
            tables,
            events,
            damage,
        })
    }
}

impl Follower {
    /// Takes in what arrived in the run's own folder, or in that of a run inside it.
    fn poll_folder(
        &mut self,
        inside: Option<&Path>,
        axis: &TimeAxis,
        collector: &mut Collector<'_>,
        damage: &mut Vec<String>,
    ) -> Result<(), RunfileError> {
        let folder = inside.unwrap_or(&self.folder);
        let files = names::list(folder).map_err(RunfileError::io("list the run", folder))?;
        let mut complain = |tally: Tally, of: &str| {
            damage.extend(tally.damage().map(|text| format!("{text}: {of}")));
        };
        for (writer, stream) in &files.streams {
            let name = inside.map_or_else(|| writer.clone(), |run| inner_writer(run, writer));
            collector.begin_writer(&name);
            let tail = self.streams.entry(name).or_default();
            let mut tally = Tally::default();
            tail.poll(folder, writer, stream, axis, collector, &mut tally);
            collector.unpack(&mut tally);
            tail.compacted = None;
            complain(tally, writer);
        }
        if let Some(path) = &files.marks {
            let mut tally = Tally::default();
            let tail = self.marks.entry(path.clone()).or_default();
            tail.poll(path, axis, collector, &mut tally);
            complain(tally, "marks");
        }
        Ok(())
    }
}

/// What is at a segment's number.
enum SegmentState {
    Segment(OpenSegment),
    Block,
    /// Created, but without a header yet.
    Unborn,
    Unreadable(RunfileError),
    Nothing,
}

impl StreamTail {
    fn poll(
        &mut self,
        folder: &Path,
        writer: &str,
        listed: &StreamFiles,
        axis: &TimeAxis,
        collector: &mut Collector<'_>,
        tally: &mut Tally,
    ) {
        loop {
            if self.open.is_none() {
                match self.find(folder, writer, axis, collector, tally) {
                    SegmentState::Segment(open) => self.open = Some(open),
                    SegmentState::Block => {
                        self.number += 1;
                        continue;
                    }
                    unreadable => {
                        let Some(next) = self.next_known(folder, writer, listed) else {
                            return;
                        };
                        // It may have been written since, or have become a block: once a later one exists, it is where it stays.
                        if self.looked_again != Some(self.number) {
                            self.looked_again = Some(self.number);
                            continue;
                        }
                        tally.complain(match unreadable {
                            SegmentState::Unreadable(error) => error.to_string(),
                            _ => format!("segment {} is missing", self.number),
                        });
                        self.number = next;
                        continue;
                    }
                }
            }
            // Looked up before reading: once the next segment exists, this one does not grow.
            let is_sealed = self.next_known(folder, writer, listed).is_some();
            if let Some(open) = &mut self.open {
                open.read(is_sealed, axis, collector, tally);
            }
            if !is_sealed {
                return;
            }
            self.open = None;
            self.number += 1;
        }
    }

    /// Opens the segment of the present number, or takes it in from the compacted file.
    fn find(
        &mut self,
        folder: &Path,
        writer: &str,
        axis: &TimeAxis,
        collector: &mut Collector<'_>,
        tally: &mut Tally,
    ) -> SegmentState {
        let path = names::segment_path(folder, writer, self.number);
        let fault = match open_with_header(&path, Magic::Segment) {
            Ok((file, header)) => {
                return SegmentState::Segment(OpenSegment {
                    file,
                    offset: header.header_len as u64,
                    header,
                    declared: Declared::new(),
                });
            }
            Err(fault) => fault,
        };
        let file = self.list_blocks(folder, writer);
        let block = self.blocks.get(&self.number).copied();
        match (file.zip(block), fault) {
            (Some((file, block)), _) => {
                if let Err(error) = collect_block(&file, &block, axis, collector, tally) {
                    tally.complain(format!("segment {} is unreadable: {error}", self.number));
                }
                SegmentState::Block
            }
            (None, RunfileError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                SegmentState::Nothing
            }
            (None, RunfileError::BadHeader { .. }) => SegmentState::Unborn,
            (None, fault) => SegmentState::Unreadable(fault),
        }
    }

    /// Takes note of the blocks that were appended since the last time; `None` when there is no compacted file.
    fn list_blocks(&mut self, folder: &Path, writer: &str) -> Option<Arc<File>> {
        let file = match &self.compacted {
            Some(file) => Arc::clone(file),
            None => {
                let path = names::compacted_path(folder, writer);
                let (file, header) = open_with_header(&path, Magic::Compacted).ok()?;
                self.listed_to = self.listed_to.max(header.header_len as u64);
                Arc::clone(self.compacted.insert(Arc::new(file)))
            }
        };
        let list = list_blocks(&file, self.listed_to).ok()?;
        self.listed_to = list.end;
        for block in list.blocks {
            self.blocks.entry(block.head.segment).or_insert(block);
        }
        self.blocks = self.blocks.split_off(&self.number);
        Some(file)
    }

    /// The smallest number after the present one that exists.
    fn next_known(&mut self, folder: &Path, writer: &str, listed: &StreamFiles) -> Option<u32> {
        let next = self.number.checked_add(1)?;
        if names::segment_path(folder, writer, next).exists() {
            return Some(next);
        }
        self.list_blocks(folder, writer);
        let compacted = self.blocks.range(next..).next().map(|(number, _)| *number);
        let listed = listed
            .segments
            .range(next..)
            .next()
            .map(|(number, _)| *number);
        listed.into_iter().chain(compacted).min()
    }
}

impl OpenSegment {
    fn read(
        &mut self,
        is_sealed: bool,
        axis: &TimeAxis,
        collector: &mut Collector<'_>,
        tally: &mut Tally,
    ) {
        let shift = axis.shift(&self.header.clock);
        let at_bad_bytes = if is_sealed {
            AtBadBytes::Resync
        } else {
            AtBadBytes::Stop
        };
        let declared = &mut self.declared;
        let outcome = scan(&self.file, self.offset, at_bad_bytes, |record| {
            collector.add(record, shift, declared, tally);
        });
        match outcome {
            Ok(end) => {
                self.offset = end.end;
                for (offset, len) in end.holes {
                    tally.complain(format!("{len} bytes at offset {offset} are unreadable"));
                }
            }
            Err(error) => tally.complain(format!("could not read a segment: {error}")),
        }
    }
}

impl MarksTail {
    fn poll(
        &mut self,
        path: &Path,
        axis: &TimeAxis,
        collector: &mut Collector<'_>,
        tally: &mut Tally,
    ) {
        let (file, header) = match open_with_header(path, Magic::Segment) {
            Ok(opened) => opened,
            Err(error) => return tally.complain(error.to_string()),
        };
        let start = self.offset.max(header.header_len as u64);
        let shift = axis.shift(&header.clock);
        let at_bad_bytes = match self.stuck_at {
            Some(at) if at == start => AtBadBytes::ResyncUnaligned,
            _ => AtBadBytes::Stop,
        };
        let mut declared = Declared::new();
        let outcome = scan(&file, start, at_bad_bytes, |record| {
            collector.add(record, shift, &mut declared, tally);
        });
        match outcome {
            Ok(end) => {
                self.offset = end.end;
                self.stuck_at = (end.torn_tail_bytes > 0).then_some(end.end);
            }
            Err(error) => tally.complain(format!("could not read: {error}")),
        }
    }
}
