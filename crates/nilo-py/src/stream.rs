//! The stream of one process into a run: every point of every class passes here.
//!
//! A forked child gets a stream of its own in the same run, at its first point.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nilo_runfile::{RunFolder, RunWriter, RunfileError, TableId, WriterOptions, monotonic_nanos};
use nilo_sample::rows::ThroughputRow;
use nilo_sample::{Event, TableSpec, TypedRow};
use nilo_source::{Roots, own_rank, own_resident_bytes, process_id};

use crate::key_sets::{KeySets, MOST_COLUMNS};

/// The role in the names of our files: `python-4711`.
const ROLE: &str = "python";

/// Trackers with a table of their own; those beyond share the last one.
const MOST_TRACKERS: usize = 1_000;

static STREAMS: AtomicU64 = AtomicU64::new(0);
static HAS_TORCH_MEMORY: AtomicBool = AtomicBool::new(false);

/// Whether this process has stored figures of PyTorch's memory: the hooks of `nilo run` ask, so that they are told once.
#[pyo3::pyfunction]
pub(crate) fn has_torch_memory() -> bool {
    HAS_TORCH_MEMORY.load(Ordering::Relaxed)
}

/// An open stream.
pub(crate) struct Stream {
    /// Tells streams of this process apart, those before a fork too.
    id: u64,
    folder: PathBuf,
    writer: RunWriter,
    /// Names by group; groups keep apart what several loggers call the same.
    groups: Vec<(String, KeySets)>,
    phases: HashMap<String, TableId>,
    sampled_phases: HashMap<String, TableId>,
    gpu_phases: HashMap<String, TableId>,
    trackers: Vec<TrackerSeries>,
    torch_memory: HashMap<u32, TableId>,
    /// The step that training is at, where somebody says so: phases and memory carry it.
    pub(crate) step: Option<i64>,
    /// The step of the next row of `log` for which none is given.
    next_step: i64,
    newest_step: Option<i64>,
    /// The last step that was given for each table, and whether a step that went back was told of.
    last_steps: Vec<i64>,
    has_told_restart: bool,
    /// A job records the memory of the run.
    is_inside_job: bool,
}

/// What one tracker got through in this stream.
struct TrackerSeries {
    table: TableId,
    totals: ThroughputRow,
}

/// Where the step of a row of metrics comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RowStep {
    /// A call of `log`: its step, or one more than the last call's.
    Logged(Option<i64>),
    Tracked(TrackedStep),
}

/// The step of a tracker's row: given by its caller, or counted by the tracker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrackedStep {
    pub(crate) step: i64,
    pub(crate) is_given: bool,
}

impl RowStep {
    /// Whether it is one more than that of the last call of `log`.
    pub(crate) fn is_counted(self) -> bool {
        matches!(self, RowStep::Logged(None))
    }

    /// The step that the caller gave.
    #[inline]
    pub(crate) fn given(self) -> Option<i64> {
        match self {
            RowStep::Logged(step) => step,
            RowStep::Tracked(tracked) => tracked.is_given.then_some(tracked.step),
        }
    }
}

/// Asked for at each new table: a process that starts the other ranks itself, as Lightning's first does, has a place only then.
fn rank_of_process() -> Option<u32> {
    own_rank().map(|place| place.rank)
}

impl Stream {
    pub(crate) fn open(folder: &Path) -> Result<Stream, RunfileError> {
        let mut stream = Stream {
            id: STREAMS.fetch_add(1, Ordering::Relaxed),
            folder: folder.to_owned(),
            writer: RunWriter::create(folder, ROLE, WriterOptions::default())?,
            groups: Vec::new(),
            phases: HashMap::new(),
            sampled_phases: HashMap::new(),
            gpu_phases: HashMap::new(),
            trackers: Vec::new(),
            torch_memory: HashMap::new(),
            step: None,
            next_step: 0,
            newest_step: None,
            last_steps: Vec::new(),
            has_told_restart: false,
            is_inside_job: RunFolder::open(folder).is_ok_and(|run| run.job().is_some()),
        };
        stream.tell_high_water();
        Ok(stream)
    }

    /// Tells this process's high-water mark and its memory where a job records the memory, whose samples do not fall on the run's beginning and end.
    pub(crate) fn tell_high_water(&mut self) {
        if !self.is_inside_job {
            return;
        }
        let id = process_id(&Roots::default(), std::process::id());
        if let (Ok(id), Some((rss_bytes, resident_bytes))) = (id, own_resident_bytes()) {
            let told = Event::HighWater {
                id,
                rss_bytes,
                resident_bytes,
            };
            self.writer.event_if_room(monotonic_nanos(), &told);
        }
    }

    /// Its number: tables belong to one stream only.
    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Whether the process forked since this stream was opened.
    #[inline]
    pub(crate) fn is_foreign(&self) -> bool {
        self.writer.is_foreign()
    }

    /// The same run, from this process.
    pub(crate) fn reopen(&self) -> Result<Stream, RunfileError> {
        let mut stream = Stream::open(&self.folder)?;
        stream.step = self.step;
        stream.next_step = self.next_step;
        stream.newest_step = self.newest_step;
        stream.has_told_restart = self.has_told_restart;
        Ok(stream)
    }

    /// The names of a group.
    #[inline]
    pub(crate) fn key_sets(&mut self, group: &str) -> &mut KeySets {
        // Nearly always the first.
        let index = self.groups.iter().position(|(name, _)| name == group);
        let index = index.unwrap_or_else(|| {
            self.groups.push((group.to_owned(), KeySets::default()));
            self.groups.len() - 1
        });
        &mut self.groups[index].1
    }

    /// The step that training has come to: the one that it is said to be at, or the last that a row was stored under.
    pub(crate) fn newest_step(&self) -> Option<i64> {
        self.step.or(self.newest_step)
    }

    /// The step of a row.
    #[inline]
    pub(crate) fn resolve_step(&mut self, step: RowStep) -> i64 {
        let (step, newest) = match step {
            RowStep::Logged(step) => {
                let step = step.or(self.step).unwrap_or(self.next_step);
                self.next_step = step.saturating_add(1);
                (step, step)
            }
            RowStep::Tracked(TrackedStep { step, is_given }) => {
                // What a tracker counted says little of where training is: that of an evaluation counts too.
                let last = self.newest_step.filter(|last| !is_given && *last > step);
                (step, last.unwrap_or(step))
            }
        };
        self.newest_step = Some(newest);
        step
    }

    /// Whether a step that was given lies before the last one of its table, and nobody has been told yet.
    #[inline]
    pub(crate) fn goes_back(&mut self, table: TableId, step: Option<i64>) -> bool {
        let Some(step) = step.filter(|_| !self.has_told_restart) else {
            return false;
        };
        if self.last_steps.len() <= table.index() {
            self.last_steps.resize(table.index() + 1, i64::MIN);
        }
        let last = &mut self.last_steps[table.index()];
        let goes_back = step < *last;
        *last = step.max(*last);
        goes_back
    }

    /// Takes note of a step that was given. The first time that one goes back: from where to where.
    pub(crate) fn note_step(&mut self, table: TableId, step: Option<i64>) -> Option<(i64, i64)> {
        if !self.goes_back(table, step) {
            return None;
        }
        self.has_told_restart = true;
        Some(self.last_steps[table.index()]).zip(step)
    }

    /// Declares a table of this process.
    fn define(&mut self, mut spec: TableSpec) -> TableId {
        spec.rank = rank_of_process();
        self.writer.define(&spec)
    }

    /// One row of a table that is known.
    #[inline]
    pub(crate) fn append(&mut self, table: TableId, step: Option<i64>, values: &[f64]) -> bool {
        self.append_at(table, monotonic_nanos(), step, values)
    }

    /// The same, measured at a moment that has just passed.
    #[inline]
    pub(crate) fn append_at(
        &mut self,
        table: TableId,
        time_nanos: u64,
        step: Option<i64>,
        values: &[f64],
    ) -> bool {
        self.writer.append(table, time_nanos, step, values)
    }

    /// Values by name. Gives the table when one table holds them all, so that the caller can remember it.
    pub(crate) fn append_named(
        &mut self,
        group: &str,
        time_nanos: u64,
        step: Option<i64>,
        names: &[String],
        values: &[f64],
    ) -> Option<TableId> {
        if names.len() > MOST_COLUMNS {
            let chunks = names.chunks(MOST_COLUMNS).zip(values.chunks(MOST_COLUMNS));
            for (names, values) in chunks {
                self.append_named(group, time_nanos, step, names, values);
            }
            return None;
        }
        if names.is_empty() {
            return None;
        }
        let index = self.groups.iter().position(|(name, _)| name == group)?;
        let key_sets = &mut self.groups[index].1;
        match key_sets.table(group, names, rank_of_process, &mut self.writer) {
            Some(table) => {
                self.writer.append(table, time_nanos, step, values);
                Some(table)
            }
            None => {
                for (name, value) in names.iter().zip(values) {
                    let name = std::slice::from_ref(name);
                    self.append_named(group, time_nanos, step, name, &[*value]);
                }
                None
            }
        }
    }

    /// The table of a phase.
    pub(crate) fn phase(&mut self, name: &str) -> TableId {
        if let Some(table) = self.phases.get(name) {
            return *table;
        }
        let table = self.define(TableSpec::phase(name));
        self.phases.insert(name.to_owned(), table);
        table
    }

    /// The table of a phase's rows that stand for several steps.
    pub(crate) fn sampled_phase(&mut self, name: &str) -> TableId {
        if let Some(table) = self.sampled_phases.get(name) {
            return *table;
        }
        let table = self.define(TableSpec::sampled_phase(name));
        self.sampled_phases.insert(name.to_owned(), table);
        table
    }

    /// The table of a phase's rows with the GPU's memory.
    pub(crate) fn gpu_phase(&mut self, name: &str) -> TableId {
        if let Some(table) = self.gpu_phases.get(name) {
            return *table;
        }
        let table = self.define(TableSpec::gpu_phase(name));
        self.gpu_phases.insert(name.to_owned(), table);
        table
    }

    /// A place for the totals of one more tracker: trackers may count at the same time.
    pub(crate) fn new_tracker(&mut self) -> usize {
        if self.trackers.len() < MOST_TRACKERS {
            let table = self.define(TableSpec::throughput(self.trackers.len() as u32));
            self.trackers.push(TrackerSeries {
                table,
                totals: ThroughputRow {
                    batches: 0.0,
                    samples: 0.0,
                    tokens: 0.0,
                    counted_nanos: 0.0,
                },
            });
        }
        self.trackers.len() - 1
    }

    /// Adds to the totals of a tracker, and stores them.
    pub(crate) fn add_throughput(
        &mut self,
        tracker: usize,
        time_nanos: u64,
        added: &ThroughputRow,
    ) -> bool {
        let Some(TrackerSeries { table, totals }) = self.trackers.get_mut(tracker) else {
            return false;
        };
        totals.batches += added.batches;
        totals.samples += added.samples;
        totals.tokens += added.tokens;
        totals.counted_nanos += added.counted_nanos;
        let (table, values) = (*table, totals.values());
        self.append_at(table, time_nanos, self.step, &values)
    }

    /// The table of a device's memory.
    pub(crate) fn torch_memory(&mut self, device: u32) -> TableId {
        if let Some(table) = self.torch_memory.get(&device) {
            return *table;
        }
        let table = self.define(TableSpec::torch_memory(device));
        HAS_TORCH_MEMORY.store(true, Ordering::Relaxed);
        self.torch_memory.insert(device, table);
        table
    }

    pub(crate) fn event(&mut self, event: &Event) -> bool {
        self.writer.event(monotonic_nanos(), event)
    }

    /// Points that could not be stored, and why.
    pub(crate) fn dropped(&self) -> (u64, Option<&str>) {
        (self.writer.dropped(), self.writer.dropped_reason())
    }

    /// Looks whether the run's folder is still there.
    pub(crate) fn look_for_folder(&mut self) {
        self.writer.look_for_folder();
    }

    /// Points that were stored, and then lost with the run's folder: told once.
    pub(crate) fn take_lost_with_folder(&mut self) -> u64 {
        self.writer.take_lost_with_folder()
    }

    /// Whether points are being lost right now.
    #[inline]
    pub(crate) fn is_losing(&self) -> bool {
        self.writer.is_losing()
    }

    /// Whether points are lost because the run's folder is gone.
    pub(crate) fn has_lost_its_folder(&self) -> bool {
        self.writer.has_lost_its_folder()
    }

    pub(crate) fn bytes_written(&self) -> u64 {
        self.writer.bytes_written()
    }

    pub(crate) fn name(&self) -> &str {
        self.writer.name()
    }
}
