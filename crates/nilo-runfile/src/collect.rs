//! Gathering rows and events from files into tables.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use nilo_sample::{Event, NO_STEP, RecordedTable, TableSpec, TimedEvent};

use crate::axis::Shift;
use crate::block::TableEntry;
use crate::blocks::BlockPlace;
use crate::read_stacks::StackCollector;
use crate::record::{Record, RowView};
use crate::stack_record::DeclaredStack;
use crate::unpack::{PackedRows, unpack_all};

/// At most this many sentences about one file: damage is reported, not listed byte by byte.
pub(crate) const MAX_SENTENCES: usize = 20;

/// The tables that one file has declared so far.
pub(crate) type Declared = HashMap<u32, DeclaredTable>;

/// A declared table, and where its rows go.
#[derive(Debug, Clone)]
pub(crate) struct DeclaredTable {
    spec: Arc<TableSpec>,
    is_wanted: bool,
    /// The one column to take; all without one.
    only: Option<usize>,
    /// Position in the collector of that generation.
    slot: Option<(u64, usize)>,
}

/// Counts and complaints of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) records: u64,
    pub(crate) rows: u64,
    pub(crate) events: u64,
    /// Sentences, and how often each was said.
    damage: Vec<(String, u64)>,
}

impl Tally {
    pub(crate) fn complain(&mut self, sentence: String) {
        let known = self.damage.iter_mut().find(|(text, _)| *text == sentence);
        if let Some((_, times)) = known {
            *times += 1;
        } else if self.damage.len() < MAX_SENTENCES {
            self.damage.push((sentence, 1));
        }
    }

    /// What was complained of, each thing once.
    pub(crate) fn damage(&self) -> impl Iterator<Item = String> {
        self.damage.iter().map(|(text, times)| match times {
            1 => text.clone(),
            _ => format!("{text} ({times} times)"),
        })
    }

    /// The same with the file that it is about.
    pub(crate) fn sentences(&self, path: &Path) -> impl Iterator<Item = String> {
        self.damage()
            .map(move |text| format!("{text}: {}", path.display()))
    }
}

/// What is wanted of the tables that are read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RowsWanted<'a> {
    All,
    /// One column of each table.
    Column(&'a str),
    /// What a picture of so many pixels needs.
    Thinned {
        pixels: usize,
    },
}

/// Rows and events of a run, growing.
pub(crate) struct Collector<'a> {
    keep: &'a dyn Fn(&TableSpec) -> bool,
    /// The one column to take; all without one.
    column: Option<&'a str>,
    generation: u64,
    writer: String,
    /// The tables of the present writer by their number; several when a number was declared twice with different columns.
    by_number: HashMap<u32, Vec<usize>>,
    tables: Vec<RecordedTable>,
    /// The number of each of them in its writer's stream.
    numbers: Vec<u32>,
    events: Vec<TimedEvent>,
    stacks: StackCollector,
    written_until_nanos: u64,
    /// Of the present writer: the time of its last row, and its rank.
    writer_until_nanos: u64,
    writer_rank: Option<u32>,
    /// Rows that are still in blocks.
    packed: Vec<PackedRows>,
    /// Large tables are thinned to this many pixels.
    pixels: Option<usize>,
    thinned_nanos: u64,
}

impl<'a> Collector<'a> {
    /// `generation` tells collectors apart that share [`Declared`] tables.
    pub(crate) fn new(keep: &'a dyn Fn(&TableSpec) -> bool, generation: u64) -> Collector<'a> {
        Collector {
            keep,
            column: None,
            generation,
            writer: String::new(),
            by_number: HashMap::new(),
            tables: Vec::new(),
            numbers: Vec::new(),
            events: Vec::new(),
            stacks: StackCollector::default(),
            written_until_nanos: 0,
            writer_until_nanos: 0,
            writer_rank: None,
            packed: Vec::new(),
            pixels: None,
            thinned_nanos: 0,
        }
    }

    /// Takes what is wanted of each table; tables without the one column that is wanted are left out.
    pub(crate) fn taking(mut self, wanted: RowsWanted<'a>) -> Collector<'a> {
        match wanted {
            RowsWanted::All => {}
            RowsWanted::Column(column) => self.column = Some(column),
            RowsWanted::Thinned { pixels } => self.pixels = Some(pixels),
        }
        self
    }

    /// Goes on with the stacks of an earlier collector, so that their numbers stay.
    pub(crate) fn with_stacks(mut self, stacks: StackCollector) -> Collector<'a> {
        self.stacks = stacks;
        self
    }

    /// What follows is from this writer.
    pub(crate) fn begin_writer(&mut self, writer: &str) {
        self.writer = writer.to_owned();
        self.by_number.clear();
        self.writer_until_nanos = 0;
        self.writer_rank = None;
    }

    /// The rank that the present writer has, and the time of its last row.
    pub(crate) fn writer_rank(&self) -> Option<(u32, u64)> {
        Some((self.writer_rank?, self.writer_until_nanos))
    }

    #[inline]
    fn note_row(&mut self, time_nanos: u64) {
        self.writer_until_nanos = self.writer_until_nanos.max(time_nanos);
        self.written_until_nanos = self.written_until_nanos.max(time_nanos);
    }

    /// Takes in one record of a file.
    pub(crate) fn add(
        &mut self,
        record: Record<'_>,
        shift: Shift,
        declared: &mut Declared,
        tally: &mut Tally,
    ) {
        tally.records += 1;
        match record {
            Record::Row(row) => {
                tally.rows += 1;
                self.add_row(&row, shift, declared, tally);
            }
            Record::Table { table, spec_json } => {
                if self.declare(table, spec_json, declared).is_none() {
                    tally.complain(format!("the declaration of table {table} is unreadable"));
                }
            }
            Record::Event {
                time_nanos,
                event_json,
            } => {
                tally.events += 1;
                match serde_json::from_slice::<Event>(event_json) {
                    Ok(event) => self.events.push(TimedEvent {
                        time_nanos: shift.apply(time_nanos),
                        event,
                    }),
                    Err(error) => tally.complain(format!("an event is unreadable: {error}")),
                }
            }
            Record::Stack(body) => {
                let declared = DeclaredStack::decode(body).ok_or("it is unreadable");
                let outcome = declared.and_then(|stack| self.stacks.declare(&self.writer, &stack));
                if let Err(reason) = outcome {
                    tally.complain(format!("the declaration of a stack: {reason}"));
                }
            }
            Record::Other => {}
        }
    }

    fn declare<'d>(
        &mut self,
        table: u32,
        spec_json: &[u8],
        declared: &'d mut Declared,
    ) -> Option<&'d mut DeclaredTable> {
        let spec: TableSpec = serde_json::from_slice(spec_json).ok()?;
        let only = self.column.and_then(|column| spec.column(column));
        self.writer_rank = self.writer_rank.or(spec.rank);
        let has_column = self.column.is_none() || only.is_some();
        let entry = DeclaredTable {
            is_wanted: has_column && (self.keep)(&spec),
            only,
            spec: Arc::new(spec),
            slot: None,
        };
        declared.insert(table, entry);
        declared.get_mut(&table)
    }

    #[inline]
    fn add_row(
        &mut self,
        row: &RowView<'_>,
        shift: Shift,
        declared: &mut Declared,
        tally: &mut Tally,
    ) {
        let Some(table) = declared.get_mut(&row.table) else {
            return tally.complain(format!(
                "a row of table {}, which is not declared",
                row.table
            ));
        };
        if table.spec.columns.len() != row.len() {
            return tally.complain(format!(
                "a row of table {} has {} values instead of {}",
                row.table,
                row.len(),
                table.spec.columns.len()
            ));
        }
        self.note_row(shift.apply(row.time_nanos));
        if !table.is_wanted {
            return;
        }
        let slot = self.slot(row.table, table);
        let target = &mut self.tables[slot];
        if row.step.is_some() && target.steps.is_empty() {
            target.steps = vec![NO_STEP; target.times.len()];
        }
        if row.step.is_some() || !target.steps.is_empty() {
            target.steps.push(row.step.unwrap_or(NO_STEP));
        }
        target.times.push(shift.apply(row.time_nanos));
        let skipped = table.only.unwrap_or(0);
        // A table cut to one column has one column.
        for (column, value) in target.columns.iter_mut().zip(row.values().skip(skipped)) {
            column.push(value);
        }
    }

    /// Takes note of a table's rows in a block; [`Collector::unpack`] takes them in.
    pub(crate) fn note_columns(
        &mut self,
        file: &Arc<File>,
        block: &BlockPlace,
        shift: Shift,
        entry: TableEntry,
    ) -> Result<(), &'static str> {
        let mut declared = Declared::new();
        let table = self
            .declare(entry.table, &entry.spec_json, &mut declared)
            .ok_or("the declaration is unreadable")?;
        self.note_row(shift.apply(entry.last_time));
        if !table.is_wanted {
            return Ok(());
        }
        if entry.columns.len() != table.spec.columns.len() {
            return Err("the columns are not those declared");
        }
        let slot = self.slot(entry.table, table);
        self.packed.push(PackedRows {
            slot,
            follows: self.tables[slot].times.len(),
            file: Arc::clone(file),
            block: *block,
            entry,
            only: table.only,
            shift,
        });
        Ok(())
    }

    /// Takes in the rows in blocks that were noted so far.
    pub(crate) fn unpack(&mut self, tally: &mut Tally) {
        if !self.packed.is_empty() {
            let packed = std::mem::take(&mut self.packed);
            let nanos = unpack_all(&mut self.tables, packed, self.pixels, tally);
            self.thinned_nanos = self.thinned_nanos.max(nanos);
        }
    }

    #[inline]
    fn slot(&mut self, number: u32, table: &mut DeclaredTable) -> usize {
        match table.slot {
            Some((generation, slot)) if generation == self.generation => slot,
            _ => {
                let slot = self.find_slot(number, table);
                table.slot = Some((self.generation, slot));
                slot
            }
        }
    }

    #[cold]
    fn find_slot(&mut self, number: u32, table: &DeclaredTable) -> usize {
        let mut spec = TableSpec::clone(&table.spec);
        if let Some(only) = table.only {
            spec.columns = vec![spec.columns.swap_remove(only)];
        }
        let slots = self.by_number.entry(number).or_default();
        let known = slots.iter().find(|slot| self.tables[**slot].spec == spec);
        if let Some(slot) = known {
            return *slot;
        }
        let slot = self.tables.len();
        slots.push(slot);
        self.numbers.push(number);
        self.tables.push(RecordedTable {
            columns: vec![Vec::new(); spec.columns.len()],
            spec,
            writer: self.writer.clone(),
            times: Vec::new(),
            steps: Vec::new(),
        });
        slot
    }

    /// The time of the last row in the files, wanted or not: how far the writers came, whichever tables are read.
    pub(crate) fn written_until_nanos(&self) -> u64 {
        self.written_until_nanos
    }

    /// How wide the pixels are to which tables were thinned; 0 where none was.
    pub(crate) fn thinned_nanos(&self) -> u64 {
        self.thinned_nanos
    }

    /// Puts tables in the order of their definition, and everything in them in the order of time.
    /// Tables without a readable row are left out.
    pub(crate) fn finish(self) -> Collected {
        debug_assert!(self.packed.is_empty());
        let mut numbered: Vec<_> = self.numbers.into_iter().zip(self.tables).collect();
        numbered.retain(|(_, table)| !table.times.is_empty());
        numbered.sort_by(|(a, one), (b, other)| (&one.writer, a).cmp(&(&other.writer, b)));
        let mut tables: Vec<RecordedTable> = numbered.into_iter().map(|(_, table)| table).collect();
        let mut events = self.events;
        for table in &mut tables {
            if !table.times.is_sorted() {
                sort_by_time(table);
            }
        }
        events.sort_by_key(|event| event.time_nanos);
        self.stacks.rename_in(&mut tables);
        Collected {
            tables,
            events,
            stacks: self.stacks,
        }
    }
}

/// What was collected, in order.
pub(crate) struct Collected {
    pub(crate) tables: Vec<RecordedTable>,
    pub(crate) events: Vec<TimedEvent>,
    pub(crate) stacks: StackCollector,
}

/// Only a writer with a wrong clock needs this.
fn sort_by_time(table: &mut RecordedTable) {
    let mut order: Vec<usize> = (0..table.times.len()).collect();
    order.sort_by_key(|row| table.times[*row]);
    table.times = order.iter().map(|row| table.times[*row]).collect();
    if !table.steps.is_empty() {
        table.steps = order.iter().map(|row| table.steps[*row]).collect();
    }
    for column in &mut table.columns {
        *column = order.iter().map(|row| column[*row]).collect();
    }
}
