//! Puts readings in, gives a forecast out. Cost and memory are bounded, however long the series is.

use super::calibration::told_confidence;
use super::envelope::Envelope;
use super::gate::Gate;
use super::growth::{
    Growth, GrowthKind, LOADING_SECS, growth, is_too_young, may_be_loading, paused_growth,
};
use super::reading::{ActiveClock, Reading};
use super::risk::{Cause, Forecast, RiskLevel};
use super::stairs::StairsFinder;
use super::standstill::TrainingTimes;
use super::track::LevelHistory;

/// Nearer than this is critical.
const CRITICAL_SECS: f64 = 120.0;
/// Nearer than this is worth a word ...
pub(super) const MODERATE_SECS: f64 = 1800.0;
/// ... if it comes true this often.
const WORTH_A_WORD: f64 = 0.2;
/// Growth below this share of the limit is not worth a word.
pub const LEAST_GROWTH_SHARE: f64 = 0.01;
/// Levels this far above a limit show that it does not hold; what is less is rounding.
const ABOVE: f64 = 1.01;
/// A file cache that grows this many times faster explains a growth.
const CACHE_OVER_GROWTH: f64 = 3.0;
/// Growth is in tmpfs from this share on.
const MOSTLY_TMPFS: f64 = 0.6;
/// A fall to this share of what was judged is judged at once.
const FALLEN: f64 = 0.8;
/// Judged at least this often, and in a young series more often ...
const JUDGE_SECS: f64 = 10.0;
/// ... so that a judgement comes every sixtieth of its age ...
const JUDGE_SHARE: f64 = 1.0 / 60.0;
/// ... and every twentieth of the time that is left.
const JUDGE_SHARE_OF_REST: f64 = 1.0 / 20.0;

/// Follows one resource.
#[derive(Debug, Clone, Default)]
pub struct Forecaster {
    pub(super) clock: ActiveClock,
    /// What cannot be given back.
    pub(super) need: LevelHistory,
    /// What the allocator keeps, where that is more.
    pub(super) cache: Option<LevelHistory>,
    pub(super) children: Option<LevelHistory>,
    pub(super) own: Option<LevelHistory>,
    pub(super) swap: Option<LevelHistory>,
    pub(super) files: Envelope,
    /// Files in memory.
    tmpfs: Option<Envelope>,
    /// What the job's own processes hold of a cgroup.
    pub(super) job: Option<LevelHistory>,
    pub(super) last: Reading,
    pub(super) last_boundary_secs: Option<f64>,
    pub(super) first_step: Option<i64>,
    /// When the first training step ended.
    pub(super) training_since_secs: Option<f64>,
    /// When the newest training step ended.
    newest_step_secs: Option<f64>,
    pub(super) stairs: StairsFinder,
    pub(super) gate: Gate,
    pub(super) next_judgement_secs: f64,
    /// The level at the newest judgement.
    pub(super) judged_bytes: f64,
    pub(super) forecast: Forecast,
    /// Whether the alarm that stands was raised because of a leak.
    pub(super) is_leak_alarm: bool,
    pub(super) ignored: u64,
}

impl Forecaster {
    /// Knows nothing yet.
    pub fn new() -> Forecaster {
        Forecaster::default()
    }

    /// Takes in a reading. One that is no number, or whose time does not lie after the last one's, is ignored and counted.
    pub fn observe(&mut self, reading: &Reading) {
        let sound = reading.is_sound();
        let Some(secs) = sound
            .then(|| self.clock.advance(reading.time_nanos))
            .flatten()
        else {
            self.ignored += 1;
            return;
        };
        let has_stepped = self.last.step.is_some() && self.last.step != reading.step;
        self.last = *reading;
        if has_stepped {
            self.newest_step_secs = Some(secs);
        }
        let interval = self.clock.interval_secs();
        if interval == 0.0 {
            return;
        }
        let limit = reading.limit();
        self.need.put(secs, reading.needed_bytes(), limit, interval);
        if reading.held_bytes.is_some() {
            let cache = self.cache.get_or_insert_default();
            cache.put(secs, reading.used_bytes, limit, interval);
        }
        self.files.put(secs, reading.reclaimable_bytes, interval);
        if let Some((used, total)) = reading.swap() {
            let swap = self.swap.get_or_insert_default();
            swap.put(secs, used, Some(total), interval);
        }
        if let Some(tmpfs) = reading.tmpfs_bytes {
            self.tmpfs
                .get_or_insert_default()
                .put(secs, tmpfs, interval);
        }
        if let Some(job) = reading.job_bytes {
            self.job
                .get_or_insert_default()
                .put(secs, job, limit, interval);
        }
        if let Some(children) = reading.children_bytes {
            self.children
                .get_or_insert_default()
                .put(secs, children, limit, interval);
        }
        if let Some(own) = reading.own_bytes {
            self.own
                .get_or_insert_default()
                .put(secs, own, limit, interval);
        }
        self.first_step = self.first_step.or(reading.step);
        if self.training_since_secs.is_none() && self.first_step != reading.step {
            self.training_since_secs = Some(secs);
        }
        let has_fallen = reading.needed_bytes() < FALLEN * self.judged_bytes;
        if secs >= self.next_judgement_secs || has_fallen {
            self.judged_bytes = reading.needed_bytes();
            self.forecast = self.judge();
            let near = self
                .forecast
                .seconds
                .map_or(f64::INFINITY, |near| near * JUDGE_SHARE_OF_REST);
            let every = (self.need.age_secs() * JUDGE_SHARE)
                .min(near.max(interval))
                .min(JUDGE_SECS);
            self.next_judgement_secs = secs + every;
        }
    }

    /// A boundary of the training at which memory may be given back: the end of an epoch.
    pub fn boundary(&mut self) {
        self.last_boundary_secs = Some(self.clock.now_secs());
    }

    /// The newest judgement.
    pub fn forecast(&self) -> &Forecast {
        &self.forecast
    }

    /// Readings that were rejected.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    /// The lasting growth of what is held, if there is one of at least `least_bytes`.
    pub fn growth(&self, least_bytes: f64) -> Option<Growth> {
        let found = growth(self.grower(), least_bytes, &self.training_times());
        // A trend may rise further than what grew.
        let found = found.or_else(|| self.growth_of_alarm());
        let mut growth = found.filter(|growth| growth.grown_bytes >= least_bytes)?;
        if self.is_leak_alarm && self.is_all_its_own() {
            growth.kind = GrowthKind::Leak;
        }
        growth.is_in_tmpfs = self.is_in_tmpfs(&growth);
        // What grows along with a growing file cache is the cache's keeping (pages not written yet), not the program's.
        let widest = self.files.scales().last().map(|scale| scale.width_secs);
        let cached = widest
            .and_then(|width| self.files.rise(width))
            .unwrap_or(0.0);
        if cached > CACHE_OVER_GROWTH * growth.grown_bytes {
            growth.kind = GrowthKind::Growth;
        }
        Some(growth)
    }

    /// What was a leak until it stood still, for too short a time to say whether it would go on; to be asked where there is no growth.
    pub fn paused_growth(&self, least_bytes: f64) -> Option<Growth> {
        let found = paused_growth(self.grower(), least_bytes, &self.training_times());
        found.filter(|growth| growth.grown_bytes >= least_bytes)
    }

    /// The level whose growth is told: of what others take part in, the job's own part.
    fn grower(&self) -> &LevelHistory {
        let job = self.job.as_ref().filter(|_| self.last.is_shared);
        job.or(self.own.as_ref()).unwrap_or(&self.need)
    }

    /// Whether the level that is forecast is the one whose growth is told.
    fn is_all_its_own(&self) -> bool {
        self.own.is_none() && !self.last.is_shared
    }

    /// The share of the growth that the forecast rests on which is the job's own, in a cgroup that others are in too.
    pub fn job_share_of_growth(&self) -> Option<f64> {
        let job = self.job.as_ref().filter(|_| self.last.is_shared)?;
        let since = self.clock.now_secs() - self.forecast.lasted_secs?;
        let rise = |track: &LevelHistory| track.envelope.rise_since(since);
        let grown = rise(&self.need).filter(|grown| *grown > 0.0)?;
        Some((rise(job)? / grown).clamp(0.0, 1.0))
    }

    /// Whether files in memory make up most of a growth.
    fn is_in_tmpfs(&self, growth: &Growth) -> bool {
        let since = self.need.now_secs - growth.began_secs_ago();
        let rise = self.tmpfs.as_ref().and_then(|it| it.rise_since(since));
        rise.is_some_and(|rise| rise >= MOSTLY_TMPFS * growth.grown_bytes)
    }

    /// What an alarm about growth rests on: whoever is warned of growth does not hear that there is none.
    fn growth_of_alarm(&self) -> Option<Growth> {
        let forecast = &self.forecast;
        let is_alarm = forecast.level >= RiskLevel::High && forecast.cause == Some(Cause::Growth);
        let rate = forecast.bytes_per_sec.filter(|_| is_alarm)?;
        let lasted_secs = forecast.lasted_secs.filter(|_| self.is_all_its_own())?;
        // A window may be longer than the growth in it.
        let range = self.need.range_since(self.need.now_secs - lasted_secs);
        let lasted_secs = lasted_secs.min(range / rate);
        Some(Growth {
            kind: GrowthKind::Growth,
            bytes_per_sec: rate,
            bytes_per_sec_low: rate,
            bytes_per_sec_high: rate,
            grown_bytes: rate * lasted_secs,
            lasted_secs,
            paused_secs: 0.0,
            is_in_tmpfs: false,
            level_bytes: None,
        })
    }

    /// Seconds that growth is looked for in: from the second reading on, without gaps.
    pub fn judged_secs(&self) -> f64 {
        self.grower().age_secs()
    }

    /// Whether it has seen too little to find any growth.
    pub fn is_too_young(&self) -> bool {
        is_too_young(self.grower(), self.steps_seen())
    }

    /// Whether it has seen too little to forecast anything: of a level that others take part in, its own part may be known for a shorter time than the level.
    pub fn is_too_young_to_forecast(&self) -> bool {
        is_too_young(&self.need, self.steps_seen())
    }

    /// Whether the program may still be loading what it works with.
    pub fn may_be_loading(&self) -> bool {
        self.may_be_loading_for(LOADING_SECS)
    }

    /// As [`Forecaster::may_be_loading`], for a program that loads for up to this long before its first steps.
    pub fn may_be_loading_for(&self, loading_secs: f64) -> bool {
        may_be_loading(self.grower(), self.steps_seen(), loading_secs)
    }

    fn judge(&mut self) -> Forecast {
        let was_leak_alarm = std::mem::take(&mut self.is_leak_alarm);
        let Some(limit) = self.last.limit() else {
            return Forecast::default();
        };
        let quiet = Forecast {
            used_share: self.last.used_share(),
            ..Forecast::default()
        };
        if self.last.needed_bytes() > ABOVE * limit {
            self.gate.pass(true, false);
            return Forecast {
                level: RiskLevel::Critical,
                cause: Some(Cause::AboveLimit),
                ..quiet
            };
        }
        let stairs = self.stairs_now(limit);
        let line = self.line(limit, stairs.as_ref());
        let steps = stairs.and_then(|stairs| self.climb(&stairs, limit));
        let course = match (line, steps) {
            (Some(line), Some(steps)) if steps.outranks(&line) => steps,
            (Some(line), _) => line,
            (None, Some(steps)) => steps,
            (None, None) => {
                self.gate.pass(false, false);
                return quiet;
            }
        };
        let alarm = self.gate.pass(course.dangerous, course.is_over);
        if course.is_over && !alarm {
            return quiet;
        }
        self.is_leak_alarm = alarm && (course.is_leak || was_leak_alarm && course.dangerous);
        let confidence = told_confidence(course.likelihood, alarm);
        let level = match course.times.expected {
            secs if alarm && secs <= CRITICAL_SECS => RiskLevel::Critical,
            _ if alarm => RiskLevel::High,
            secs if secs <= MODERATE_SECS && confidence >= WORTH_A_WORD => RiskLevel::Moderate,
            _ => RiskLevel::Low,
        };
        Forecast {
            level,
            seconds: Some(course.times.expected),
            seconds_low: Some(course.times.low),
            seconds_high: Some(course.times.high),
            confidence,
            cause: Some(course.cause),
            bytes_per_sec: Some(course.bytes_per_sec),
            lasted_secs: Some(course.lasted_secs),
            peak_height_bytes: course.height_bytes,
            ..quiet
        }
    }

    pub(super) fn training_times(&self) -> TrainingTimes {
        TrainingTimes {
            steps: self.steps_seen(),
            since_secs: self.training_since_secs,
            newest_secs: self.newest_step_secs,
        }
    }

    pub(super) fn steps_seen(&self) -> f64 {
        match (self.first_step, self.last.step) {
            (Some(first), Some(last)) => last.saturating_sub(first).max(0) as f64,
            _ => 0.0,
        }
    }
}

#[cfg(test)]
#[path = "forecaster_tests/mod.rs"]
mod tests;
