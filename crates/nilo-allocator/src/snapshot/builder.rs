//! Turns the containers of the pickle into rows as soon as they are filled.
//!
//! A dict's keys tell what it is: a frame, an event, a block, a segment, a stage, or something else.
//! A list of frames becomes the number of a stack, a list of rows the range of their numbers.
//! Nothing is copied by reference to it, so a pickle that names one object many times costs a number each time.

use std::ops::Range;

use super::events::TraceColumns;
use super::ids::{PoolId, SmallIds};
use super::segments::{GpuBlock, GpuSegment};
use super::stacks::CallStacks;
use super::texts::TextPool;
use super::{StageMark, keys};
use crate::pickle::{ObjectBuilder, PickleKind, PickleValue};

/// What became of a dict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DictCell {
    Empty,
    Frame(u32),
    Event(u32),
    Block(u32),
    Segment(u32),
    Stage(u32),
    /// Keys and values in turn, in [`SnapshotBuilder::others`].
    Other(u32),
}

/// What became of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListCell {
    Empty,
    Stack(u32),
    /// In [`SnapshotBuilder::row_ranges`].
    Rows(u32),
    /// In [`SnapshotBuilder::others`].
    Other(u32),
}

/// The table that rows of a list belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowTable {
    Events,
    Blocks,
    Segments,
    Stages,
}

pub(crate) struct RowRange {
    pub(crate) table: RowTable,
    pub(crate) rows: Range<u32>,
    /// Whether a segment or a device has it already.
    pub(crate) taken: bool,
}

pub(crate) struct SnapshotBuilder {
    pub(crate) texts: TextPool,
    pub(crate) stacks: CallStacks,
    pub(crate) events: TraceColumns,
    pub(crate) blocks: Vec<GpuBlock>,
    pub(crate) segments: Vec<GpuSegment>,
    /// The block list of each segment.
    pub(crate) segment_lists: Vec<Option<u32>>,
    pub(crate) stages: Vec<StageMark>,
    pub(crate) streams: SmallIds<u64>,
    pub(crate) pools: SmallIds<PoolId>,
    pub(crate) numbers: Vec<u64>,
    pub(crate) dicts: Vec<DictCell>,
    pub(crate) lists: Vec<ListCell>,
    pub(crate) row_ranges: Vec<RowRange>,
    pub(crate) others: Vec<Vec<PickleValue>>,
    pub(crate) tuples: Vec<PickleValue>,
    tuple_ends: Vec<usize>,
    frame_ids: Vec<u32>,
    /// How many frames may still be copied because a list of them grew after it was complete.
    copies_left: usize,
    /// How many bytes of memory objects may still take that are no rows.
    other_bytes_left: usize,
}

impl SnapshotBuilder {
    /// A builder for a pickle of so many bytes.
    pub(crate) fn new(pickle_bytes: usize) -> Self {
        let mut pools = SmallIds::default();
        pools.intern((0, 0));
        Self {
            texts: TextPool::default(),
            stacks: CallStacks::default(),
            events: TraceColumns::default(),
            blocks: Vec::new(),
            segments: Vec::new(),
            segment_lists: Vec::new(),
            stages: Vec::new(),
            streams: SmallIds::default(),
            pools,
            numbers: Vec::new(),
            dicts: Vec::new(),
            lists: Vec::new(),
            row_ranges: Vec::new(),
            others: Vec::new(),
            tuples: Vec::new(),
            tuple_ends: Vec::new(),
            frame_ids: Vec::new(),
            copies_left: pickle_bytes,
            other_bytes_left: pickle_bytes.saturating_mul(2).saturating_add(1 << 20),
        }
    }

    pub(crate) fn tuple_items(&self, id: u32) -> &[PickleValue] {
        let id = id as usize;
        let start = if id == 0 { 0 } else { self.tuple_ends[id - 1] };
        &self.tuples[start..self.tuple_ends[id]]
    }

    fn classify(&mut self, pairs: &[PickleValue]) -> Result<DictCell, String> {
        for pair in pairs.chunks_exact(2) {
            let PickleKind::Text(key) = pair[0].kind() else {
                continue;
            };
            match key {
                keys::ACTION => return self.event(pairs).map(DictCell::Event),
                keys::FILENAME => return self.frame(pairs).map(DictCell::Frame),
                keys::STATE => return self.block(pairs).map(DictCell::Block),
                keys::BLOCKS => return self.segment(pairs).map(DictCell::Segment),
                keys::STAGE => return self.stage(pairs).map(DictCell::Stage),
                _ => {}
            }
        }
        self.keep(pairs).map(DictCell::Other)
    }

    /// Keeps the items of an object that is no row. Snapshots have few of them.
    fn keep(&mut self, items: &[PickleValue]) -> Result<u32, String> {
        let id = number_of(self.others.len())?;
        self.others.push(Vec::new());
        self.spend(size_of::<Vec<PickleValue>>())?;
        self.keep_more(id, items)?;
        Ok(id)
    }

    fn keep_more(&mut self, id: u32, items: &[PickleValue]) -> Result<(), String> {
        self.spend(size_of_val(items))?;
        self.others[id as usize].extend_from_slice(items);
        Ok(())
    }

    fn spend(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.other_bytes_left.checked_sub(bytes);
        self.other_bytes_left = left.ok_or("too many objects that no snapshot has")?;
        Ok(())
    }

    /// The numbers of the frames, if the items are nothing but frames.
    fn collect_frames(&mut self, items: &[PickleValue]) -> bool {
        self.frame_ids.clear();
        for item in items {
            let PickleKind::Dict(dict) = item.kind() else {
                return false;
            };
            let DictCell::Frame(frame) = self.dicts[dict as usize] else {
                return false;
            };
            self.frame_ids.push(frame);
        }
        true
    }

    fn row_of(&self, item: PickleValue) -> Option<(RowTable, u32)> {
        let PickleKind::Dict(dict) = item.kind() else {
            return None;
        };
        match self.dicts[dict as usize] {
            DictCell::Event(row) => Some((RowTable::Events, row)),
            DictCell::Block(row) => Some((RowTable::Blocks, row)),
            DictCell::Segment(row) => Some((RowTable::Segments, row)),
            DictCell::Stage(row) => Some((RowTable::Stages, row)),
            _ => None,
        }
    }

    /// Adds rows to the end of a range. Writers list them in the order in which they are complete.
    fn extend_rows(
        &self,
        table: RowTable,
        mut rows: Range<u32>,
        items: &[PickleValue],
    ) -> Result<Range<u32>, String> {
        for item in items {
            match self.row_of(*item) {
                Some((other, row)) if other == table && row == rows.end => rows.end += 1,
                _ => {
                    return Err(
                        "a list of a snapshot names an object twice, out of order, or mixes kinds"
                            .to_owned(),
                    );
                }
            }
        }
        Ok(rows)
    }

    fn fill_list(&mut self, items: &[PickleValue]) -> Result<ListCell, String> {
        let Some(first) = items.first() else {
            return Ok(ListCell::Empty);
        };
        if let Some((table, row)) = self.row_of(*first) {
            let rows = self.extend_rows(table, row..row, items)?;
            let id = number_of(self.row_ranges.len())?;
            self.row_ranges.push(RowRange {
                table,
                rows,
                taken: false,
            });
            return Ok(ListCell::Rows(id));
        }
        if self.collect_frames(items) {
            let stack = self.stacks.intern_stack(&self.frame_ids);
            return stack.map(ListCell::Stack).ok_or_else(too_many);
        }
        self.keep(items).map(ListCell::Other)
    }

    fn grow_stack(&mut self, stack: u32, items: &[PickleValue]) -> Result<ListCell, String> {
        if !self.collect_frames(items) {
            return Err("a list of frames holds something else".to_owned());
        }
        let mut whole = self.stacks.frame_ids(stack).to_vec();
        whole.extend_from_slice(&self.frame_ids);
        self.copies_left = self
            .copies_left
            .checked_sub(whole.len())
            .ok_or("a list of frames grows in too many steps")?;
        self.stacks
            .intern_stack(&whole)
            .map(ListCell::Stack)
            .ok_or_else(too_many)
    }
}

impl ObjectBuilder for SnapshotBuilder {
    #[inline]
    fn text(&mut self, bytes: &[u8]) -> Result<u32, String> {
        self.texts.intern(bytes).ok_or_else(too_many)
    }

    fn wide(&mut self, number: u64) -> Result<u32, String> {
        let id = number_of(self.numbers.len())?;
        self.numbers.push(number);
        Ok(id)
    }

    fn float(&mut self, number: f64) -> Result<u32, String> {
        self.wide(number.to_bits())
    }

    #[inline]
    fn dict(&mut self) -> Result<u32, String> {
        let id = number_of(self.dicts.len())?;
        self.dicts.push(DictCell::Empty);
        Ok(id)
    }

    #[inline]
    fn set_items(&mut self, dict: u32, pairs: &[PickleValue]) -> Result<(), String> {
        if pairs.is_empty() {
            return Ok(());
        }
        match self.dicts[dict as usize] {
            DictCell::Empty => {
                let cell = self.classify(pairs)?;
                self.dicts[dict as usize] = cell;
            }
            DictCell::Other(id) => self.keep_more(id, pairs)?,
            _ => return Err("an object changes after it was complete".to_owned()),
        }
        Ok(())
    }

    #[inline]
    fn list(&mut self) -> Result<u32, String> {
        let id = number_of(self.lists.len())?;
        self.lists.push(ListCell::Empty);
        Ok(id)
    }

    #[inline]
    fn append(&mut self, list: u32, items: &[PickleValue]) -> Result<(), String> {
        if items.is_empty() {
            return Ok(());
        }
        match self.lists[list as usize] {
            ListCell::Empty => {
                let cell = self.fill_list(items)?;
                self.lists[list as usize] = cell;
            }
            ListCell::Stack(stack) => {
                let cell = self.grow_stack(stack, items)?;
                self.lists[list as usize] = cell;
            }
            ListCell::Rows(id) => {
                let RowRange { table, rows, .. } = &self.row_ranges[id as usize];
                let rows = self.extend_rows(*table, rows.clone(), items)?;
                self.row_ranges[id as usize].rows = rows;
            }
            ListCell::Other(id) => self.keep_more(id, items)?,
        }
        Ok(())
    }

    fn tuple(&mut self, items: &[PickleValue]) -> Result<u32, String> {
        // The same pool's numbers are written with each event.
        if let Some(last) = self.tuple_ends.len().checked_sub(1)
            && self.tuple_items(last as u32) == items
        {
            return Ok(last as u32);
        }
        let id = number_of(self.tuple_ends.len())?;
        self.tuples.extend_from_slice(items);
        self.tuple_ends.push(self.tuples.len());
        Ok(id)
    }
}

pub(crate) fn number_of(length: usize) -> Result<u32, String> {
    u32::try_from(length).map_err(|_| too_many())
}

pub(crate) fn too_many() -> String {
    "more than 4 billion objects of one kind".to_owned()
}
