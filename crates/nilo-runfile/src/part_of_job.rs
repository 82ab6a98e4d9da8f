//! What a job recorded of one run inside it: the rows and events of the run's time and processes, on the run's own axis.
//!
//! A run's processes are those that wrote to it and everything that they started.
//! Each process's `memory_bytes` is what it adds to the job, so their sum is the run's curve.

use std::collections::{HashMap, HashSet};

use nilo_sample::{
    ABSENT, Event, ProcessId, RecordedTable, Recording, RunDescription, Subject, TableSpec,
    TimedEvent, is_absent,
};

/// What the job has to say about a run.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) tables: Vec<RecordedTable>,
    pub(crate) events: Vec<TimedEvent>,
}

/// The run's time on the job's axis.
#[derive(Debug, Clone, Copy)]
struct Window {
    from: u64,
    to: u64,
}

impl Window {
    fn of(run: &RunDescription, job: &RunDescription) -> Window {
        let same_boot = run.boot_id == job.boot_id && !run.boot_id.is_empty();
        let from = match same_boot {
            true => run
                .started_monotonic_nanos
                .saturating_sub(job.started_monotonic_nanos),
            false => run
                .started_unix_nanos
                .saturating_sub(job.started_unix_nanos),
        };
        let to = match &run.ending {
            Some(ending) => from.saturating_add(ending.time_nanos),
            None => u64::MAX,
        };
        Window { from, to }
    }

    fn holds(self, time: u64) -> bool {
        (self.from..=self.to).contains(&time)
    }

    /// On the run's axis; what was before it is its beginning.
    fn shift(self, time: u64) -> u64 {
        time.saturating_sub(self.from)
    }
}

/// Cuts a run out of its job.
pub(crate) fn part_of_job(run: &RunDescription, job: &Recording, members: &[ProcessId]) -> Part {
    let family = family(job, members);
    let window = Window::of(run, &job.description);
    let mut part = Part::default();
    for table in &job.tables {
        match &table.spec.subject {
            Subject::Tree => part.tables.extend(curve(table, job, &family, window)),
            Subject::Process(id) if family.contains(id) => {
                part.tables.extend(cut(table, window, true));
            }
            // A high-water mark from before says nothing about the run, so none is carried in.
            Subject::ProcessDetail(id) if family.contains(id) => {
                part.tables.extend(cut(table, window, false));
            }
            Subject::Cgroup { .. } | Subject::Host | Subject::Gpu { .. } => {
                part.tables.extend(cut(table, window, true));
            }
            _ => {}
        }
    }
    part.events = events(job, &family, window);
    part
}

/// The members and everything that they started.
fn family(job: &Recording, members: &[ProcessId]) -> HashSet<ProcessId> {
    let mut family: HashSet<ProcessId> = HashSet::new();
    // Who has a PID at the time; processes start after their parents.
    let mut holders: HashMap<u32, ProcessId> = HashMap::new();
    for timed in &job.events {
        if let Event::ProcessStarted { id, info } = &timed.event {
            let is_member = members.contains(id);
            let parent = holders.get(&info.parent);
            if is_member || parent.is_some_and(|parent| family.contains(parent)) {
                family.insert(*id);
            }
            holders.insert(id.pid, *id);
        }
    }
    family
}

/// The rows of a window. With `carry`, the value that held when it began becomes its first row.
fn cut(table: &RecordedTable, window: Window, carry: bool) -> Option<RecordedTable> {
    let begin = table.times.partition_point(|time| *time < window.from);
    let begin = begin.saturating_sub(usize::from(carry && table.spec.hold && begin > 0));
    let end = table.times.partition_point(|time| *time <= window.to);
    if begin >= end {
        return None;
    }
    let shifted = table.times[begin..end].iter();
    Some(RecordedTable {
        spec: table.spec.clone(),
        writer: table.writer.clone(),
        times: shifted.map(|time| window.shift(*time)).collect(),
        steps: table.steps.get(begin..end).unwrap_or_default().to_vec(),
        columns: table
            .columns
            .iter()
            .map(|column| column.get(begin..end).unwrap_or_default().to_vec())
            .collect(),
    })
}

/// One process of the family while the curve is summed up.
struct Cursor<'a> {
    times: &'a [u64],
    memory: &'a [f64],
    rss: &'a [f64],
    cpu: &'a [f64],
    ended_nanos: u64,
    row: Option<usize>,
}

impl Cursor<'_> {
    fn advance_to(&mut self, time: u64) {
        let mut next = self.row.map_or(0, |row| row + 1);
        while self.times.get(next).is_some_and(|at| *at <= time) {
            self.row = Some(next);
            next += 1;
        }
    }

    fn value(&self, column: &[f64]) -> f64 {
        let value = self.row.and_then(|row| column.get(row)).copied();
        value.filter(|value| !is_absent(*value)).unwrap_or(0.0)
    }
}

/// The run's own curve, on the ticks of the job's.
fn curve(
    tree: &RecordedTable,
    job: &Recording,
    family: &HashSet<ProcessId>,
    window: Window,
) -> Option<RecordedTable> {
    let mut cursors = cursors(job, family);
    let begin = tree.times.partition_point(|time| *time < window.from);
    let end = tree.times.partition_point(|time| *time <= window.to);
    let of_job = |name: &str, row: usize| -> f64 {
        let series = tree.series(name);
        let value = series.and_then(|series| series.values.get(row).copied());
        value.unwrap_or(ABSENT)
    };
    let spec = TableSpec::tree();
    let mut cut = RecordedTable {
        columns: vec![Vec::new(); spec.columns.len()],
        spec,
        writer: tree.writer.clone(),
        times: Vec::new(),
        steps: Vec::new(),
    };
    let mut cpu_before = None;
    for row in begin..end {
        let time = tree.times[row];
        let (mut memory, mut largest, mut rss, mut cpu, mut alive) = (0.0, 0.0f64, 0.0, 0.0, 0.0);
        for cursor in &mut cursors {
            cursor.advance_to(time);
            cpu += cursor.value(cursor.cpu);
            if cursor.row.is_some() && time < cursor.ended_nanos {
                memory += cursor.value(cursor.memory);
                rss += cursor.value(cursor.rss);
                largest = largest.max(cursor.value(cursor.rss));
                alive += 1.0;
            }
        }
        if alive == 0.0 {
            continue;
        }
        let is_whole = alive == of_job("processes", row);
        let all_measured = of_job("pss_processes", row) >= of_job("processes", row);
        let values = [
            // Pages shared with older processes outside are the run's as well; of its largest process they are known.
            match is_whole {
                true => of_job("memory_bytes", row),
                false => memory.max(largest),
            },
            rss,
            // Marks of the whole job are the run's where nobody else was there.
            if is_whole {
                of_job("high_water_bytes", row)
            } else {
                ABSENT
            },
            if is_whole {
                of_job("swap_bytes", row)
            } else {
                ABSENT
            },
            cpu - *cpu_before.get_or_insert(cpu),
            alive,
            if all_measured { alive } else { 0.0 },
        ];
        cut.times.push(window.shift(time));
        for (column, value) in cut.columns.iter_mut().zip(values) {
            column.push(value);
        }
    }
    (!cut.times.is_empty()).then_some(cut)
}

fn cursors<'a>(job: &'a Recording, family: &HashSet<ProcessId>) -> Vec<Cursor<'a>> {
    let mut ended: HashMap<ProcessId, u64> = HashMap::new();
    for timed in &job.events {
        if let Event::ProcessEnded { id, .. } = timed.event {
            ended.insert(id, timed.time_nanos);
        }
    }
    let column = |table: &'a RecordedTable, name: &str| -> &'a [f64] {
        let index = table.spec.column(name);
        let values = index.and_then(|index| table.columns.get(index));
        values.map_or(&[], Vec::as_slice)
    };
    let tables = job.tables.iter().filter_map(|table| {
        let Subject::Process(id) = table.spec.subject else {
            return None;
        };
        family.contains(&id).then(|| Cursor {
            times: &table.times,
            memory: column(table, "memory_bytes"),
            rss: column(table, "rss_bytes"),
            cpu: column(table, "cpu_nanos"),
            ended_nanos: ended.get(&id).copied().unwrap_or(u64::MAX),
            row: None,
        })
    });
    tables.collect()
}

fn events(job: &Recording, family: &HashSet<ProcessId>, window: Window) -> Vec<TimedEvent> {
    let ended_before = |id: &ProcessId| {
        job.events.iter().any(|timed| {
            matches!(&timed.event, Event::ProcessEnded { id: ended, .. } if ended == id)
                && timed.time_nanos < window.from
        })
    };
    let root = job.description.root_pids.first();
    let is_told = |timed: &TimedEvent| match &timed.event {
        Event::ProcessStarted { id, .. } => {
            family.contains(id) && timed.time_nanos <= window.to && !ended_before(id)
        }
        Event::ProcessRenamed { id, .. } => family.contains(id) && window.holds(timed.time_nanos),
        Event::ProcessEnded { id, .. } => family.contains(id) && window.holds(timed.time_nanos),
        // The command's status is the run's where the run is the command.
        Event::CommandEnded { .. } | Event::ResourceUsage(_) => {
            family.iter().any(|id| Some(&id.pid) == root)
        }
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
    let told = job.events.iter().filter(|timed| is_told(timed));
    told.map(|timed| TimedEvent {
        time_nanos: window.shift(timed.time_nanos),
        event: timed.event.clone(),
    })
    .collect()
}

#[cfg(test)]
#[path = "part_of_job_tests.rs"]
mod tests;
