//! One tick: read the sources, write what they say.

use std::collections::HashSet;
use std::os::fd::AsFd;

use nilo_runfile::{RowSink, RunWriter, TableId, monotonic_nanos};
use nilo_sample::rows::TreeRow;
use nilo_sample::table::or_absent;
use nilo_sample::{Event, Limit, ProcessId, TableSpec, TypedRow, is_absent};
use nilo_source::{Change, ProcessTree, TrackedProcess};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::alerts::{AlertThread, AlertWaker};
use crate::glance::ClimbTracker;
use crate::high_water::HighWater;
use crate::interruptions::Interruptions;
use crate::live::LiveReading;
use crate::own_cost::{OwnCost, OwnCostRows};
use crate::pace::Pace;
use crate::privacy::stored_process;
use crate::process_rows::ProcessRows;
use crate::reap::{Reaped, Reaper};
use crate::surroundings::Surroundings;

const SECOND: u64 = 1_000_000_000;
/// The machine's name, and its system with release.
pub fn describe_machine() -> (String, String) {
    let uname = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    (
        text(uname.nodename()),
        format!("{} {}", text(uname.sysname()), text(uname.release())),
    )
}

/// The recorder's state between ticks.
pub(crate) struct Recorder<W = RunWriter> {
    tree: ProcessTree,
    writer: W,
    surroundings: Surroundings,
    rows: ProcessRows,
    marks: HighWater,
    climb: ClimbTracker,
    changes: Vec<Change>,
    blind_said: usize,
    tree_table: TableId,
    own_cost: OwnCostRows,
    interruptions: Interruptions,
    started_nanos: u64,
    last_tick_nanos: u64,
    last_cpu_nanos: u64,
    /// All cores of the machine.
    most_cpu_percent: f64,
    /// Whether processes found on the first tick lived before us.
    attached: bool,
    /// Processes that have had children in the tree: their rusage speaks for those too.
    parents: HashSet<u32>,
    /// The command that we started ourselves.
    command_pid: Option<u32>,
    live: LiveReading,
    /// Whether the tree's memory was ever written down.
    has_level: bool,
    alerts: Option<AlertWaker>,
}

impl<W: RowSink> Recorder<W> {
    pub(crate) fn new(
        tree: ProcessTree,
        mut writer: W,
        surroundings: Surroundings,
        started_nanos: u64,
        attached: bool,
    ) -> Recorder<W> {
        Recorder {
            tree,
            tree_table: writer.define(&TableSpec::tree()),
            own_cost: OwnCostRows::new(&mut writer),
            interruptions: Interruptions::new(),
            writer,
            surroundings,
            rows: ProcessRows::default(),
            marks: HighWater::default(),
            climb: ClimbTracker::default(),
            changes: Vec::new(),
            blind_said: 0,
            started_nanos,
            last_tick_nanos: 0,
            last_cpu_nanos: 0,
            most_cpu_percent: 100.0 * online_cores(),
            attached,
            parents: Default::default(),
            command_pid: None,
            live: LiveReading::default(),
            has_level: false,
            alerts: None,
        }
    }

    /// Tells the alerts when a look cannot wait.
    pub(crate) fn waking(mut self, alerts: Option<&AlertThread>) -> Recorder<W> {
        self.alerts = alerts.map(AlertThread::waker);
        self
    }

    pub(crate) fn costing(mut self, own_cost: OwnCost) -> Recorder<W> {
        self.own_cost.measure_on(own_cost);
        self
    }

    /// The tree is that of a command which we started.
    pub(crate) fn of_command(mut self, pid: u32) -> Recorder<W> {
        self.command_pid = Some(pid);
        self
    }

    /// Watches one more process with all its descendants; one that is gone already is left out.
    pub(crate) fn watch_also(&mut self, pid: u32) {
        self.tree.add_root(pid).ok();
    }

    pub(crate) fn live(&self) -> &LiveReading {
        &self.live
    }

    /// Whether there is anything left to read: a process, or the machine.
    pub(crate) fn has_reading(&self) -> bool {
        self.surroundings.is_of_machine() || !self.processes().is_empty()
    }

    /// Whether there is a sample of the tree's memory, be it of processes that outlived the command.
    pub(crate) fn has_level(&self) -> bool {
        self.has_level
    }

    pub(crate) fn processes(&self) -> &[TrackedProcess] {
        self.tree.processes()
    }

    pub(crate) fn surroundings(&mut self) -> &mut Surroundings {
        &mut self.surroundings
    }

    pub(crate) fn writer(&mut self) -> &mut W {
        &mut self.writer
    }

    pub(crate) fn limit(&self) -> Option<&Limit> {
        self.surroundings.limit()
    }

    pub(crate) fn event(&mut self, event: &Event) {
        self.writer.event(monotonic_nanos(), event);
    }

    /// Sleeps until the time is over or something comes to `wake` (a signal, the word to stop), and says whether it came.
    /// An OOM notice is written down at once and ends the sleep too; so does a look at a tree that is climbing.
    pub(crate) fn sleep(&mut self, nanos: u64, wake: &impl AsFd) -> bool {
        let glance = self.climb.wait_nanos(self.tree.processes().len());
        let glance = glance.filter(|glance| *glance < nanos);
        let nanos = glance.unwrap_or(nanos).min(3600 * SECOND);
        let timeout = Timespec {
            tv_sec: (nanos / SECOND) as i64,
            tv_nsec: (nanos % SECOND) as i64,
        };
        let mut fds = vec![PollFd::from_borrowed_fd(wake.as_fd(), PollFlags::IN)];
        let notices = self.surroundings.notices();
        fds.extend(notices.map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)));
        // An interrupted poll has a signal behind it.
        let ready = poll(&mut fds, Some(&timeout));
        let signalled = ready.is_err() || !fds[0].revents().is_empty();
        let noticed = ready.is_ok() && fds[1..].iter().any(|fd| !fd.revents().is_empty());
        if noticed {
            drop(fds);
            let now_nanos = monotonic_nanos();
            self.surroundings
                .on_notice(&mut self.writer, now_nanos, self.tree.processes());
            self.wake_alerts(now_nanos);
        } else if glance.is_some() && !signalled {
            let now_nanos = monotonic_nanos();
            let memory_bytes = self.tree.glance(now_nanos);
            self.climb.glance(now_nanos, memory_bytes);
        }
        signalled
    }

    /// Reads everything once. `last` reads even what is not due.
    pub(crate) fn tick(&mut self, now_nanos: u64, pace: &Pace, reaper: &mut Reaper, last: bool) {
        self.interruptions
            .tick(&mut self.writer, self.last_tick_nanos, now_nanos, pace);
        if last {
            self.tree.be_thorough();
        }
        self.tree.tick(now_nanos);
        self.write_changes(now_nanos, reaper);
        let processes = self.tree.processes();
        let memory_bytes = self.tree.memory_bytes();
        let between = self.climb.tick(memory_bytes);
        let mark = self.marks.rise(processes, memory_bytes);
        let highest = self.live.peak_bytes.max(memory_bytes);
        let of_ended = self.marks.distinct_of_ended(reaper.largest_rss_bytes());
        let of_ended = Some(of_ended).filter(|bytes| *bytes > highest);
        let between_bytes = between.map(|(_, bytes)| bytes);
        let high_water = mark.max(between_bytes).max(of_ended);
        let cpu_nanos = self.tree.cpu_nanos_total();
        let sum = |part: fn(&TrackedProcess) -> u64| processes.iter().map(part).sum::<u64>() as f64;
        let row = TreeRow {
            memory_bytes: memory_bytes as f64,
            rss_bytes: sum(|process| process.reading.rss_bytes),
            high_water_bytes: or_absent(high_water),
            swap_bytes: sum(|process| process.detail.swap_bytes.unwrap_or(0)),
            cpu_nanos: cpu_nanos as f64,
            processes: processes.len() as f64,
            pss_processes: sum(|process| u64::from(process.detail.pss_bytes.is_some())),
        };
        // A tree without processes has no level; zeros would pull every mean down.
        if !processes.is_empty() {
            self.write_tree(now_nanos, row);
            self.look_on(now_nanos, memory_bytes, high_water, cpu_nanos);
        } else if let Some((time_nanos, bytes)) = between {
            // The job has ended since: what was seen of it between two ticks is its last sample.
            let row = TreeRow {
                memory_bytes: bytes as f64,
                ..TreeRow::ABSENT
            };
            self.write_tree(time_nanos, row);
            self.live.peak_bytes = self.live.peak_bytes.max(bytes);
        }
        self.rows
            .write(&mut self.writer, now_nanos, self.tree.processes());
        self.surroundings
            .tick(&mut self.writer, now_nanos, self.tree.processes(), last);
        self.live.limit_bytes = self.surroundings.limit().map(|limit| limit.bytes);
        self.live.ticks += 1;
        self.live.host_readings = self.surroundings.host_readings();
        self.live.gpu_readings.clear();
        let gpu_readings = self.surroundings.gpu_readings();
        self.live.gpu_readings.extend(gpu_readings);
        self.wake_alerts(now_nanos);
        if self.surroundings.is_of_machine() {
            self.live.time_nanos = now_nanos.saturating_sub(self.started_nanos);
        }
        let helper_cpu_nanos = self.surroundings.helper_cpu_nanos();
        self.own_cost
            .tick(&mut self.writer, now_nanos, pace, helper_cpu_nanos, last);
        self.last_tick_nanos = now_nanos;
    }

    /// The job has ended; what is still to be recorded tells nothing of its future.
    pub(crate) fn job_ended(&self) {
        if let Some(alerts) = &self.alerts {
            alerts.job_ended();
        }
    }

    fn wake_alerts(&mut self, now_nanos: u64) {
        if let Some(alerts) = &mut self.alerts {
            let level_bytes = match self.surroundings.limit() {
                Some(limit) if !limit.is_of_memory() => {
                    let processes = self.tree.processes().iter();
                    let addresses = processes.map(|process| process.reading.virtual_bytes);
                    addresses.filter(|bytes| *bytes <= limit.bytes).max()
                }
                _ => self
                    .surroundings
                    .held_of_limit_bytes()
                    .max(Some(self.live.memory_bytes)),
            };
            let level_bytes = level_bytes.unwrap_or(0);
            alerts.see(now_nanos, level_bytes, self.live.limit_bytes);
        }
    }

    fn look_on(
        &mut self,
        now_nanos: u64,
        memory_bytes: u64,
        high_water: Option<u64>,
        cpu_nanos: u64,
    ) {
        let since = now_nanos.saturating_sub(self.last_tick_nanos);
        let spent = cpu_nanos.saturating_sub(self.last_cpu_nanos);
        let measured = self.last_tick_nanos > 0 && since > 0;
        self.live.cpu_percent = if measured {
            // A tick that was held up between its time and its reading would claim more than the machine has.
            (100.0 * spent as f64 / since as f64).min(self.most_cpu_percent)
        } else {
            0.0
        };
        self.last_cpu_nanos = cpu_nanos;
        self.live.time_nanos = now_nanos.saturating_sub(self.started_nanos);
        self.live.memory_bytes = memory_bytes;
        let highest = memory_bytes.max(high_water.unwrap_or(0));
        self.live.peak_bytes = self.live.peak_bytes.max(highest);
        self.live.processes = self.tree.processes().len();
    }

    fn write_changes(&mut self, now_nanos: u64, reaper: &mut Reaper) {
        let mut changes = std::mem::take(&mut self.changes);
        self.tree.take_changes(&mut changes);
        for change in changes.drain(..) {
            match change {
                Change::Started(id) => self.on_started(now_nanos, id),
                Change::Renamed(id) => {
                    self.surroundings.has_exec(id);
                    if let Some(process) = find(self.tree.processes(), id) {
                        let info = stored_process(&process.info);
                        self.writer
                            .event(now_nanos, &Event::ProcessRenamed { id, info });
                    }
                }
                Change::Ended {
                    id, peak_rss_bytes, ..
                } => {
                    let reaped = self.reaped(reaper, id.pid);
                    self.write_end(now_nanos, id, peak_rss_bytes, reaped);
                }
            }
        }
        self.changes = changes;
        for text in self.tree.blind_spots().iter().skip(self.blind_said) {
            self.writer
                .event(now_nanos, &Event::Blind { text: text.clone() });
        }
        self.blind_said = self.tree.blind_spots().len();
    }

    fn on_started(&mut self, now_nanos: u64, id: ProcessId) {
        let processes = self.tree.processes();
        let Some(process) = find(processes, id) else {
            return;
        };
        let attached = self.attached && self.last_tick_nanos == 0;
        self.marks.join(process, attached);
        self.parents.insert(process.info.parent);
        let info = stored_process(&process.info);
        self.writer
            .event(now_nanos, &Event::ProcessStarted { id, info });
    }

    /// How a process ended, where it is ours to know.
    ///
    /// The tree may show the end before the signal of it was handled; the loop still asks for the command's later.
    fn reaped(&self, reaper: &mut Reaper, pid: u32) -> Option<Reaped> {
        if self.command_pid != Some(pid) {
            return reaper.take(pid);
        }
        reaper.get(pid).or_else(|| {
            reaper.collect();
            reaper.get(pid)
        })
    }

    fn write_end(
        &mut self,
        now_nanos: u64,
        id: ProcessId,
        mark: Option<u64>,
        reaped: Option<Reaped>,
    ) {
        self.marks.leave(id);
        self.rows.forget(&mut self.writer, id);
        // rusage covers the children that a process waited for, so it is this process's own only if it had none.
        // Of orphans it may be that of the program which forked them: the kernel hands the mark on across `exec`.
        let own = reaped
            .filter(|_| self.command_pid == Some(id.pid) && !self.parents.contains(&id.pid))
            .map(|reaped| reaped.max_rss_bytes);
        self.writer.event(
            now_nanos,
            &Event::ProcessEnded {
                id,
                peak_rss_bytes: mark.max(own),
                exit_code: reaped.and_then(|reaped| reaped.exit_code),
                signal: reaped.and_then(|reaped| reaped.signal),
            },
        );
        self.parents.remove(&id.pid);
    }

    /// The kernel's last word: the largest resident set of the command, of what it waited for, or of an orphan.
    ///
    /// It begins with the memory of the forked copy of ourselves that became the command, some two megabytes.
    pub(crate) fn final_mark(&mut self, now_nanos: u64, max_rss_bytes: u64) {
        let bytes = self.marks.distinct_of_ended(max_rss_bytes);
        if bytes <= self.live.peak_bytes {
            return;
        }
        self.live.peak_bytes = bytes;
        let row = TreeRow {
            high_water_bytes: bytes as f64,
            ..TreeRow::ABSENT
        };
        self.write_tree(now_nanos, row);
    }

    fn write_tree(&mut self, time_nanos: u64, row: TreeRow) {
        self.has_level |= !is_absent(row.memory_bytes);
        self.writer
            .append(self.tree_table, time_nanos, None, &row.values());
    }
}

impl Recorder {
    /// Writes how the recording ended: the last event.
    pub(crate) fn end(&mut self, command: Option<Reaped>) {
        let usage = command.map(|ended| ended.usage);
        if let Some(usage) = usage {
            self.event(&Event::ResourceUsage(usage));
        }
        let cpu_nanos = usage.map(|usage| usage.cpu_nanos());
        let event = Event::CommandEnded {
            cpu_nanos: cpu_nanos.filter(|nanos| *nanos > 0),
            exit_code: command.and_then(|ended| ended.exit_code),
            signal: command.and_then(|ended| ended.signal),
            peak_bytes: Some(self.live.peak_bytes).filter(|bytes| *bytes > 0),
        };
        self.writer.last_event(monotonic_nanos(), &event);
    }

    pub(crate) fn dropped(&self) -> (u64, Option<&str>) {
        (self.writer.dropped(), self.writer.dropped_reason())
    }

    /// Ends the file.
    pub(crate) fn close(self) {
        self.writer.close();
    }
}

fn find(processes: &[TrackedProcess], id: ProcessId) -> Option<&TrackedProcess> {
    processes.iter().find(|process| process.id == id)
}

fn online_cores() -> f64 {
    // SAFETY: a plain query.
    let cores = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    match cores {
        1.. => cores as f64,
        _ => f64::INFINITY,
    }
}

#[cfg(test)]
#[path = "recorder_tests.rs"]
mod tests;
