//! What a job recorded of one run inside it: the rows and events of the run's time and processes, on the run's own axis.
//!
//! A run that did not say how it ended lasts until the last of its processes ended.
//! One that did lasts until the last of its other ranks left it, or the last row that they wrote.

use std::ops::Range;

use nilo_sample::{
    ABSENT, ColumnKind, Event, ProcessId, RecordedTable, Recording, RunMode, Subject, TimedEvent,
    is_absent,
};

use crate::run_curve::{curve, told_levels};
use crate::run_processes::RunProcesses;
use crate::run_writers::{RunWriterProcess, recorder_of};

/// What the job has to say about a run.
#[derive(Debug, Default)]
pub(crate) struct JobExcerpt {
    pub(crate) tables: Vec<RecordedTable>,
    pub(crate) events: Vec<TimedEvent>,
    /// How long the run lasted at least, on its own axis, where it has an ending.
    pub(crate) until_nanos: u64,
}

/// The run's time on the job's axis.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeWindow {
    pub(crate) from: u64,
    to: u64,
}

impl TimeWindow {
    fn of(run: &Recording, of_job: &Recording, processes: &RunProcesses<'_>) -> TimeWindow {
        let (told, job) = (&run.description, &of_job.description);
        let same_boot = told.boot_id == job.boot_id && !told.boot_id.is_empty();
        let from = match same_boot {
            true => told
                .started_monotonic_nanos
                .saturating_sub(job.started_monotonic_nanos),
            false => told
                .started_unix_nanos
                .saturating_sub(job.started_unix_nanos),
        };
        let to = match &told.ending {
            Some(ending) => {
                let told_nanos = ending.time_nanos.max(run.written_until_nanos);
                let first = recorder_of(told);
                let left = processes.others_left_nanos(from, first, of_job.last_time_nanos());
                from.saturating_add(told_nanos).max(left)
            }
            // Nobody saw its processes: what they wrote is all that is known.
            None if processes.is_empty() => from.saturating_add(run.last_time_nanos()),
            None => processes.ended_nanos().map_or(u64::MAX, |it| it.max(from)),
        };
        TimeWindow { from, to }
    }

    fn holds(self, time: u64) -> bool {
        (self.from..=self.to).contains(&time)
    }

    /// The rows of a table within the window.
    pub(crate) fn rows(self, times: &[u64]) -> Range<usize> {
        let begin = times.partition_point(|time| *time < self.from);
        let end = times.partition_point(|time| *time <= self.to);
        begin..end.max(begin)
    }

    /// On the run's axis; what was before it is its beginning.
    pub(crate) fn shift(self, time: u64) -> u64 {
        time.min(self.to).saturating_sub(self.from)
    }
}

/// Whether nothing can be read of the memory that a job recorded.
pub(crate) fn has_lost_samples(job: &Recording) -> bool {
    let tree = job.table(&Subject::Tree);
    tree.is_none_or(|tree| tree.times.is_empty()) && !job.damage.is_empty()
}

/// Cuts a run out of its job. `run` is what the run itself wrote, `writers` are the processes that did.
pub(crate) fn part_of_job(
    run: &Recording,
    job: &Recording,
    writers: &[RunWriterProcess],
) -> JobExcerpt {
    let processes = RunProcesses::find(job, writers);
    let window = TimeWindow::of(run, job, &processes);
    let ticks = job.table(&Subject::Tree).map(|tree| tree.times.as_slice());
    let first_tick = ticks.and_then(|ticks| ticks[window.rows(ticks)].first().copied());
    let was_there = |id: &ProcessId| processes.was_there(id, window.from, first_tick);
    let are_alone = processes.were_alone(window.from, window.to, first_tick);
    let mut part = JobExcerpt::default();
    if run.description.ending.is_some() {
        part.until_nanos = window.to - window.from;
    }
    for table in &job.tables {
        let cut = |before| cut(table, window, first_tick, before);
        match &table.spec.subject {
            Subject::Tree => part.tables.extend(curve(table, job, &processes, window)),
            Subject::Process(id) if was_there(id) => part.tables.extend(cut(Before::Level)),
            Subject::ProcessDetail(id) if was_there(id) => part.tables.extend(cut(Before::Nothing)),
            Subject::Cgroup { .. } => {
                let cgroup = cut(Before::LevelAndCounters);
                part.tables.extend(match are_alone {
                    true => cgroup,
                    false => cgroup.map(shared),
                });
            }
            Subject::Host | Subject::Gpu { .. } => {
                part.tables.extend(cut(Before::LevelAndCounters));
            }
            _ => {}
        }
    }
    // Where the job's own samples are lost, two readings are not the curve of a run, however long it was.
    let is_lost = has_lost_samples(job);
    let mut tables = part.tables.iter();
    if !is_lost && !tables.any(|table| table.spec.subject == Subject::Tree) {
        part.tables.extend(told_levels(&run.events));
    }
    let is_over = run.description.ending.is_some();
    let has_root = |pid: &u32| processes.contains_pid(*pid);
    let is_command = !is_over && job.description.root_pids.first().is_some_and(has_root);
    // A program that recorded itself is a training of its own: its marks are not those of the trainings inside it.
    let is_training = job.description.mode == RunMode::Python;
    let is_foreign = |event: &Event| is_training && matches!(event, Event::Mark { .. });
    let of_job = job.events.iter().filter(|timed| !is_foreign(&timed.event));
    let told = of_job.filter_map(|timed| {
        Some(TimedEvent {
            time_nanos: window.shift(timed.time_nanos),
            event: event(timed, &was_there, is_command, window)?,
        })
    });
    part.events = told.collect();
    part
}

/// What of the row before the window tells about the time in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// A high-water mark from before says nothing about the run.
    Nothing,
    /// The level held on until the first tick, unless it is written anew by then.
    Level,
    /// Counters are compared with what they were when the run began.
    LevelAndCounters,
}

/// The rows of a window. What held before becomes its first row.
fn cut(
    table: &RecordedTable,
    window: TimeWindow,
    first_tick: Option<u64>,
    before: Before,
) -> Option<RecordedTable> {
    let mut rows = window.rows(&table.times);
    let is_carried = before != Before::Nothing && table.spec.hold && rows.start > 0;
    // Between the last tick before the run and its first one, a level may have been another: the one on the tick counts.
    let next = table.times[rows.clone()].first();
    let is_replaced = match first_tick {
        Some(tick) => next.is_some_and(|next| *next <= tick),
        None => true,
    };
    let keeps_row = is_carried && (!is_replaced || before == Before::LevelAndCounters);
    if keeps_row {
        rows.start -= 1;
    }
    if rows.is_empty() {
        return None;
    }
    let shifted = table.times[rows.clone()].iter();
    let mut columns: Vec<Vec<f64>> = table
        .columns
        .iter()
        .map(|column| column.get(rows.clone()).unwrap_or_default().to_vec())
        .collect();
    if keeps_row && is_replaced {
        let declared = table.spec.columns.iter();
        for (column, _) in columns
            .iter_mut()
            .zip(declared)
            .filter(|(_, declared)| declared.kind == ColumnKind::Gauge)
        {
            column.first_mut().into_iter().for_each(|it| *it = ABSENT);
        }
    }
    Some(RecordedTable {
        spec: table.spec.clone(),
        writer: table.writer.clone(),
        times: shifted.map(|time| window.shift(*time)).collect(),
        steps: table.steps.get(rows).unwrap_or_default().to_vec(),
        columns,
    })
}

/// A cgroup of the job with others in it than the run's processes: what is charged to it is not the run's alone.
fn shared(mut cgroup: RecordedTable) -> RecordedTable {
    let owned = cgroup.spec.column("owned");
    if let Some(column) = owned.and_then(|index| cgroup.columns.get_mut(index)) {
        let told = column.iter_mut().filter(|owned| !is_absent(**owned));
        told.for_each(|owned| *owned = 0.0);
    }
    cgroup
}

/// An event of the job as the run tells it; nothing for one that is not the run's.
fn event(
    timed: &TimedEvent,
    was_there: &dyn Fn(&ProcessId) -> bool,
    is_command: bool,
    window: TimeWindow,
) -> Option<Event> {
    let is_told = match &timed.event {
        // The name in force is the one that a process had when the run began: launchers fork, and `exec` only then.
        Event::ProcessStarted { id, .. } | Event::ProcessRenamed { id, .. } => {
            was_there(id) && timed.time_nanos <= window.to
        }
        Event::ProcessEnded { id, .. } => was_there(id) && window.holds(timed.time_nanos),
        // The command's status is the run's where the run is the command and did not tell its own.
        Event::CommandEnded { .. } => is_command,
        Event::LimitChanged { .. } | Event::GpuFound { .. } | Event::Blind { .. } => {
            timed.time_nanos <= window.to
        }
        Event::Mark { .. }
        | Event::OomKill { .. }
        | Event::OomNotice { .. }
        | Event::Gap { .. }
        | Event::ClockJump { .. }
        | Event::Interval { .. }
        | Event::Alert(_) => window.holds(timed.time_nanos),
        _ => false,
    };
    let mut event = is_told.then(|| timed.event.clone())?;
    match &mut event {
        Event::Alert(alert) => alert.time_nanos = window.shift(alert.time_nanos),
        // These are of the whole command, from its beginning.
        Event::CommandEnded {
            cpu_nanos,
            peak_bytes,
            ..
        } => (*cpu_nanos, *peak_bytes) = (None, None),
        _ => {}
    }
    Some(event)
}

#[cfg(test)]
#[path = "part_of_job_tests.rs"]
mod tests;
