//! Puts readings in, gives a forecast out. Cost and memory are bounded, however long the series is.

use super::calibration::{ALARM_FROM, Spread, Times, confidence, times};
use super::envelope::Envelope;
use super::gate::Gate;
use super::growth::{Growth, GrowthKind, growth, is_too_young, leak_lasted_secs, may_be_loading};
use super::reading::{ActiveClock, Reading};
use super::risk::{Cause, Forecast, RiskLevel};
use super::stairs::{Stairs, StairsFinder};
use super::swings::Rise;
use super::track::{Outlook, Track};

/// Alarms look this far ahead.
const HORIZON_SECS: f64 = 600.0;
/// ... and know that far that it is not later than this: uneven growth that may take twice as long often ends.
const LATEST_SECS: f64 = 1200.0;
/// Nearer than this is critical.
const CRITICAL_SECS: f64 = 120.0;
/// Nearer than this is worth a word ...
const MODERATE_SECS: f64 = 1800.0;
/// ... if it comes true this often.
const WORTH_A_WORD: f64 = 0.2;
/// A leak is established when it has lasted for this long, or for so many steps.
const ESTABLISHED_SECS: f64 = 25.0;
const ESTABLISHED_STEPS: f64 = 50.0;
/// Leaks that fill everything faster than this, with nothing that comes and goes above them, are not told from one large step.
const SHORTEST_LEAK_SECS: f64 = 55.0;
/// An established leak alarms when it takes no longer to the limit than this times what it has lasted beyond this share of being established.
/// By half of the time that was left when it was established, what is left is what it has lasted since: this is a little earlier, because alarms are meant three times.
const LEAK_AHEAD: f64 = 1.2;
/// Where steps show that it is no loading, a little more.
const LEAK_AHEAD_IN_TRAINING: f64 = 1.5;
const ESTABLISHED_PART: f64 = 0.75;
/// Growth that may end with the epoch alarms only this near.
const RESET_HORIZON_SECS: f64 = 150.0;
/// ... and is believed this much.
const MAY_RESET: f64 = 0.75;
/// Odds that growth at the very beginning ends below the limit, how fast they fall with age ...
const WARM_UP_ODDS: f64 = 12.0;
const WARM_UP_SECS: f64 = 120.0;
/// ... and with steps made, if they take up this share of the growth.
const MOSTLY: f64 = 0.5;
const WARM_UP_STEPS: f64 = 20.0;
/// A reserve that grows stops as often as other growth with this much room.
const CACHE_ROOM: f64 = 0.3;
/// A leak has grown by at least this share of the limit.
const LEAST_LEAK: f64 = 0.02;
/// Each step to go is as unlikely as this many that were seen are likely.
const STEPS_AGAINST: f64 = 2.0;
/// A staircase whose steps come more slowly than before by this factor ends.
const SLOWING_STAIRS: f64 = 1.6;
/// Standing still for this many of the longest times between steps, a program had done with loading.
const STILL_BEFORE_STAIRS: f64 = 3.0;
/// Models come in fewer pieces than this, and begin with less than this share of what is loaded.
const MANY_PIECES: usize = 12;
const LITTLE: f64 = 0.3;
/// A staircase that was given back before is believed this much.
const STAIRS_SEEN_BEFORE: f64 = 0.25;
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
    /// When the first training step ended.
    training_since_secs: Option<f64>,
    stairs: StairsFinder,
    gate: Gate,
    next_judgement_secs: f64,
    /// The level at the newest judgement.
    judged_bytes: f64,
    forecast: Forecast,
    ignored: u64,
}

/// A way to the limit, weighed.
#[derive(Debug, Clone, Copy)]
struct Course {
    times: Times,
    likelihood: f64,
    /// Whether it is worth an alarm.
    dangerous: bool,
    cause: Cause,
    bytes_per_sec: f64,
    lasted_secs: f64,
    height_bytes: f64,
}

impl Course {
    /// What is worth an alarm comes first, then what is sooner; otherwise what is likelier.
    fn outranks(&self, other: &Course) -> bool {
        match (self.dangerous, other.dangerous) {
            (true, true) => self.times.expected < other.times.expected,
            (false, false) => self.likelihood > other.likelihood,
            (mine, _) => mine,
        }
    }
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
        let stairs = self.stairs_now(limit);
        let line = self.line(limit, stairs.as_ref());
        let steps = stairs.and_then(|stairs| self.climb(&stairs, limit));
        let course = match (line, steps) {
            (Some(line), Some(steps)) if steps.outranks(&line) => steps,
            (Some(line), _) => line,
            (None, Some(steps)) => steps,
            (None, None) => {
                self.gate.pass(false);
                return quiet;
            }
        };
        let alarm = self.gate.pass(course.dangerous);
        let confidence = confidence(course.likelihood);
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

    /// Where growth along a line leads.
    fn line(&mut self, limit: f64, stairs: Option<&Stairs>) -> Option<Course> {
        let (mut outlook, cause) = self.outlook(limit)?;
        let horizon = match cause {
            Cause::Workers => RESET_HORIZON_SECS,
            _ => HORIZON_SECS,
        };
        let spread = match cause {
            Cause::Fragmentation => Spread::Stairs,
            _ => Spread::Line,
        };
        let times = times(
            outlook.secs,
            outlook.lasted_secs,
            spread,
            outlook.trend.wobble(),
        );
        let near = times.expected <= horizon;
        let known = times.high <= LATEST_SECS || cause == Cause::Fragmentation;
        let mut dangerous =
            near && known && outlook.likelihood >= ALARM_FROM && self.has_lasted(&outlook);
        if near
            && !dangerous
            && !stairs.is_some_and(|stairs| self.may_load_pieces(stairs))
            && let Some(lasted_secs) =
                self.leak_that_reaches(&outlook, cause, limit, stairs.is_some())
        {
            dangerous = true;
            outlook.lasted_secs = lasted_secs;
            outlook.likelihood = outlook.likelihood.max(ALARM_FROM);
        }
        Some(Course {
            times,
            likelihood: outlook.likelihood,
            dangerous,
            cause: self.told(cause, &outlook),
            bytes_per_sec: outlook.trend.line.slope,
            lasted_secs: outlook.lasted_secs,
            height_bytes: outlook.transient.recurring,
        })
    }

    /// The staircase that the level is on.
    fn stairs_now(&mut self, limit: f64) -> Option<Stairs> {
        // What does not fit goes to swap, and its level says nothing.
        if self.last.swap().is_some() {
            return None;
        }
        let reserve = self.cache.as_ref().map(|cache| &cache.envelope);
        let (envelope, now_secs) = (&self.need.envelope, self.need.now_secs);
        self.stairs.find(envelope, reserve, limit, now_secs)
    }

    /// Where growth in steps leads.
    fn climb(&self, stairs: &Stairs, limit: f64) -> Option<Course> {
        let (to_go, secs) = stairs.until(limit)?;
        let rate = stairs.next_height / stairs.every_secs;
        let rise = Rise {
            level: stairs.level,
            slope: rate,
            grown: rate * stairs.lasted_secs,
        };
        let seen = self.need.swings.seen_before(&rise, 0.0, f64::INFINITY);
        let steps = stairs.steps as f64;
        let likelihood = steps / (steps + STEPS_AGAINST * (to_go - 1) as f64 + 1.0)
            * (SLOWING_STAIRS / stairs.slowing).min(1.0)
            * if seen { STAIRS_SEEN_BEFORE } else { 1.0 }
            * self.stairs_past_the_beginning(stairs, limit);
        let times = times(
            secs.max(0.5 * stairs.every_secs),
            stairs.lasted_secs,
            Spread::Stairs,
            0.0,
        );
        Some(Course {
            times,
            likelihood,
            dangerous: likelihood >= ALARM_FROM && times.expected <= HORIZON_SECS,
            cause: Cause::Stairs,
            bytes_per_sec: rate,
            lasted_secs: stairs.lasted_secs,
            height_bytes: stairs.next_height,
        })
    }

    /// For how long the growth has leaked, if it is an established leak that reaches the limit soon against that.
    fn leak_that_reaches(
        &mut self,
        outlook: &Outlook,
        cause: Cause,
        limit: f64,
        in_steps: bool,
    ) -> Option<f64> {
        if !matches!(cause, Cause::Growth | Cause::Peaks) || outlook.seen_before {
            return None;
        }
        let now_secs = self.need.now_secs;
        let trained_secs = self
            .training_since_secs
            .map_or(0.0, |since| now_secs - since);
        let steps = self.steps_seen();
        let has_stepped = steps >= ESTABLISHED_STEPS;
        let fifty_steps_secs = ESTABLISHED_STEPS * trained_secs / steps.max(1.0);
        let is_soon = |lasted_secs: f64| {
            let soon = |lasted: f64, established: f64, ahead: f64| {
                lasted >= established
                    && outlook.secs <= ahead * (lasted - ESTABLISHED_PART * established)
            };
            let trained_secs = lasted_secs.min(trained_secs);
            soon(lasted_secs, ESTABLISHED_SECS, LEAK_AHEAD)
                || (has_stepped && soon(trained_secs, fifty_steps_secs, LEAK_AHEAD_IN_TRAINING))
        };
        // What fills everything within a minute from its first moment on may be the first of many training steps.
        let fills_secs = self.need.age_secs() + outlook.secs;
        if fills_secs < SHORTEST_LEAK_SECS && cause != Cause::Peaks {
            return None;
        }
        // Most growth is far from it, and this saves a closer look.
        if !is_soon(self.need.age_secs()) {
            return None;
        }
        let shortest_secs = match has_stepped {
            true => fifty_steps_secs.min(ESTABLISHED_SECS),
            false => ESTABLISHED_SECS,
        };
        let mut finder = std::mem::take(&mut self.need.finder);
        let lasted_secs = leak_lasted_secs(
            &self.need,
            &mut finder,
            LEAST_LEAK * limit,
            outlook.trend.line.slope,
            shortest_secs,
            in_steps,
        );
        self.need.finder = finder;
        lasted_secs.filter(|lasted_secs| is_soon(*lasted_secs))
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

    /// The same for a staircase.
    fn stairs_past_the_beginning(&self, stairs: &Stairs, limit: f64) -> f64 {
        match self.had_begun(stairs) {
            true => 1.0,
            false => self.past_warm_up(0.0, 1.0 - stairs.level / limit),
        }
    }

    /// Whether the program had done with loading when a staircase began: it made training steps, or the level stood still.
    fn had_begun(&self, stairs: &Stairs) -> bool {
        let began_secs = self.need.now_secs - stairs.lasted_secs;
        let trained = self
            .training_since_secs
            .is_some_and(|since| since <= began_secs + stairs.every_secs);
        trained || stairs.still_secs > STILL_BEFORE_STAIRS * stairs.longest_secs
    }

    /// Whether a staircase may be the pieces of a model, which are loaded one by one: it begins with little and has few steps.
    fn may_load_pieces(&self, stairs: &Stairs) -> bool {
        let from_little = stairs.base < LITTLE * stairs.level;
        from_little && stairs.steps < MANY_PIECES && !self.had_begun(stairs)
    }

    /// How likely a growth is more than loading and warming up.
    ///
    /// Programs begin with growth, and most stop somewhere below the limit. The older the program, the more steps it has made
    /// and the less room is left to stop in, the less likely that is.
    fn past_the_beginning(&self, outlook: &Outlook, cause: Cause, limit: f64) -> f64 {
        // An allocator's reserve settles with the rarest of steps, not with the first, and as well at the brim as below it.
        let (steps, room) = match cause {
            Cause::Fragmentation => (0.0, CACHE_ROOM),
            _ => (
                self.steps_within(outlook.lasted_secs),
                1.0 - self.last.needed_bytes() / limit,
            ),
        };
        if outlook.lasted_secs < 0.6 * self.need.age_secs() {
            return 1.0;
        }
        self.past_warm_up(steps, room)
    }

    fn past_warm_up(&self, steps: f64, room: f64) -> f64 {
        let young = (-self.need.age_secs() / WARM_UP_SECS)
            .exp()
            .min((-steps / WARM_UP_STEPS).exp());
        1.0 / (1.0 + WARM_UP_ODDS * young * room.clamp(0.0, 1.0))
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

    /// Steps made, if training takes up most of this time back from now: what grew before was loading.
    fn steps_within(&self, secs: f64) -> f64 {
        let trained = |since: f64| self.need.now_secs - since >= MOSTLY * secs;
        match self.training_since_secs.is_some_and(trained) {
            true => self.steps_seen(),
            false => 0.0,
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
