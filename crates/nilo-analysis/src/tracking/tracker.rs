//! A forecaster for each resource, fed in the order of time.

use std::collections::BTreeMap;

use nilo_forecast::Reading;
use nilo_sample::units::{MIB, NANOS_PER_SEC};
use nilo_sample::{
    Ending, Event, Limit, LimitCounts, RecordedTable, Recording, RunDescription, Subject,
    TimedEvent,
};

use super::before_endings::BeforeEndings;
use super::peers::Peers;
use super::prior_runtime::PriorRuntime;
use super::resources::{LatestReadings, Resource, RowValues};
use super::rows::{RowOrEvent, in_order};
use super::tear_down::ending_began;
use super::tracked_resource::{RiskChange, TrackedResource};
use crate::assessment::RanOut;

/// A level that stands still counts as read this often.
const REPEAT_NANOS: u64 = NANOS_PER_SEC;
/// A process that lived for this long is part of what the job is.
const LONG_LIVED_NANOS: u64 = 10 * NANOS_PER_SEC;
/// Growth that is remembered in case somebody asks for less than is usually told.
const LEAST_REMEMBERED_BYTES: f64 = 10.0 * MIB as f64;

/// Watches over a run.
#[derive(Debug, Clone, Default)]
pub struct ResourceTracker {
    pub(super) latest: LatestReadings,
    pub(super) watched: BTreeMap<Resource, TrackedResource>,
    pub(super) peers: Peers,
    pub(super) before_endings: Option<BeforeEndings>,
    pub(super) ran_out: Option<RanOut>,
    pub(super) next_repeat_nanos: u64,
    /// A program loads for up to this long; `None`: as usual.
    pub(super) loading_secs: Option<f64>,
    pub(super) prior_runtime: PriorRuntime,
}

impl ResourceTracker {
    /// Watches over the run with this description.
    pub fn new(description: &RunDescription) -> ResourceTracker {
        ResourceTracker {
            latest: LatestReadings::new(description),
            prior_runtime: PriorRuntime::new(description),
            ..ResourceTracker::default()
        }
    }

    /// Watches over a process tree that no run describes.
    pub fn of_process(pid: u32, limit: Option<&nilo_sample::Limit>) -> ResourceTracker {
        ResourceTracker {
            latest: LatestReadings::of_process(pid, limit),
            ..ResourceTracker::default()
        }
    }

    /// Watches over the columns of a file; `limit_bytes` is the limit that was given for them by hand.
    pub fn of_file(limit_bytes: Option<u64>) -> ResourceTracker {
        let mut tracker = ResourceTracker::default();
        tracker.latest.given_limit_bytes = limit_bytes.map(|bytes| bytes as f64);
        tracker
    }

    /// A tracker that begins here: it knows the limits and the processes, and nothing of what was before.
    pub fn restarted(&self) -> ResourceTracker {
        ResourceTracker {
            latest: self.latest.clone(),
            peers: self.peers.restarted(),
            loading_secs: self.loading_secs,
            prior_runtime: self.prior_runtime.clone(),
            ..ResourceTracker::default()
        }
    }

    /// The same tracker with the job held against what the program allows itself, where that is smaller than the limit in force, and against nothing else.
    pub fn against_budget(&self, budget_bytes: u64) -> ResourceTracker {
        let mut tracker = self.clone();
        tracker.latest.budget_bytes = Some(budget_bytes as f64);
        if tracker.latest.limiting_path().is_some() {
            // So far these were levels of the cgroup, not of the process tree.
            tracker.watched.remove(&Resource::Job);
        }
        tracker
    }

    /// Growth may be loading for up to this long, unless the program makes steps.
    pub fn set_loading_secs(&mut self, secs: f64) {
        self.loading_secs = Some(secs);
    }

    /// Everything that a finished or interrupted run can tell: the changes of risk on the way, and the tracker at its end;
    /// where its ending was seen, up to the moment in which it began.
    pub fn over(
        recording: &Recording,
        ending: Option<&Ending>,
    ) -> (ResourceTracker, Vec<RiskChange>) {
        ResourceTracker::over_with_limit(recording, ending, None)
    }

    /// The same, with the job's memory held against a limit that was given by hand instead of the one it had.
    pub fn over_with_limit(
        recording: &Recording,
        ending: Option<&Ending>,
        job_limit_bytes: Option<u64>,
    ) -> (ResourceTracker, Vec<RiskChange>) {
        let mut tracker = ResourceTracker::new(&recording.description);
        tracker.latest.given_limit_bytes = job_limit_bytes.map(|bytes| bytes as f64);
        let end_nanos = ending.and_then(|ending| ending_began(recording, ending));
        let end_nanos = end_nanos.unwrap_or(u64::MAX);
        let changes = tracker.take_until(end_nanos, &recording.tables, &recording.events);
        (tracker, changes)
    }

    /// Takes in what was written since the last call, and says which risks changed.
    pub fn take(&mut self, tables: &[RecordedTable], events: &[TimedEvent]) -> Vec<RiskChange> {
        self.take_until(u64::MAX, tables, events)
    }

    fn take_until(
        &mut self,
        end_nanos: u64,
        tables: &[RecordedTable],
        events: &[TimedEvent],
    ) -> Vec<RiskChange> {
        let mut changes = Vec::new();
        let counts_data = self.counts_data(events);
        let wanted = |table: &RecordedTable| match table.spec.subject {
            Subject::ProcessDetail(_) => counts_data,
            Subject::Recorder | Subject::Unknown => false,
            _ => true,
        };
        in_order(tables, events, wanted, |time_nanos, entry| match entry {
            RowOrEvent::Row(..) if time_nanos >= end_nanos => {}
            RowOrEvent::Row(table, row) => {
                if let Subject::Process(id) = table.spec.subject
                    && let Some(rss_bytes) = RowValues(table, row).get("rss_bytes")
                {
                    self.peers.take(id, time_nanos, rss_bytes);
                    self.latest.has_workers = self.peers.had_workers();
                }
                if let Subject::Gpu { index } = table.spec.subject
                    && RowValues(table, row).get("used_bytes").is_none()
                {
                    self.fall_silent(&Resource::Gpu { index });
                }
                let watched = &mut self.watched;
                let put = |resource: Resource, reading: Reading| {
                    let entry = watched.entry(resource.clone()).or_default();
                    changes.extend(entry.put(resource, reading));
                };
                let level = self.latest.take(time_nanos, &RowValues(table, row), put);
                if let (Some(level), Some(job)) = (level, self.watched.get_mut(&Resource::Job)) {
                    job.see_level(level);
                }
                if time_nanos >= self.next_repeat_nanos {
                    self.next_repeat_nanos = time_nanos + REPEAT_NANOS;
                    self.repeat_standing(time_nanos, &mut changes);
                }
            }
            RowOrEvent::Event(timed) => self.happened(&timed.event),
        });
        changes
    }

    /// Whether the limit in force, or one that comes into force, is of what only the details of processes tell.
    fn counts_data(&self, events: &[TimedEvent]) -> bool {
        let is_of_data = |limit: &Option<Limit>| {
            let counts = limit.as_ref().map(|limit| limit.source.counts());
            counts == Some(LimitCounts::DataSize)
        };
        let changes = |timed: &TimedEvent| match &timed.event {
            Event::LimitChanged { limit } => is_of_data(limit),
            _ => false,
        };
        is_of_data(&self.latest.limit) || events.iter().any(changes)
    }

    /// Takes in a reading that comes from no run's table, and says whether the risk changed.
    pub fn observe(&mut self, resource: Resource, reading: Reading) -> Option<RiskChange> {
        let watched = self.watched.entry(resource.clone()).or_default();
        watched.put(resource, reading)
    }

    /// Takes in once more what has not changed: a forecast has to see that a level stands still, and for how long.
    ///
    /// Called when a row comes, never in between: where nothing is written at all, nobody knows.
    fn repeat_standing(&mut self, now_nanos: u64, changes: &mut Vec<RiskChange>) {
        for (resource, watched) in &mut self.watched {
            let silent_nanos = now_nanos.saturating_sub(watched.reading.time_nanos);
            if watched.is_standing && silent_nanos >= REPEAT_NANOS {
                let reading = Reading {
                    time_nanos: now_nanos,
                    ..watched.reading
                };
                changes.extend(watched.put(resource.clone(), reading));
            }
        }
    }

    fn fall_silent(&mut self, resource: &Resource) {
        if let Some(watched) = self.watched.get_mut(resource) {
            watched.is_standing = false;
        }
    }

    fn happened(&mut self, event: &Event) {
        if let Event::ProcessEnded { id, .. } = event
            && self.peers.age_nanos(*id) >= LONG_LIVED_NANOS
        {
            self.remember_growth();
        }
        self.peers.happened(event);
        match event {
            Event::ProcessStarted { id, .. } => self.prior_runtime.see(*id),
            Event::ProcessEnded { id, .. } => self.latest.forget_process(*id),
            Event::LimitChanged { limit } => {
                self.latest.limit.clone_from(limit);
                // From here on the job is what is held against it.
                if let Some(path) = self.latest.limiting_path() {
                    let path = path.to_owned();
                    self.watched.remove(&Resource::Cgroup { path });
                }
                let counts = limit.as_ref().map(|limit| limit.source.counts());
                let in_force = counts.and_then(Resource::of_own_limit);
                self.watched.retain(|resource, _| {
                    !resource.is_of_addresses() || Some(resource) == in_force.as_ref()
                });
            }
            Event::GpuFound {
                index,
                reserved_bytes,
                ..
            } => self.latest.add_gpu(*index, reserved_bytes.unwrap_or(0)),
            Event::Mark { text } if text.to_lowercase().contains("epoch") => {
                for watched in self.watched.values_mut() {
                    watched.forecaster.boundary();
                }
            }
            _ => {}
        }
    }

    fn remember_growth(&mut self) {
        let Some(job) = self.watched.get(&Resource::Job) else {
            return;
        };
        let growth = || {
            let least = job.least_growth_bytes().min(LEAST_REMEMBERED_BYTES);
            job.forecaster.growth(least)
        };
        BeforeEndings::remember(&mut self.before_endings, job.reading.time_nanos, growth);
    }

    /// The run ended because memory ran out: from here on verdicts tell growth as what led to it.
    pub(crate) fn end_with(&mut self, ran_out: &RanOut) {
        self.ran_out = Some(ran_out.clone());
    }

    /// The limit in force.
    pub fn limit(&self) -> Option<&nilo_sample::Limit> {
        self.latest.limit.as_ref()
    }
}
