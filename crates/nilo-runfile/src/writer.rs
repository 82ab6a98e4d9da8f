//! The writer: one stream of rows and events of one process.
//!
//! It never panics, never waits for another process and never disturbs the job: what cannot be stored is counted, in memory and in the segment's header.
//! Its slow work (syncing, compacting) is done by the thread in `housekeeping.rs`, which starts with the first such work.

mod attachments;
mod deleted_folder;
mod losses;
mod next_segment;
mod stacks;

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nilo_sample::{Event, TableSpec};

use crate::clock;
use crate::error::RunfileError;
use crate::filesystem;
use crate::fork::Generation;
use crate::housekeeping::Housekeeper;
use crate::opening::{Identity, first_segment};
use crate::options::{WriteMode, WriterOptions};
use crate::record::{self, CommitWord, MAX_BODY_LEN};
use crate::segment::{MAX_SEGMENT_BYTES, MIN_SEGMENT_BYTES, Segment};
use crate::written_stacks::WrittenStacks;
use deleted_folder::{FolderLook, LOOK_NANOS};
use losses::NoRoom;
use next_segment::DelayedSegment;

/// A last segment smaller than this stays as it is: compressing it would cost a short run more time than it saves space.
const COMPACT_AT_CLOSE_BYTES: u64 = 256 << 10;
/// The longest row that is accepted, in columns.
const MAX_COLUMNS: usize = (MAX_BODY_LEN - 20) / 8;

/// A table of one writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TableId {
    slot: u32,
    wire: u32,
}

impl TableId {
    /// Its place among the tables of its writer, from zero.
    #[inline]
    pub fn index(self) -> usize {
        self.slot as usize
    }

    /// A table that never is in a file.
    pub(crate) fn of_slot(slot: u32) -> TableId {
        TableId { slot, wire: slot }
    }
}

/// Which part of a segment a record may lie in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SegmentSpace {
    Usual,
    Reserved,
}

struct DefinedTable {
    wire: u32,
    columns: usize,
    /// The segment that holds the declaration, if any does.
    declared_in: Option<u32>,
    declaration: Box<[u8]>,
}

/// Appends rows and events to a run folder.
pub struct RunWriter {
    folder: PathBuf,
    /// Device and inode of the folder: what takes its place later is not it.
    folder_identity: (u64, u64),
    name: String,
    options: WriterOptions,
    mapped: bool,
    identity: Identity,
    generation: Generation,
    segment: Option<Segment>,
    tables: Vec<Option<DefinedTable>>,
    free_slots: Vec<u32>,
    stacks: WrittenStacks,
    has_told_of_too_many_stacks: bool,
    next_wire: u32,
    dropped: u64,
    /// Rows dropped since the last `Lost` event.
    unreported: u64,
    dropped_reason: Option<String>,
    retry_at_nanos: u64,
    sealed_bytes: u64,
    /// From this time on there is something to do beside the rows: to sync, or to look for the folder.
    wake_at_nanos: u64,
    /// From this time on there is something to sync.
    sync_at_nanos: u64,
    /// Up to where the stream was when its folder was last seen.
    last_look: FolderLook,
    /// Rows that were stored after that, in a folder that was gone by then.
    lost_with_folder: u64,
    housekeeper: Housekeeper,
    /// The segment that was compacted because the disk was full.
    compacted_when_full: Option<u32>,
    /// The next segment, while there is none that takes records.
    awaited: Option<DelayedSegment>,
}

impl RunWriter {
    /// Opens a stream in a run folder. Its files are called `<role>-<pid>`, with a number behind it when that is taken.
    pub fn create(
        run_dir: &Path,
        role: &str,
        options: WriterOptions,
    ) -> Result<RunWriter, RunfileError> {
        let mut options = options;
        options.max_segment_bytes = options
            .max_segment_bytes
            .clamp(MIN_SEGMENT_BYTES, MAX_SEGMENT_BYTES);
        options.first_segment_bytes = options
            .first_segment_bytes
            .clamp(4096, options.max_segment_bytes);
        let mut mapped = match options.mode {
            WriteMode::Auto => filesystem::network_file_system(run_dir).is_none(),
            WriteMode::Mapped => true,
            WriteMode::Written => false,
        };
        let made = std::fs::metadata(run_dir).map_err(RunfileError::io("open the run", run_dir))?;
        let identity = Identity::of_this_process();
        let (name, segment) = first_segment(run_dir, role, identity, &options, &mut mapped)?;
        let now = clock::monotonic_nanos();
        let sync_at_nanos = options.sync_every.map_or(u64::MAX, |every| {
            now.saturating_add(u64::try_from(every.as_nanos()).unwrap_or(u64::MAX))
        });
        let housekeeper = Housekeeper::new(run_dir, &name, &options);
        housekeeper.set_live(segment.file());
        Ok(RunWriter {
            folder: run_dir.to_owned(),
            folder_identity: (made.dev(), made.ino()),
            name,
            options,
            mapped,
            identity,
            generation: Generation::current(),
            segment: Some(segment),
            tables: Vec::new(),
            free_slots: Vec::new(),
            stacks: WrittenStacks::default(),
            has_told_of_too_many_stacks: false,
            next_wire: 0,
            dropped: 0,
            unreported: 0,
            dropped_reason: None,
            retry_at_nanos: 0,
            sealed_bytes: 0,
            wake_at_nanos: sync_at_nanos.min(now.saturating_add(LOOK_NANOS)),
            sync_at_nanos,
            last_look: FolderLook::default(),
            lost_with_folder: 0,
            housekeeper,
            compacted_when_full: None,
            awaited: None,
        })
    }

    /// The stream's name, such as `recorder-4711`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether rows go through a mapping.
    pub fn is_mapped(&self) -> bool {
        self.mapped
    }

    /// Whether this process is a fork of the one that opened the writer: it needs a writer of its own.
    #[inline]
    pub fn is_foreign(&self) -> bool {
        !self.generation.is_current()
    }

    /// Announces a table. Cheap: the declaration is written with the first row.
    pub fn define(&mut self, spec: &TableSpec) -> TableId {
        let wire = self.next_wire;
        self.next_wire = self.next_wire.wrapping_add(1);
        let json = serde_json::to_vec(spec).unwrap_or_default();
        // A declaration that cannot be written leaves its table without rows: they are counted as dropped.
        let declaration = record::encode_table(wire, &json).filter(|_| !json.is_empty());
        let table = declaration.map(|declaration| DefinedTable {
            wire,
            columns: spec.columns.len(),
            declared_in: None,
            declaration: declaration.into_boxed_slice(),
        });
        let slot = match self.free_slots.pop() {
            Some(slot) => {
                self.tables[slot as usize] = table;
                slot
            }
            None => {
                self.tables.push(table);
                (self.tables.len() - 1) as u32
            }
        };
        TableId { slot, wire }
    }

    /// Appends a row; `false` when it was dropped (and counted).
    ///
    /// `time_nanos` is [`crate::monotonic_nanos`]. The number of values is that of the table's columns.
    #[inline]
    pub fn append(
        &mut self,
        table: TableId,
        time_nanos: u64,
        step: Option<i64>,
        values: &[f64],
    ) -> bool {
        if let (Some(segment), Some(Some(defined))) =
            (&mut self.segment, self.tables.get(table.slot as usize))
        {
            let is_usual = defined.wire == table.wire
                && defined.columns == values.len()
                && defined.declared_in == Some(segment.number())
                && self.unreported == 0
                && time_nanos < self.wake_at_nanos
                && self.generation.is_current();
            if is_usual
                && CommitWord::row(values.len(), step.is_some()).record_len() <= segment.room()
                && segment
                    .append_row(table.wire, time_nanos, step, values)
                    .is_ok()
            {
                return true;
            }
        }
        self.append_with_care(table, time_nanos, step, values)
    }

    /// Everything that can stand between a row and its segment, one after the other.
    #[cold]
    fn append_with_care(
        &mut self,
        table: TableId,
        time_nanos: u64,
        step: Option<i64>,
        values: &[f64],
    ) -> bool {
        let Some(Some(defined)) = self.tables.get(table.slot as usize) else {
            return self.drop_row("the table is not defined");
        };
        if defined.wire != table.wire {
            return self.drop_row("the table was forgotten");
        }
        if defined.columns != values.len() || values.len() > MAX_COLUMNS {
            return self.drop_row("the row does not have the table's columns");
        }
        let row_len = CommitWord::row(values.len(), step.is_some()).record_len();
        let declaration_len = defined.declaration.len();
        let declared_in = defined.declared_in;
        let has_room = self.prepare(time_nanos, row_len + declaration_len, |segment| {
            if declared_in == Some(segment.number()) {
                row_len
            } else {
                row_len + declaration_len
            }
        });
        if !has_room {
            return false;
        }
        let (Some(segment), Some(Some(defined))) =
            (&mut self.segment, self.tables.get_mut(table.slot as usize))
        else {
            return self.drop_row("the writer is closed");
        };
        let number = segment.number();
        let mut outcome = Ok(());
        if defined.declared_in != Some(number) {
            outcome = segment.append_record(&defined.declaration);
            if outcome.is_ok() {
                defined.declared_in = Some(number);
            }
        }
        let outcome =
            outcome.and_then(|()| segment.append_row(table.wire, time_nanos, step, values));
        match outcome {
            Ok(()) => true,
            Err(error) => self.fail(&error),
        }
    }

    /// Stores an event; `false` when it was dropped (and counted like a row).
    pub fn event(&mut self, time_nanos: u64, event: &Event) -> bool {
        let record = serde_json::to_vec(event)
            .ok()
            .and_then(|json| record::encode_event(time_nanos, &json));
        let Some(record) = record else {
            return self.drop_row("the event is too long");
        };
        if !self.prepare(time_nanos, record.len(), |_| record.len()) {
            return false;
        }
        let Some(segment) = &mut self.segment else {
            return self.drop_row("the writer is closed");
        };
        match segment.append_record(&record) {
            Ok(()) => true,
            Err(error) => self.fail(&error),
        }
    }

    /// Stores the last event of the stream, which also fits when the disk is full: room is reserved for it.
    pub fn last_event(&mut self, time_nanos: u64, event: &Event) -> bool {
        if !self.generation.is_current() {
            return self.drop_row("this process is a fork of the one that opened the writer");
        }
        if self.unreported > 0 {
            self.report_losses(time_nanos, SegmentSpace::Reserved);
        }
        let record = serde_json::to_vec(event)
            .ok()
            .and_then(|json| record::encode_event(time_nanos, &json));
        let Some(record) = record else {
            return self.drop_row("the event is too long");
        };
        match self.store(&record, SegmentSpace::Reserved) {
            Ok(()) => true,
            Err(error) => self.fail(&error),
        }
    }

    /// Forgets a table whose subject has ended and frees its memory; the rows stay.
    pub fn forget(&mut self, table: TableId) {
        if let Some(entry) = self.tables.get_mut(table.slot as usize)
            && entry
                .as_ref()
                .is_some_and(|defined| defined.wire == table.wire)
        {
            *entry = None;
            self.free_slots.push(table.slot);
        }
    }

    /// Bytes of records and headers written so far, before compaction.
    pub fn bytes_written(&self) -> u64 {
        self.sealed_bytes + self.segment.as_ref().map_or(0, Segment::used)
    }

    /// Ends the stream: cuts the last segment to its size and lets housekeeping finish. Dropping the writer does the same.
    pub fn close(self) {
        drop(self);
    }

    /// Stores an event that nobody waits for; where there is no room for it, nothing that was logged is lost, and nothing is counted.
    pub fn event_if_room(&mut self, time_nanos: u64, event: &Event) -> bool {
        let record = serde_json::to_vec(event)
            .ok()
            .and_then(|json| record::encode_event(time_nanos, &json));
        let Some(record) = record else {
            return false;
        };
        let room = self.find_room(time_nanos, record.len(), |_| record.len());
        let segment = self.segment.as_mut().filter(|_| room.is_ok());
        segment.is_some_and(|segment| segment.append_record(&record).is_ok())
    }

    /// Sees to it that something fits, as `find_room`. `false`: the row was dropped and counted.
    fn prepare(
        &mut self,
        time_nanos: u64,
        fresh_len: usize,
        len: impl Fn(&Segment) -> usize,
    ) -> bool {
        match self.find_room(time_nanos, fresh_len, len) {
            Ok(()) => true,
            Err(NoRoom::AsBefore) => self.drop_row_again(),
            Err(NoRoom::IsFork) => {
                self.drop_row("this process is a fork of the one that opened the writer")
            }
            Err(NoRoom::Failed(error)) => self.fail(&error),
        }
    }

    /// Tells of earlier losses first, then finds room for something:
    /// it takes `len` bytes in the present segment and `fresh_len` in an empty one, which holds no declarations.
    fn find_room(
        &mut self,
        time_nanos: u64,
        fresh_len: usize,
        len: impl Fn(&Segment) -> usize,
    ) -> Result<(), NoRoom> {
        if !self.generation.is_current() {
            return Err(NoRoom::IsFork);
        }
        if time_nanos >= self.wake_at_nanos {
            self.wake(time_nanos);
        }
        if self.unreported > 0 {
            let is_too_early = clock::monotonic_nanos() < self.retry_at_nanos;
            if is_too_early || !self.report_losses(time_nanos, SegmentSpace::Usual) {
                return Err(NoRoom::AsBefore);
            }
        }
        if let Some(segment) = &self.segment
            && len(segment) <= segment.room()
        {
            return Ok(());
        }
        self.next_segment(fresh_len).map_err(NoRoom::Failed)
    }

    fn wake(&mut self, time_nanos: u64) {
        if time_nanos >= self.sync_at_nanos {
            self.sync_at_nanos = u64::MAX;
            self.housekeeper.start();
        }
        self.look_for_folder();
        let next_look = time_nanos.saturating_add(LOOK_NANOS);
        self.wake_at_nanos = self.sync_at_nanos.min(next_look);
    }

    /// Appends a record, in the next segment where this one is full.
    fn store(&mut self, record: &[u8], allowed: SegmentSpace) -> io::Result<()> {
        let (room, last_room) = self
            .segment
            .as_ref()
            .map_or((0, 0), |segment| (segment.room(), segment.last_room()));
        if record.len() > room {
            let opened = self.next_segment(record.len());
            if allowed == SegmentSpace::Usual || record.len() > last_room {
                opened?;
            }
        }
        match &mut self.segment {
            Some(segment) => {
                segment.trim_failed_write();
                segment.append_record(record)
            }
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl Drop for RunWriter {
    fn drop(&mut self) {
        if !self.generation.is_current() {
            self.housekeeper.abandon();
            return;
        }
        if self.unreported > 0 {
            self.report_losses(clock::monotonic_nanos(), SegmentSpace::Reserved);
        }
        if let Some(segment) = self.segment.take() {
            let number = segment.number();
            let is_large = segment.used() >= COMPACT_AT_CLOSE_BYTES;
            let path = segment.seal();
            if is_large || self.housekeeper.is_started() {
                self.housekeeper.sealed_last(number, path, is_large);
            }
        }
        self.housekeeper.finish();
    }
}
