//! A forecaster for each resource, fed in the order of time.

use std::collections::BTreeMap;

use nilo_forecast::words;
use nilo_sample::units::{MIB, NANOS_PER_SEC, to_secs};
use nilo_sample::words::rate_in_words;
use nilo_sample::{Ending, Event, RecordedTable, Recording, RunDescription, Subject, TimedEvent};
use serde::Serialize;

use super::peers::{GrowingPeer, Peers};
use super::resources::{LatestReadings, Resource, RowValues};
use super::rows::{RowOrEvent, in_order};
use super::tear_down::ending_began;
use crate::assessment::RanOut;
use nilo_forecast::{
    Cause, Forecast, Forecaster, Growth, GrowthKind, LEAST_GROWTH_SHARE, Reading, RiskLevel,
    leak_ahead,
};

/// Watches over a run.
#[derive(Debug, Clone, Default)]
pub struct ResourceTracker {
    latest: LatestReadings,
    watched: BTreeMap<Resource, TrackedResource>,
    peers: Peers,
    before_endings: Option<BeforeEndings>,
    ran_out: Option<RanOut>,
    next_repeat_nanos: u64,
    /// A program loads for up to this long; `None`: as usual.
    loading_secs: Option<f64>,
}

/// How the job grew when a process of it that had lived for some time ended: a job that ends process by process gives its memory back on the way.
#[derive(Debug, Clone, Copy)]
struct BeforeEndings {
    time_nanos: u64,
    /// When the last of them ended, so far.
    last_nanos: u64,
    growth: Option<Growth>,
}

impl BeforeEndings {
    /// Whether the job is ending at this time.
    fn is_now(&self, now_nanos: u64) -> bool {
        let since = |nanos: u64| now_nanos.saturating_sub(nanos);
        since(self.time_nanos) <= ENDING_NANOS && since(self.last_nanos) <= LEFT_OVER_NANOS
    }
}

#[derive(Debug, Clone, Default)]
struct TrackedResource {
    forecaster: Forecaster,
    reading: Reading,
    /// The fullest reading since the last look at the risks.
    fullest: Option<Reading>,
    level: RiskLevel,
    readings: u64,
    first_nanos: u64,
    /// Only changes are written of it, so no row means that it stays as it was.
    is_standing: bool,
}

/// A resource's risk became another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RiskChange {
    /// When, in nanoseconds since the run began.
    pub time_nanos: u64,
    /// Of what.
    pub resource: Resource,
    /// What it was before.
    pub before: RiskLevel,
    /// The forecast that changed it.
    pub forecast: Forecast,
    /// The reading that it rests on.
    #[serde(skip)]
    pub reading: Reading,
}

/// What is to be said of a resource.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResourceVerdict {
    /// Of what.
    pub resource: Resource,
    /// Where it goes.
    pub forecast: Forecast,
    /// Whether what is held grows without end.
    pub growth: Option<Growth>,
    /// In a cgroup that others are in too: the job's share of the growth that the forecast rests on.
    #[serde(skip)]
    pub job_share: Option<f64>,
    /// Processes of the job that grow while others of their kind stand still.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub odd_peers: Vec<GrowingPeer>,
    /// Whether it was watched for too short a time to call any growth a leak.
    pub too_young: bool,
    /// Whether it was watched for too short a time to forecast where it goes.
    #[serde(skip)]
    pub too_young_to_forecast: bool,
    /// Whether the program may still be loading what it works with.
    pub may_be_loading: bool,
    /// Whether its growth ended in running out of memory.
    pub led_to_end: bool,
    /// How many readings this rests on.
    pub readings: u64,
    /// From the first of them to the newest.
    pub watched_secs: f64,
    /// The time that judgements rest on: from the second reading on, gaps cut out.
    #[serde(skip)]
    pub judged_secs: f64,
    /// The newest reading.
    #[serde(skip)]
    pub reading: Reading,
}

/// A level that stands still counts as read this often.
const REPEAT_NANOS: u64 = NANOS_PER_SEC;
/// The longest time, to a tenth of a second, that is less than the ten seconds without which there is no verdict.
const JUST_TOO_SHORT_SECS: f64 = 9.9;
/// A process that lived for this long is part of what the job is.
const LONG_LIVED_NANOS: u64 = 10 * NANOS_PER_SEC;
/// A job ends, process by process, within this time.
const ENDING_NANOS: u64 = 5 * NANOS_PER_SEC;
/// A job is over so soon after the last of its processes that had lived for some time: a launcher notices their end, a script copies a file.
/// What goes on for longer is a job that has got the memory back.
const LEFT_OVER_NANOS: u64 = 2 * NANOS_PER_SEC;
/// Growth that is remembered in case somebody asks for less than is usually told.
const LEAST_REMEMBERED_BYTES: f64 = 10.0 * MIB as f64;
/// A job that did less than this share of a growth does not grow.
const NO_PART: f64 = 0.05;
/// Growth below this share of the level is not worth a word where no limit is known.
const LEAST_GROWTH_OF_LEVEL: f64 = 0.05;

impl ResourceTracker {
    /// Watches over the run with this description.
    pub fn new(description: &RunDescription) -> ResourceTracker {
        ResourceTracker {
            latest: LatestReadings::new(description),
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

    /// A tracker that begins here: it knows the limits and the processes, and nothing of what was before.
    pub fn restarted(&self) -> ResourceTracker {
        ResourceTracker {
            latest: self.latest.clone(),
            peers: self.peers.restarted(),
            loading_secs: self.loading_secs,
            ..ResourceTracker::default()
        }
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
        let mut tracker = ResourceTracker::new(&recording.description);
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
        let wanted = |table: &RecordedTable| {
            !matches!(
                table.spec.subject,
                Subject::ProcessDetail(_) | Subject::Recorder | Subject::Unknown
            )
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
            Event::LimitChanged { limit } => {
                self.latest.limit.clone_from(limit);
                // From here on the job is what is held against it.
                if let Some(path) = self.latest.limiting_path() {
                    let path = path.to_owned();
                    self.watched.remove(&Resource::Cgroup { path });
                }
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

    /// The first ending of a series is the one before which the job was whole.
    fn remember_growth(&mut self) {
        let Some(job) = self.watched.get(&Resource::Job) else {
            return;
        };
        let now = job.reading.time_nanos;
        match &mut self.before_endings {
            Some(before) if now.saturating_sub(before.time_nanos) <= ENDING_NANOS => {
                before.last_nanos = now;
            }
            other => {
                let least = job.least_growth_bytes().min(LEAST_REMEMBERED_BYTES);
                *other = Some(BeforeEndings {
                    time_nanos: now,
                    last_nanos: now,
                    growth: job.forecaster.growth(least),
                });
            }
        }
    }

    /// The run ended because memory ran out: from here on verdicts tell growth as what led to it.
    pub(crate) fn end_with(&mut self, ran_out: &RanOut) {
        self.ran_out = Some(ran_out.clone());
    }

    /// What is to be said of every resource, the most dangerous first. `least_growth_bytes` replaces the usual threshold for growth.
    pub fn verdicts(&self, least_growth_bytes: Option<f64>) -> Vec<ResourceVerdict> {
        let mut verdicts: Vec<ResourceVerdict> = self
            .watched
            .iter()
            .map(|(resource, watched)| self.verdict(resource, watched, least_growth_bytes))
            .collect();
        tell_once(&mut verdicts);
        agree_on_leaks(&mut verdicts);
        verdicts.sort_by_key(|verdict| std::cmp::Reverse(verdict.forecast.level));
        verdicts
    }

    /// Where every resource goes, with its fullest reading since the last call. Growth costs more to tell: it is looked for where a risk is said to come of it,
    /// so that whoever is warned hears the same word for it as from [`ResourceTracker::verdicts`].
    ///
    /// Newest readings are placed at the run's newest time: a level of which nothing more was written has stayed as it was.
    pub fn risks(&mut self) -> Vec<ResourceVerdict> {
        let times = self.watched.values().map(|it| it.reading.time_nanos);
        let now_nanos = times.max().unwrap_or(0);
        let fullest = self.watched.values_mut();
        let fullest: Vec<Reading> = fullest.map(|it| it.take_fullest(now_nanos)).collect();
        let looked_at = self.watched.iter().zip(fullest);
        let mut risks: Vec<ResourceVerdict> = looked_at
            .map(
                |((resource, watched), reading)| match self.is_growth_a_risk(resource) {
                    true => ResourceVerdict {
                        reading,
                        ..self.verdict(resource, watched, None)
                    },
                    false => watched.verdict_of(resource, reading, None),
                },
            )
            .collect();
        tell_once(&mut risks);
        agree_on_leaks(&mut risks);
        risks
    }

    /// Whether a risk is said to come of growth: of the resource's own, or of the machine's where a job without a limit leaks into it.
    fn is_growth_a_risk(&self, resource: &Resource) -> bool {
        let of_growth = |watched: &TrackedResource| {
            let forecast = watched.forecaster.forecast();
            forecast.level > RiskLevel::Low && forecast.cause == Some(Cause::Growth)
        };
        let is_risk = |resource: &Resource| self.watched.get(resource).is_some_and(of_growth);
        is_risk(resource) || *resource == Resource::Job && is_risk(&Resource::Host)
    }

    fn verdict(
        &self,
        resource: &Resource,
        watched: &TrackedResource,
        least: Option<f64>,
    ) -> ResourceVerdict {
        let mut verdict = watched.verdict(resource, least);
        if let Some(secs) = self.loading_secs {
            verdict.may_be_loading = watched.forecaster.may_be_loading_for(secs);
        }
        if !self.latest.of_machine && verdict.is_growth_of_nobody() {
            verdict.growth = None;
        }
        if *resource == Resource::Job {
            let now = verdict.reading.time_nanos;
            let ending = self.before_endings.filter(|before| before.is_now(now));
            verdict.look_before_the_end(ending, least);
            verdict.compare_peers(self.peers.odd(least, ending.is_some()));
        }
        let mut ran_out = self.ran_out.iter();
        verdict.led_to_end = ran_out.any(|ran_out| ran_out.is_led_to_by(resource));
        verdict
    }

    /// The limit in force.
    pub fn limit(&self) -> Option<&nilo_sample::Limit> {
        self.latest.limit.as_ref()
    }
}

/// What the job writes to `/dev/shm` is its own growth, where its memory counts such files.
fn tell_once(verdicts: &mut [ResourceVerdict]) {
    let is_of_job = |verdict: &ResourceVerdict| {
        let growth = verdict.growth.filter(|growth| growth.is_in_tmpfs);
        verdict.resource == Resource::Job && growth.is_some()
    };
    if verdicts.iter().any(is_of_job) {
        let mut each = verdicts.iter_mut();
        if let Some(shared) = each.find(|verdict| verdict.resource == Resource::SharedMemory) {
            shared.growth = None;
        }
    }
}

/// Whoever is told of a leak is told where it leads. A job without a limit of its own leaks into the machine's memory.
fn agree_on_leaks(verdicts: &mut [ResourceVerdict]) {
    let is_unlimited_job = |verdict: &&ResourceVerdict| {
        verdict.resource == Resource::Job && verdict.reading.limit().is_none()
    };
    let of_job = verdicts.iter().find(is_unlimited_job);
    let of_job = of_job.and_then(|job| job.growth);
    for verdict in verdicts {
        let growth = match verdict.resource {
            Resource::Host => verdict.growth.or(of_job),
            _ => verdict.growth,
        };
        verdict.forecast = leak_ahead(&verdict.forecast, growth.as_ref(), &verdict.reading);
    }
}

impl ResourceVerdict {
    /// Of something that no reading is there of.
    pub fn unmeasured(resource: Resource) -> ResourceVerdict {
        let nothing = TrackedResource::default();
        nothing.verdict_of(&resource, Reading::default(), None)
    }

    /// Whether it is not known who makes it grow: everybody on a machine writes to `/dev/shm`.
    pub(crate) fn is_growth_of_nobody(&self) -> bool {
        self.resource == Resource::SharedMemory && self.reading.own_bytes.is_none()
    }

    /// Whether it is said to fill, and not known by whom.
    pub(crate) fn is_filler_unknown(&self) -> bool {
        let cause = self.forecast.cause;
        let is_filling = cause.is_some_and(|cause| cause != Cause::AboveLimit);
        is_filling && self.is_growth_of_nobody()
    }

    /// Why its forecast says what it says; in a cgroup that others are in too with the job's part of it.
    pub(crate) fn reason_in_words(&self) -> String {
        // A resource that was read a moment ago has a limit and no forecast yet.
        let used_share = self.reading.used_share();
        let forecast = &Forecast {
            used_share: used_share.or(self.forecast.used_share),
            ..self.forecast
        };
        let grower = self.resource.grower(forecast, &self.reading);
        let share = self.job_share.zip(forecast.bytes_per_sec);
        let Some((share, rate)) = share.filter(|_| forecast.cause != Some(Cause::Leak)) else {
            return words::reason(forecast, &grower);
        };
        let told = match forecast.cause {
            // Who it is follows here.
            Some(Cause::Neighbour) => Forecast {
                cause: Some(Cause::Growth),
                ..*forecast
            },
            _ => *forecast,
        };
        let told = words::reason(&told, &grower);
        let own_rate = share * rate;
        match share < NO_PART {
            true => format!("{told}, this job does not"),
            false => format!(
                "{told}, this job by {}",
                rate_in_words(own_rate, own_rate, own_rate)
            ),
        }
    }

    /// Whether what grows are files in `/dev/shm` or another tmpfs.
    pub(crate) fn grows_in_tmpfs(&self) -> bool {
        let growth = self.growth.as_ref();
        self.resource == Resource::SharedMemory || growth.is_some_and(|growth| growth.is_in_tmpfs)
    }

    /// A job whose processes are ending is judged as it was before.
    fn look_before_the_end(&mut self, before: Option<BeforeEndings>, least_bytes: Option<f64>) {
        let Some(before) = before else { return };
        let kind = |growth: &Option<Growth>| growth.map(|growth| growth.kind);
        let large = |growth: &Growth| least_bytes.is_none_or(|least| growth.grown_bytes >= least);
        if kind(&before.growth) > kind(&self.growth) {
            self.growth = before.growth.filter(large);
        }
    }

    /// How long it was watched, as it is told: never as long as would be enough where it was too short.
    pub fn told_secs(&self) -> f64 {
        match self.too_young && self.watched_secs > self.judged_secs {
            // Ten seconds, or what is written as ten, would be enough.
            true if self.watched_secs >= JUST_TOO_SHORT_SECS => {
                self.judged_secs.min(JUST_TOO_SHORT_SECS)
            }
            _ => self.watched_secs,
        }
    }

    /// Whether its growth may be the loading of what the program works with. That is said with the verdict, and nobody is alerted of it.
    pub fn growth_may_be_loading(&self) -> bool {
        let may_end = self.may_be_loading && !self.led_to_end;
        may_end && self.growth.is_some() && self.odd_peers.is_empty()
    }

    /// One process that grows among peers that do not is a leak, even where the sum of all does not show it yet.
    fn compare_peers(&mut self, odd_peers: Vec<GrowingPeer>) {
        let Some(fastest) = odd_peers.first() else {
            return;
        };
        let theirs = |sum: fn(&GrowingPeer) -> f64| odd_peers.iter().map(sum).sum::<f64>();
        let grown_bytes = theirs(|odd| odd.grown_bytes);
        match &mut self.growth {
            Some(growth) if grown_bytes >= 0.5 * growth.grown_bytes => {
                growth.kind = GrowthKind::Leak;
            }
            Some(_) => {}
            None => {
                self.growth = Some(Growth {
                    kind: GrowthKind::Leak,
                    bytes_per_sec: theirs(|odd| odd.bytes_per_sec),
                    bytes_per_sec_low: theirs(|odd| odd.bytes_per_sec_low),
                    bytes_per_sec_high: theirs(|odd| odd.bytes_per_sec_high),
                    grown_bytes,
                    lasted_secs: fastest.compared_secs,
                    paused_secs: 0.0,
                    is_in_tmpfs: false,
                    level_bytes: None,
                });
            }
        }
        self.odd_peers = odd_peers;
    }
}

impl TrackedResource {
    fn put(&mut self, resource: Resource, reading: Reading) -> Option<RiskChange> {
        self.forecaster.observe(&reading);
        if self.readings == 0 {
            self.first_nanos = reading.time_nanos;
        }
        self.readings += 1;
        self.reading = reading;
        self.is_standing = resource.is_written_on_change();
        self.see_level(reading);
        let forecast = *self.forecaster.forecast();
        if forecast.level == self.level {
            return None;
        }
        let before = std::mem::replace(&mut self.level, forecast.level);
        Some(RiskChange {
            time_nanos: reading.time_nanos,
            resource,
            before,
            forecast,
            reading,
        })
    }

    /// A level that thresholds are held against, whether or not it becomes a reading.
    fn see_level(&mut self, reading: Reading) {
        let is_fuller = |fullest: Reading| reading.needed_bytes() > fullest.needed_bytes();
        if self.fullest.is_none_or(is_fuller) {
            self.fullest = Some(reading);
        }
    }

    /// The fullest reading since the last call. One that still stands is placed at `now_nanos`, one that is over has its own time.
    fn take_fullest(&mut self, now_nanos: u64) -> Reading {
        let newest = Reading {
            time_nanos: now_nanos,
            ..self.reading
        };
        let fullest = self.fullest.take();
        fullest
            .filter(|fullest| fullest.needed_bytes() > newest.needed_bytes())
            .unwrap_or(newest)
    }

    fn verdict(&self, resource: &Resource, least_growth_bytes: Option<f64>) -> ResourceVerdict {
        let least = least_growth_bytes.unwrap_or_else(|| self.least_growth_bytes());
        // The machine's view of a job is the job's own.
        let is_told_elsewhere = *resource == Resource::Host && self.reading.own_bytes.is_some();
        let growth = self.forecaster.growth(least).filter(|_| !is_told_elsewhere);
        self.verdict_of(resource, self.reading, growth)
    }

    fn least_growth_bytes(&self) -> f64 {
        match self.reading.limit_bytes {
            Some(limit) => LEAST_GROWTH_SHARE * limit,
            None => LEAST_GROWTH_OF_LEVEL * self.reading.used_bytes,
        }
    }

    fn verdict_of(
        &self,
        resource: &Resource,
        reading: Reading,
        growth: Option<Growth>,
    ) -> ResourceVerdict {
        ResourceVerdict {
            resource: resource.clone(),
            forecast: *self.forecaster.forecast(),
            growth,
            job_share: self.forecaster.job_share_of_growth(),
            odd_peers: Vec::new(),
            too_young: self.forecaster.is_too_young(),
            too_young_to_forecast: self.forecaster.is_too_young_to_forecast(),
            may_be_loading: self.forecaster.may_be_loading(),
            led_to_end: false,
            readings: self.readings,
            watched_secs: to_secs(self.reading.time_nanos.saturating_sub(self.first_nanos)),
            judged_secs: self.forecaster.judged_secs(),
            reading,
        }
    }
}
