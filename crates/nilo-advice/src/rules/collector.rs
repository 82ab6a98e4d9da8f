//! Garbage collection.

use nilo_sample::units::format_bytes;

use super::figures::{count, percent, seconds, share, step_time};
use super::{AdviceRule, AdviceSubject, Found, found};
use crate::facts::{CollectorFacts, Facts};
use crate::recommendation::AdviceConfidence::Medium;
use crate::recommendation::{SavedResource, Saving};

/// A full collection in so few steps is one too many: each looks at every object there is.
const STEPS_PER_COLLECTION: f64 = 20.0;
/// A pause is worth a word from this share of a step on, and from this length on.
const PAUSE_SHARE: f64 = 0.05;
const LEAST_PAUSE_SECONDS: f64 = 0.005;
/// What a schedule took off the longest pause in our measurement, and a little less: 222 ms became 6 ms.
const PAUSE_SAVED: f64 = 0.95;
/// Collections are worth a word from this share of the time on.
const TIME_SHARE: f64 = 0.03;
/// What higher thresholds took off their time in our measurement: 269 ms became 42 ms.
const TIME_SAVED: f64 = 0.85;

const THRESHOLDS: &str = "gc.collect(); gc.freeze(); gc.set_threshold(50_000, 20, 10) after the first steps, or use nilometer.optimize.GarbageCollector";
const WITHOUT_THRESHOLDS: &str = "GarbageCollector() without thresholds=, or memory_efficient_training() in place of MemoryOptimizationSystem: these collect between steps, with thresholds Python goes on collecting within them";
const SCHEDULE: &str = "with nilometer.optimize.GarbageCollector() as collector: around the loop, collector.step() after each step";

pub(super) const RULES: &[AdviceRule] = &[
    AdviceRule {
        name: "collect-less-often",
        subject: AdviceSubject::Collector,
        condition: "the program calls gc.collect() more than once in 20 steps",
        needs: &["gc.full_collections_asked", "gc.steps"],
        source: "a full collection every 50 steps took 9.5 times the time of the default in our measurement",
        look: collect_less_often,
    },
    AdviceRule {
        name: "schedule-collections",
        subject: AdviceSubject::Collector,
        condition: "the longest collection that Python began by itself takes more than 5 % of a step and 5 ms",
        needs: &["gc.longest_pause_seconds", "gc.step_seconds"],
        source: "collecting young objects on a schedule: 222 ms became 6 ms in our measurement",
        look: schedule_collections,
    },
    AdviceRule {
        name: "raise-collection-thresholds",
        subject: AdviceSubject::Collector,
        condition: "collections that Python begins by itself take more than 3 % of the time",
        needs: &["gc.automatic_seconds|gc.total_seconds", "gc.wall_seconds"],
        source: "thresholds of 50,000/20/10 took 85 % off the time in collections in our measurement",
        look: raise_thresholds,
    },
    AdviceRule {
        name: "collect-under-pressure",
        subject: AdviceSubject::Collector,
        condition: "automatic collection is off, nothing collects instead, and memory grows without bound",
        needs: &["gc.enabled", "host.leak_bytes_per_second"],
        source: "facebookresearch/dinov3#39: workers without collection grew until they were killed",
        look: collect_under_pressure,
    },
];

fn collects_too_often(gc: &CollectorFacts) -> bool {
    let (Some(asked), Some(steps)) = (gc.full_collections_asked, gc.steps) else {
        return false;
    };
    steps > 0 && asked as f64 * STEPS_PER_COLLECTION > steps as f64
}

fn collect_less_often(facts: &Facts) -> Option<Found> {
    let gc = &facts.gc;
    let (asked, steps) = (gc.full_collections_asked?, gc.steps?);
    let instead = match (gc.managed, gc.enabled) {
        (Some(true), _) => {
            "remove gc.collect() from the loop: the collector in use does it between steps"
        }
        (_, Some(true)) => "remove gc.collect() from the loop: Python collects by itself",
        _ => "remove gc.collect() from the loop, or use nilometer.optimize.GarbageCollector",
    };
    // Of all collections only these would be gone; where their time is not known, no saving is.
    let spent = asked_share(gc);
    collects_too_often(gc).then(|| {
        found("Do not collect all garbage in the training loop", instead)
            .because(format!(
                "{} asked for in {}",
                match asked {
                    1 => "1 full collection was".to_owned(),
                    _ => format!("{asked} full collections were"),
                },
                count(steps, "step")
            ))
            .because_if(spent.map(|spent| format!("they took {} of the time", percent(spent))))
            .saves(step_time(spent))
    })
}

/// Share of the time that collections took that the program asked for.
fn asked_share(gc: &CollectorFacts) -> Option<f64> {
    share(gc.asked_seconds?, gc.wall_seconds?)
}

/// What to do where Python collects by itself.
fn instead_of_python(gc: &CollectorFacts, otherwise: &'static str) -> &'static str {
    match gc.sets_thresholds {
        Some(true) => WITHOUT_THRESHOLDS,
        _ => otherwise,
    }
}

fn schedule_collections(facts: &Facts) -> Option<Found> {
    let gc = &facts.gc;
    let (pause, step) = (gc.longest_pause_seconds?, gc.step_seconds?);
    let of_step = share(pause, step)?;
    let is_managed = gc.managed == Some(true) || gc.enabled == Some(false);
    if is_managed || of_step <= PAUSE_SHARE || pause < LEAST_PAUSE_SECONDS {
        return None;
    }
    let saving = Saving {
        of: SavedResource::LongestPause,
        bytes: None,
        ratio: Some(PAUSE_SAVED),
    };
    Some(
        found(
            "Collect garbage on a schedule, with long-lived objects frozen",
            instead_of_python(gc, SCHEDULE),
        )
        .because(format!(
            "the longest collection took {}, {}",
            seconds(pause),
            in_steps(of_step, step)
        ))
        .saves(saving)
        .with(Medium),
    )
}

/// `44 % of a step of 500 ms`, `the time of 24 steps of 26 ms`.
fn in_steps(ratio: f64, step: f64) -> String {
    let step = seconds(step);
    match ratio {
        ..=1.0 => format!("{} of a step of {step}", percent(ratio)),
        ..9.95 => format!("the time of {ratio:.1} steps of {step}"),
        _ => format!("the time of {ratio:.0} steps of {step}"),
    }
}

fn raise_thresholds(facts: &Facts) -> Option<Found> {
    let gc = &facts.gc;
    // Where only the time of all is known, those that were asked for are taken off; how many they were tells whether that is all.
    let automatic = match (gc.automatic_seconds, gc.asked_seconds) {
        (Some(automatic), _) => automatic,
        (None, Some(asked)) => gc.total_seconds? - asked,
        (None, None) if collects_too_often(gc) => return None,
        (None, None) => gc.total_seconds?,
    };
    let spent = share(automatic, gc.wall_seconds?)?;
    if spent <= TIME_SHARE || gc.managed == Some(true) {
        return None;
    }
    Some(
        found(
            "Let the garbage collector run less often",
            instead_of_python(gc, THRESHOLDS),
        )
        .because(format!(
            "collections that Python began by itself took {} of the time",
            percent(spent)
        ))
        .saves(step_time(Some(TIME_SAVED * spent)))
        .with(Medium),
    )
}

/// Whether growth is what comes of collection that is switched off.
pub(super) fn explains_growth(facts: &Facts) -> bool {
    collect_under_pressure(facts).is_some()
}

fn collect_under_pressure(facts: &Facts) -> Option<Found> {
    let growth = facts.host.leak_bytes_per_second?;
    let is_shared = facts.host.leak_in_shared_memory == Some(true);
    let collects = facts.gc.enabled? || facts.gc.managed == Some(true);
    if collects || is_shared || growth <= 0.0 {
        return None;
    }
    Some(
        found(
            "Collect garbage when memory gets short: automatic collection is off and memory grows",
            "use nilometer.optimize.GarbageCollector instead of gc.disable()",
        )
        .because(format!(
            "memory grows by {} a minute",
            format_bytes(60.0 * growth)
        ))
        .with(Medium),
    )
}
