//! Puts readings in, gives a forecast out. Cost and memory are bounded, however long the series is.

use super::calibration::{ALARM_FROM, confidence, times};
use super::envelope::Envelope;
use super::gate::Gate;
use super::growth::{Growth, GrowthKind, growth, is_too_young, may_be_loading};
use super::reading::{ActiveClock, Reading};
use super::risk::{Cause, Forecast, RiskLevel};
use super::track::{Outlook, Track};

/// Alarms look this far ahead.
const HORIZON_SECS: f64 = 600.0;
/// Nearer than this is critical.
const CRITICAL_SECS: f64 = 120.0;
/// Nearer than this is worth a word ...
const MODERATE_SECS: f64 = 1800.0;
/// ... if it comes true this often.
const WORTH_A_WORD: f64 = 0.2;
/// A growth that is sure to be a leak alarms from here on, however short it has lasted.
const LEAK_HORIZON_SECS: f64 = 300.0;
/// Growth that may end with the epoch alarms only this near.
const RESET_HORIZON_SECS: f64 = 150.0;
/// ... and is believed this much.
const MAY_RESET: f64 = 0.75;
/// Odds that growth at the very beginning ends below the limit, how fast they fall with age ...
const WARM_UP_ODDS: f64 = 12.0;
const WARM_UP_SECS: f64 = 120.0;
/// ... and with steps made.
const WARM_UP_STEPS: f64 = 20.0;
/// A reserve that grows stops as often as other growth with this much room.
const CACHE_ROOM: f64 = 0.3;
/// Growth of less than this share of the level began in a program that held something already.
const PART_OF_LEVEL: f64 = 0.5;
/// Likelihoods below this are not worth a closer look.
const WORTH_A_LOOK: f64 = 0.3;
/// Levels this far above a limit show that it does not hold; what is less is rounding.
const ABOVE: f64 = 1.01;
/// What lasts no longer than this is an evaluation or a checkpoint as likely as a leak.
const A_PHASE_SECS: f64 = 60.0;
const A_PHASE_SHARE: f64 = 0.3;
const A_PHASE_STEPS: f64 = 30.0;
/// Heights from this share of the growth beneath them on are what kills.
const PEAKS_OVER_GROWTH: f64 = 0.3;
/// A file cache that grows this many times faster explains a growth.
const CACHE_OVER_GROWTH: f64 = 3.0;
/// A reserve of whose rise this share is filled grows because of what is in it.
const FILLED: f64 = 0.5;
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
    clock: ActiveClock,
    /// What cannot be given back.
    need: Track,
    /// What the allocator keeps, where that is more.
    cache: Option<Track>,
    children: Option<Envelope>,
    own: Option<Track>,
    swap: Option<Track>,
    files: Envelope,
    last: Reading,
    last_boundary_secs: Option<f64>,
    first_step: Option<i64>,
    gate: Gate,
    next_judgement_secs: f64,
    /// The level at the newest judgement.
    judged_bytes: f64,
    forecast: Forecast,
    ignored: u64,
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
        self.last = *reading;
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
        if let Some(children) = reading.children_bytes {
            self.children
                .get_or_insert_default()
                .put(secs, children, interval);
        }
        if let Some(own) = reading.own_bytes {
            self.own
                .get_or_insert_default()
                .put(secs, own, limit, interval);
        }
        self.first_step = self.first_step.or(reading.step);
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

    /// Readings that made no sense.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    /// The lasting growth of what is held, if there is one of at least `least_bytes`.
    pub fn growth(&self, least_bytes: f64) -> Option<Growth> {
        let track = self.own.as_ref().unwrap_or(&self.need);
        let mut growth = growth(track, least_bytes, self.steps_seen())?;
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

    /// Whether it has seen too little to find any growth.
    pub fn is_too_young(&self) -> bool {
        let track = self.own.as_ref().unwrap_or(&self.need);
        is_too_young(track, self.steps_seen())
    }

    /// Whether the program may still be loading what it works with.
    pub fn may_be_loading(&self) -> bool {
        let track = self.own.as_ref().unwrap_or(&self.need);
        may_be_loading(track, self.steps_seen())
    }

    fn judge(&mut self) -> Forecast {
        let Some(limit) = self.last.limit() else {
            return Forecast::default();
        };
        let quiet = Forecast {
            used_share: self.last.used_share(),
            ..Forecast::default()
        };
        if self.last.needed_bytes() > ABOVE * limit {
            self.gate.pass(true);
            return Forecast {
                level: RiskLevel::Critical,
                cause: Some(Cause::AboveLimit),
                ..quiet
            };
        }
        let Some((outlook, cause)) = self.outlook(limit) else {
            self.gate.pass(false);
            return quiet;
        };
        let confidence = confidence(outlook.likelihood);
        let horizon = match cause {
            Cause::Workers => RESET_HORIZON_SECS,
            _ => HORIZON_SECS,
        };
        let times = times(
            outlook.secs,
            outlook.lasted_secs,
            cause == Cause::Fragmentation,
        );
        let likely = outlook.likelihood >= ALARM_FROM
            || (times.expected <= outlook.lasted_secs.min(LEAK_HORIZON_SECS)
                && self.leaks(&outlook, cause));
        let dangerous = times.expected <= horizon && likely && self.has_lasted(&outlook);
        let alarm = self.gate.pass(dangerous);
        let level = match times.expected {
            secs if alarm && secs <= CRITICAL_SECS => RiskLevel::Critical,
            _ if alarm => RiskLevel::High,
            secs if secs <= MODERATE_SECS && confidence >= WORTH_A_WORD => RiskLevel::Moderate,
            _ => RiskLevel::Low,
        };
        Forecast {
            level,
            seconds: Some(times.expected),
            seconds_low: Some(times.low),
            seconds_high: Some(times.high),
            confidence,
            cause: Some(self.told(cause, &outlook)),
            bytes_per_sec: Some(outlook.trend.line.slope),
            lasted_secs: Some(outlook.lasted_secs),
            peak_height_bytes: outlook.transient.recurring,
            ..quiet
        }
    }

    /// Whether the growth is one that is sure to be a leak, in a program that had begun before.
    ///
    /// Loading and warming up begin with little; what has grown by a part of what was already there is none of them.
    fn leaks(&self, outlook: &Outlook, cause: Cause) -> bool {
        let grown = outlook.trend.line.slope * outlook.lasted_secs;
        let had_begun = grown <= PART_OF_LEVEL * self.last.needed_bytes();
        let is_growth = matches!(cause, Cause::Growth | Cause::Peaks);
        let sure = |growth: Growth| growth.kind == GrowthKind::Leak;
        is_growth
            && had_begun
            && outlook.likelihood >= WORTH_A_LOOK
            && self.growth(grown / 2.0).is_some_and(sure)
    }

    /// The likeliest way to the limit, and what it is.
    fn outlook(&mut self, limit: f64) -> Option<(Outlook, Cause)> {
        // Full memory kills nobody while there is swap to go to; full swap does.
        if let (Some(swap), Some((_, total))) = (&mut self.swap, self.last.swap()) {
            let outlook = self
                .last
                .is_swapping()
                .then(|| swap.outlook(total))
                .flatten();
            return outlook.map(|outlook| (outlook, Cause::Swap));
        }
        let growth = self.need.outlook(limit);
        let growth = growth.map(|outlook| (outlook, self.cause(&outlook)));
        let creep = self.cache.as_mut().and_then(|cache| cache.outlook(limit));
        let creep = creep.map(|outlook| (outlook, Cause::Fragmentation));
        let weighed = [growth, creep]
            .into_iter()
            .flatten()
            .map(|(mut outlook, cause)| {
                outlook.likelihood *= self.past_the_beginning(&outlook, cause, limit);
                if cause == Cause::Workers {
                    outlook.likelihood *= MAY_RESET;
                }
                (outlook, cause)
            });
        weighed.max_by(|a, b| a.0.likelihood.total_cmp(&b.0.likelihood))
    }

    /// Whether a growth is more than a phase: it has lasted for a minute, or for a good part of a short life, or over many steps.
    fn has_lasted(&self, outlook: &Outlook) -> bool {
        let share = outlook.lasted_secs / self.need.age_secs().max(1e-3);
        let steps = self.steps_seen() * share.min(1.0);
        outlook.lasted_secs >= A_PHASE_SECS
            || share >= A_PHASE_SHARE
            || (steps >= A_PHASE_STEPS && share > 0.1)
    }

    /// How likely a growth is more than loading and warming up.
    ///
    /// Programs begin with growth, and most stop somewhere below the limit. The older the program, the more steps it has made
    /// and the less room is left to stop in, the less likely that is.
    fn past_the_beginning(&self, outlook: &Outlook, cause: Cause, limit: f64) -> f64 {
        let age = self.need.age_secs();
        if outlook.lasted_secs < 0.6 * age {
            return 1.0;
        }
        // An allocator's reserve settles with the rarest of steps, not with the first, and as well at the brim as below it.
        let (steps, room) = match cause {
            Cause::Fragmentation => (0.0, CACHE_ROOM),
            _ => (self.steps_seen(), 1.0 - self.last.needed_bytes() / limit),
        };
        let young = (-age / WARM_UP_SECS)
            .exp()
            .min((-steps / WARM_UP_STEPS).exp());
        let room = room.clamp(0.0, 1.0);
        1.0 / (1.0 + WARM_UP_ODDS * young * room)
    }

    fn cause(&self, outlook: &Outlook) -> Cause {
        let growth = outlook.trend.line.slope * outlook.trend.span_secs;
        let share = |part: Option<&Envelope>| {
            let rise = part?.rise(outlook.trend.width_secs)?;
            Some(rise / growth.max(1.0))
        };
        let since = self.clock.now_secs() - outlook.lasted_secs;
        let grown = outlook.trend.line.slope * outlook.lasted_secs;
        let passed = self.last_boundary_secs.is_some_and(|at| at > since);
        if share(self.children.as_ref()).is_some_and(|share| share > 0.6) && !passed {
            Cause::Workers
        } else if share(self.own.as_ref().map(|own| &own.envelope)).is_some_and(|share| share < 0.3)
        {
            Cause::Neighbour
        } else if outlook.transient.recurring > PEAKS_OVER_GROWTH * grown {
            Cause::Peaks
        } else {
            Cause::Growth
        }
    }

    /// A reserve that grows because what is allocated does is no fragmentation, however it was found.
    fn told(&self, cause: Cause, outlook: &Outlook) -> Cause {
        let rise = |envelope: &Envelope| envelope.rise(outlook.trend.width_secs);
        let kept = self.cache.as_ref().and_then(|cache| rise(&cache.envelope));
        match (cause, rise(&self.need.envelope), kept) {
            (Cause::Fragmentation, Some(held), Some(kept)) if held > FILLED * kept => Cause::Growth,
            _ => cause,
        }
    }

    fn steps_seen(&self) -> f64 {
        match (self.first_step, self.last.step) {
            (Some(first), Some(last)) => last.saturating_sub(first).max(0) as f64,
            _ => 0.0,
        }
    }
}

#[cfg(test)]
#[path = "forecaster_tests.rs"]
mod tests;
