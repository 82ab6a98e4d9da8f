//! From the keys and values of a dict to a row. Unknown keys are skipped; a known key with a value of the wrong type is an error.

use super::builder::{DictCell, ListCell, RowTable, SnapshotBuilder, number_of, too_many};
use super::events::{TraceAction, TraceRow};
use super::segments::{BlockUse, GpuBlock, GpuSegment};
use super::stacks::{CodeFrame, NO_STACK};
use super::{StageMark, keys};
use crate::pickle::{PickleKind, PickleValue};

/// No device has 4 TiB; memory of such a size only comes from damaged files.
pub(crate) const MOST_DEVICE_BYTES: u64 = 1 << 42;
/// PyTorch refuses larger requests before they reach its allocator. A wrong shape may ask for a good part of it.
const MOST_REQUESTED_BYTES: u64 = 1 << 60;

/// The keys and values of a dict whose keys are known texts.
fn known_pairs(pairs: &[PickleValue]) -> impl Iterator<Item = (u32, PickleValue)> + '_ {
    pairs
        .chunks_exact(2)
        .filter_map(|pair| match pair[0].kind() {
            PickleKind::Text(key) if (key as usize) < keys::KNOWN_TEXTS.len() => {
                Some((key, pair[1]))
            }
            _ => None,
        })
}

fn wrong(key: u32, wanted: &str) -> String {
    format!(
        "the value of \"{}\" is not {wanted}",
        keys::KNOWN_TEXTS[key as usize]
    )
}

fn size_below(key: u32, size: u64, most: u64) -> Result<u64, String> {
    if size < most {
        Ok(size)
    } else {
        Err(wrong(key, "a size in bytes"))
    }
}

impl SnapshotBuilder {
    /// A whole number. The C++ writer stores pointers from 2^63 on as negative numbers.
    fn number(&self, key: u32, value: PickleValue) -> Result<u64, String> {
        match value.kind() {
            PickleKind::Int(number) => Ok(number as u64),
            PickleKind::Wide(id) => Ok(self.numbers[id as usize]),
            _ => Err(wrong(key, "a whole number")),
        }
    }

    fn size(&self, key: u32, value: PickleValue) -> Result<u64, String> {
        size_below(key, self.number(key, value)?, MOST_DEVICE_BYTES)
    }

    fn text_of(&self, key: u32, value: PickleValue) -> Result<u32, String> {
        match value.kind() {
            PickleKind::Text(text) => Ok(text),
            _ => Err(wrong(key, "a text")),
        }
    }

    fn stack_of(&self, key: u32, value: PickleValue) -> Result<u32, String> {
        match value.kind() {
            PickleKind::None => Ok(NO_STACK),
            PickleKind::List(list) => match self.lists[list as usize] {
                ListCell::Empty => Ok(NO_STACK),
                ListCell::Stack(stack) => Ok(stack),
                _ => Err(wrong(key, "a list of frames")),
            },
            _ => Err(wrong(key, "a list of frames")),
        }
    }

    fn stream_of(&mut self, key: u32, value: PickleValue) -> Result<u16, String> {
        let stream = self.number(key, value)?;
        self.streams
            .intern(stream)
            .ok_or_else(|| "more than 65,536 streams".to_owned())
    }

    /// A tuple of two numbers, or a list of them as other writers have it.
    fn pool_of(&mut self, key: u32, value: PickleValue) -> Result<u16, String> {
        let items = match value.kind() {
            PickleKind::Tuple(tuple) => self.tuple_items(tuple),
            PickleKind::List(list) => match self.lists[list as usize] {
                ListCell::Other(id) => self.others[id as usize].as_slice(),
                _ => &[],
            },
            _ => &[],
        };
        let &[first, second] = items else {
            return Err(wrong(key, "a pair of numbers"));
        };
        let pool = (self.number(key, first)?, self.number(key, second)?);
        self.pools
            .intern(pool)
            .ok_or_else(|| "more than 65,536 memory pools".to_owned())
    }

    pub(crate) fn frame(&mut self, pairs: &[PickleValue]) -> Result<u32, String> {
        let mut frame = CodeFrame {
            filename: u32::MAX,
            name: u32::MAX,
            line: 0,
        };
        for (key, value) in known_pairs(pairs) {
            match key {
                keys::FILENAME => frame.filename = self.text_of(key, value)?,
                keys::NAME => frame.name = self.text_of(key, value)?,
                keys::LINE => frame.line = u32::try_from(self.number(key, value)?).unwrap_or(0),
                _ => {}
            }
        }
        self.stacks.intern_frame(frame).ok_or_else(too_many)
    }

    pub(crate) fn event(&mut self, pairs: &[PickleValue]) -> Result<u32, String> {
        let mut row = TraceRow {
            action: TraceAction::Other,
            address: 0,
            size: 0,
            stream: 0,
            pool: 0,
            time_micros: 0,
            stack: NO_STACK,
            metadata: u32::MAX,
        };
        let mut has_stream = false;
        for (key, value) in known_pairs(pairs) {
            match key {
                keys::ACTION => row.action = TraceAction::from_text(self.text_of(key, value)?),
                keys::ADDR | keys::DEVICE_FREE => row.address = self.number(key, value)?,
                keys::SIZE => row.size = self.number(key, value)?,
                keys::STREAM => {
                    row.stream = self.stream_of(key, value)?;
                    has_stream = true;
                }
                keys::TIME_US => row.time_micros = self.number(key, value)?,
                keys::FRAMES => row.stack = self.stack_of(key, value)?,
                keys::USER_METADATA => row.metadata = self.text_of(key, value).unwrap_or(u32::MAX),
                keys::POOL_ID => row.pool = self.pool_of(key, value)?,
                _ => {}
            }
        }
        let most = match row.action {
            TraceAction::Oom => MOST_REQUESTED_BYTES,
            _ => MOST_DEVICE_BYTES,
        };
        size_below(keys::SIZE, row.size, most)?;
        if !has_stream {
            row.stream = self.streams.intern(0).ok_or("more than 65,536 streams")?;
        }
        let id = number_of(self.events.len())?;
        self.events.push(row);
        Ok(id)
    }

    pub(crate) fn block(&mut self, pairs: &[PickleValue]) -> Result<u32, String> {
        let mut block = GpuBlock {
            address: 0,
            size: 0,
            requested: u64::MAX,
            usage: BlockUse::Inactive,
            stack: NO_STACK,
        };
        for (key, value) in known_pairs(pairs) {
            match key {
                keys::ADDRESS => block.address = self.number(key, value)?,
                keys::SIZE => block.size = self.size(key, value)?,
                keys::REQUESTED_SIZE => block.requested = self.size(key, value)?,
                keys::STATE => {
                    block.usage = match self.text_of(key, value)? {
                        keys::WORD_ACTIVE_ALLOCATED => BlockUse::Allocated,
                        keys::WORD_ACTIVE_PENDING_FREE | keys::WORD_ACTIVE_AWAITING_FREE => {
                            BlockUse::Pending
                        }
                        keys::WORD_INACTIVE => BlockUse::Inactive,
                        _ => return Err(wrong(key, "a known state of a block")),
                    };
                }
                keys::FRAMES => block.stack = self.stack_of(key, value)?,
                keys::HISTORY => self.history(value, &mut block)?,
                _ => {}
            }
        }
        // Older files do not say what was asked for.
        block.requested = block.requested.min(block.size);
        let id = number_of(self.blocks.len())?;
        self.blocks.push(block);
        Ok(id)
    }

    /// The oldest files keep the last allocation of a block in a list, newest first.
    fn history(&self, value: PickleValue, block: &mut GpuBlock) -> Result<(), String> {
        let PickleKind::List(list) = value.kind() else {
            return Ok(());
        };
        let ListCell::Other(items) = self.lists[list as usize] else {
            return Ok(());
        };
        let Some(PickleKind::Dict(dict)) =
            self.others[items as usize].first().map(|item| item.kind())
        else {
            return Ok(());
        };
        let DictCell::Other(pairs) = self.dicts[dict as usize] else {
            return Ok(());
        };
        for (key, value) in known_pairs(&self.others[pairs as usize]) {
            match key {
                keys::REAL_SIZE => block.requested = self.size(key, value)?,
                keys::FRAMES => block.stack = self.stack_of(key, value)?,
                _ => {}
            }
        }
        Ok(())
    }

    pub(crate) fn segment(&mut self, pairs: &[PickleValue]) -> Result<u32, String> {
        let mut segment = GpuSegment {
            device: 0,
            address: 0,
            total_size: 0,
            stream: 0,
            pool: 0,
            is_small: false,
            is_expandable: false,
            stack: NO_STACK,
            blocks: 0..0,
        };
        let mut list = None;
        for (key, value) in known_pairs(pairs) {
            match key {
                keys::DEVICE => {
                    let device = self.number(key, value)?;
                    segment.device =
                        usize::try_from(device).map_err(|_| wrong(key, "a device's ordinal"))?;
                }
                keys::ADDRESS => segment.address = self.number(key, value)?,
                keys::TOTAL_SIZE => segment.total_size = self.size(key, value)?,
                keys::STREAM => segment.stream = self.stream_of(key, value)?,
                keys::SEGMENT_TYPE => {
                    segment.is_small = self.text_of(key, value)? == keys::WORD_SMALL
                }
                keys::SEGMENT_POOL_ID => segment.pool = self.pool_of(key, value)?,
                keys::IS_EXPANDABLE => {
                    segment.is_expandable = value.kind() == PickleKind::Bool(true)
                }
                keys::FRAMES => segment.stack = self.stack_of(key, value)?,
                keys::BLOCKS => list = self.row_list(key, value, RowTable::Blocks)?,
                _ => {}
            }
        }
        let id = number_of(self.segments.len())?;
        self.segments.push(segment);
        self.segment_lists.push(list);
        Ok(id)
    }

    /// The number of a list's range of rows; none of an empty list.
    pub(crate) fn row_list(
        &self,
        key: u32,
        value: PickleValue,
        table: RowTable,
    ) -> Result<Option<u32>, String> {
        let wrong = || wrong(key, "a list of what it should hold");
        let PickleKind::List(list) = value.kind() else {
            return Err(wrong());
        };
        match self.lists[list as usize] {
            ListCell::Empty => Ok(None),
            ListCell::Rows(id) if self.row_ranges[id as usize].table == table => Ok(Some(id)),
            _ => Err(wrong()),
        }
    }

    pub(crate) fn stage(&mut self, pairs: &[PickleValue]) -> Result<u32, String> {
        let mut mark = StageMark {
            starts: false,
            name: u32::MAX,
            device: 0,
            time_micros: 0,
        };
        for (key, value) in known_pairs(pairs) {
            match key {
                keys::STAGE => mark.starts = self.text_of(key, value)? == keys::WORD_START,
                keys::NAME => mark.name = self.text_of(key, value)?,
                keys::DEVICE => mark.device = self.number(key, value)?,
                keys::TIME_US => mark.time_micros = self.number(key, value)?,
                _ => {}
            }
        }
        let id = number_of(self.stages.len())?;
        self.stages.push(mark);
        Ok(id)
    }
}
