//! Ways to the limit, weighed: along a line, as a leak, in steps. Which of them is worth an alarm, and which is loading, a phase or a cycle.

use super::calibration::{ALARM_FROM, Spread, Times, times};
use super::envelope::Envelope;
use super::forecaster::Forecaster;
use super::growth::leak_lasted_secs;
use super::risk::Cause;
use super::stairs::Stairs;
use super::swings::OngoingRise;
use super::track::Projection;
use super::workers::MAY_RESET;

/// Where the job did less than this share of a growth, somebody else makes it ...
const NEIGHBOUR_BELOW: f64 = 0.3;
/// ... and goes on making it up to this share: advice that comes and goes with every look helps nobody.
const NEIGHBOUR_UNTIL: f64 = 0.45;
/// Alarms look this far ahead.
const HORIZON_SECS: f64 = 600.0;
/// ... and know that far that it is not later than this: uneven growth that may take twice as long often ends.
const LATEST_SECS: f64 = 1200.0;
/// A leak is established when it has lasted for this long, or for so many steps.
const ESTABLISHED_SECS: f64 = 25.0;
const ESTABLISHED_STEPS: f64 = 50.0;
/// Leaks that fill everything faster than this, with nothing that comes and goes above them, are not told from one large step.
const SHORTEST_LEAK_SECS: f64 = 55.0;
/// A level that lacks this share of the limit against its own line, without anything that comes and goes, has stopped growing.
const STANDS_STILL: f64 = 0.05;
/// An established leak alarms when it takes no longer to the limit than this times what it has lasted beyond this share of being established.
/// By half of the time that was left when it was established, what is left is what it has lasted since: this is a little earlier, because alarms are meant three times.
const LEAK_AHEAD: f64 = 1.2;
/// Where steps show that it is no loading, a little more.
const LEAK_AHEAD_IN_TRAINING: f64 = 1.5;
const ESTABLISHED_PART: f64 = 0.75;
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
/// Each step to go before the last counts against it like this many that were seen count for it.
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
/// What lasts no longer than this is an evaluation or a checkpoint as likely as a leak.
const A_PHASE_SECS: f64 = 60.0;
const A_PHASE_SHARE: f64 = 0.3;
const A_PHASE_STEPS: f64 = 30.0;
/// Heights from this share of the growth beneath them on are what kills.
const PEAKS_OVER_GROWTH: f64 = 0.3;
/// A reserve of whose rise this share is filled grows because of what is in it.
const FILLED: f64 = 0.5;

/// A way to the limit, weighed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scenario {
    pub(super) times: Times,
    pub(super) likelihood: f64,
    /// Whether it is worth an alarm.
    pub(super) dangerous: bool,
    /// Whether that is because it is an established leak.
    pub(super) is_leak: bool,
    /// Whether the growth was seen to end.
    pub(super) is_over: bool,
    pub(super) cause: Cause,
    pub(super) bytes_per_sec: f64,
    pub(super) lasted_secs: f64,
    pub(super) height_bytes: f64,
}

impl Scenario {
    /// What is worth an alarm comes first, then what is sooner; otherwise what is likelier.
    pub(super) fn outranks(&self, other: &Scenario) -> bool {
        match (self.dangerous, other.dangerous) {
            (true, true) => self.times.expected < other.times.expected,
            (false, false) => self.likelihood > other.likelihood,
            (mine, _) => mine,
        }
    }
}

impl Forecaster {
    /// Where growth along a line leads.
    pub(super) fn line(&mut self, limit: f64, stairs: Option<&Stairs>) -> Option<Scenario> {
        let (mut projection, cause) = self.projection(limit)?;
        let horizon = match cause {
            Cause::Workers => self.workers_horizon_secs(),
            _ => HORIZON_SECS,
        };
        let spread = match cause {
            Cause::Fragmentation => Spread::Stairs,
            _ => Spread::Line,
        };
        let times = times(
            projection.secs,
            projection.lasted_secs,
            spread,
            projection.trend.wobble(),
        );
        let near = times.expected <= horizon;
        let known = times.high <= LATEST_SECS || cause == Cause::Fragmentation;
        let mut is_leak = false;
        let mut dangerous =
            near && known && projection.likelihood >= ALARM_FROM && self.has_lasted(&projection);
        if times.expected <= HORIZON_SECS
            && !dangerous
            && !stairs.is_some_and(|stairs| self.may_load_pieces(stairs))
            && let Some(lasted_secs) =
                self.leak_that_reaches(&projection, cause, limit, stairs.is_some())
        {
            dangerous = true;
            is_leak = true;
            projection.lasted_secs = lasted_secs;
            projection.likelihood = projection.likelihood.max(ALARM_FROM);
        }
        Some(Scenario {
            times,
            likelihood: projection.likelihood,
            dangerous,
            is_leak,
            is_over: projection.is_over,
            cause: self.told(cause, &projection),
            bytes_per_sec: projection.trend.line.slope,
            lasted_secs: projection.lasted_secs,
            height_bytes: projection.transient.recurring,
        })
    }

    /// The staircase that the level is on.
    pub(super) fn stairs_now(&mut self, limit: f64) -> Option<Stairs> {
        // What does not fit goes to swap, and its level says nothing.
        if self.last.swap().is_some() {
            return None;
        }
        let reserve = self.cache.as_ref().map(|cache| &cache.envelope);
        let (envelope, now_secs) = (&self.need.envelope, self.need.now_secs);
        self.stairs.find(envelope, reserve, limit, now_secs)
    }

    /// Where growth in steps leads.
    pub(super) fn climb(&self, stairs: &Stairs, limit: f64) -> Option<Scenario> {
        let (to_go, secs) = stairs.until(limit)?;
        let rate = stairs.next_height / stairs.every_secs;
        let rise = OngoingRise {
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
        Some(Scenario {
            times,
            likelihood,
            dangerous: likelihood >= ALARM_FROM && times.expected <= HORIZON_SECS,
            is_leak: false,
            is_over: false,
            cause: Cause::Stairs,
            bytes_per_sec: rate,
            lasted_secs: stairs.lasted_secs,
            height_bytes: stairs.next_height,
        })
    }

    /// For how long the growth has leaked, if it is an established leak that reaches the limit soon against that.
    fn leak_that_reaches(
        &mut self,
        projection: &Projection,
        cause: Cause,
        limit: f64,
        in_steps: bool,
    ) -> Option<f64> {
        let is_news = !projection.seen_before && !projection.is_over;
        if !matches!(cause, Cause::Growth | Cause::Peaks | Cause::Workers) || !is_news {
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
                    && projection.secs <= ahead * (lasted - ESTABLISHED_PART * established)
            };
            let trained_secs = lasted_secs.min(trained_secs);
            soon(lasted_secs, ESTABLISHED_SECS, LEAK_AHEAD)
                || (has_stepped && soon(trained_secs, fifty_steps_secs, LEAK_AHEAD_IN_TRAINING))
        };
        // What fills everything within a minute from its first moment on may be loading, or the first of many training steps.
        let fills_secs = self.need.age_secs() + projection.secs;
        if fills_secs < SHORTEST_LEAK_SECS && cause != Cause::Peaks {
            return None;
        }
        // Loading that is over looks like growth for as long again, in windows that reach back far enough.
        let missing = projection.trend.line.slope * self.need.stood_still_secs();
        let is_smooth = !in_steps && projection.transient.recurring < STANDS_STILL * limit;
        if is_smooth && missing > STANDS_STILL * limit {
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
            projection.trend.line.slope,
            shortest_secs,
            in_steps,
        );
        self.need.finder = finder;
        let lasted_secs = lasted_secs.filter(|lasted_secs| is_soon(*lasted_secs))?;
        let is_leak = cause != Cause::Workers || self.is_leak_of_workers(projection, lasted_secs);
        is_leak.then_some(lasted_secs)
    }

    /// The likeliest way to the limit, and what it is.
    fn projection(&mut self, limit: f64) -> Option<(Projection, Cause)> {
        let training = self.training_times();
        // Full memory kills nobody while there is swap to go to; full swap does.
        if let (Some(swap), Some((_, total))) = (&mut self.swap, self.last.swap()) {
            let projection = self
                .last
                .is_swapping()
                .then(|| swap.projection(total, &training))
                .flatten();
            return projection.map(|projection| (projection, Cause::Swap));
        }
        let growth = self.need.projection(limit, &training);
        let growth = growth.map(|projection| (projection, self.cause(&projection)));
        let creep = self
            .cache
            .as_mut()
            .and_then(|cache| cache.projection(limit, &training));
        let creep = creep.map(|projection| (projection, Cause::Fragmentation));
        let weighed = [growth, creep]
            .into_iter()
            .flatten()
            .map(|(mut projection, cause)| {
                projection.likelihood *= self.past_the_beginning(&projection, cause, limit);
                if cause == Cause::Workers {
                    projection.likelihood *= MAY_RESET;
                }
                (projection, cause)
            });
        weighed.max_by(|a, b| a.0.likelihood.total_cmp(&b.0.likelihood))
    }

    /// Whether a growth is more than a phase: it has lasted for a minute, or for a good part of a short life, or over many steps.
    fn has_lasted(&self, projection: &Projection) -> bool {
        let share = projection.lasted_secs / self.need.age_secs().max(1e-3);
        let steps = self.steps_seen() * share.min(1.0);
        projection.lasted_secs >= A_PHASE_SECS
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
    fn past_the_beginning(&self, projection: &Projection, cause: Cause, limit: f64) -> f64 {
        // An allocator's reserve settles with the rarest of steps, not with the first, and as well at the brim as below it.
        let (steps, room) = match cause {
            Cause::Fragmentation => (0.0, CACHE_ROOM),
            _ => (
                self.steps_within(projection.lasted_secs),
                1.0 - self.last.needed_bytes() / limit,
            ),
        };
        if projection.lasted_secs < 0.6 * self.need.age_secs() {
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

    fn cause(&self, projection: &Projection) -> Cause {
        let growth = projection.trend.line.slope * projection.trend.span_secs;
        let share = |part: Option<&Envelope>| {
            let rise = part?.rise(projection.trend.width_secs)?;
            Some(rise / growth.max(1.0))
        };
        let since = self.clock.now_secs() - projection.lasted_secs;
        let grown = projection.trend.line.slope * projection.lasted_secs;
        let passed = self.last_boundary_secs.is_some_and(|at| at > since);
        if share(self.children.as_ref().map(|children| &children.envelope))
            .is_some_and(|share| share > 0.6)
            && !passed
        {
            Cause::Workers
        } else if share(self.own.as_ref().map(|own| &own.envelope))
            .is_some_and(|share| self.is_of_neighbour(share))
        {
            Cause::Neighbour
        } else if projection.transient.recurring > PEAKS_OVER_GROWTH * grown {
            Cause::Peaks
        } else {
            Cause::Growth
        }
    }

    /// Whether a growth of which the job did this share is somebody else's.
    fn is_of_neighbour(&self, share: f64) -> bool {
        share
            < match self.forecast.cause {
                Some(Cause::Neighbour) => NEIGHBOUR_UNTIL,
                _ => NEIGHBOUR_BELOW,
            }
    }

    /// A reserve that grows because what is allocated does is no fragmentation, however it was found.
    fn told(&self, cause: Cause, projection: &Projection) -> Cause {
        let rise = |envelope: &Envelope| envelope.rise(projection.trend.width_secs);
        let kept = self.cache.as_ref().and_then(|cache| rise(&cache.envelope));
        // Alarms are the same whoever fills the cgroup; what is said of it is not.
        let job = self.job.as_ref().filter(|_| self.last.is_shared);
        let job = job.and_then(|job| rise(&job.envelope));
        match (cause, rise(&self.need.envelope), kept) {
            (Cause::Growth | Cause::Peaks, Some(all), _)
                if job.is_some_and(|job| self.is_of_neighbour(job / all.max(1.0))) =>
            {
                Cause::Neighbour
            }
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
}
