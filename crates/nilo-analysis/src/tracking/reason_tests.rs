//! What is said of a resource of which nothing is forecast agrees with what is said of its growth.

use nilo_forecast::{Cause, Forecast, Growth, GrowthKind, Reading, RiskLevel};

use super::{Resource, ResourceTracker, ResourceVerdict};
use crate::assessment::{Assessment, Thresholds, assess_verdict};

const MIB: f64 = 1_048_576.0;
const NOT_GROWING: &str = "is not growing towards its limit";

/// Steps of 0.7 seconds that keep 1.4 MiB each and hold 40 MiB for a part of the time, read twice a second and once more each second: now in one part of a step, now in another.
fn sawtooth(secs: f64) -> Reading {
    const PERIOD: f64 = 0.7;
    let step = (secs / PERIOD).floor();
    let phase = secs / PERIOD - step;
    let temporary = if phase < 0.6 { 40.0 } else { 0.0 };
    Reading {
        time_nanos: (secs * 1e9) as u64,
        used_bytes: (112.0 + 1.4 * step + temporary) * MIB,
        limit_bytes: Some(500.0 * MIB),
        step: Some(step as i64),
        ..Reading::default()
    }
}

fn judged(verdict: &ResourceVerdict) -> Assessment {
    assess_verdict(verdict, &Thresholds::from_percent(85.0), None)
}

#[test]
fn nobody_hears_that_nothing_grows_while_growth_is_told() {
    let mut tracker = ResourceTracker::default();
    let mut without_forecast = 0;
    for half in 0..200_u32 {
        let secs = f64::from(half) / 2.0;
        tracker.observe(Resource::Job, sawtooth(secs));
        if half % 2 == 0 {
            tracker.observe(Resource::Job, sawtooth(secs + 0.0003));
        }
        let verdicts = tracker.verdicts(None);
        let assessment = judged(&verdicts[0]);
        if verdicts[0].growth.is_some() {
            assert!(!assessment.reason.contains(NOT_GROWING), "{assessment:?}");
            let is_early = assessment.reason.contains("too early to tell");
            assert_eq!(is_early, assessment.cause.is_none(), "{assessment:?}");
            without_forecast += u32::from(is_early);
        }
    }
    assert!(
        without_forecast > 0,
        "growth without a forecast was to be seen"
    );
}

fn growing() -> Growth {
    Growth {
        kind: GrowthKind::Growth,
        bytes_per_sec: MIB,
        bytes_per_sec_low: MIB,
        bytes_per_sec_high: MIB,
        grown_bytes: 60.0 * MIB,
        lasted_secs: 60.0,
        paused_secs: 0.0,
        is_in_tmpfs: false,
        level_bytes: None,
    }
}

#[test]
fn a_moment_is_too_short_to_say_that_nothing_grows() {
    let mut tracker = ResourceTracker::default();
    tracker.observe(Resource::Job, sawtooth(0.0));
    let reason = judged(&tracker.verdicts(None)[0]).reason;
    assert_eq!(
        reason,
        "job memory was not monitored long enough for a forecast"
    );
    // A level that stands still for a minute does not grow.
    for second in 1..60 {
        let still = Reading {
            time_nanos: second * 1_000_000_000,
            ..sawtooth(0.0)
        };
        tracker.observe(Resource::Job, still);
    }
    let reason = judged(&tracker.verdicts(None)[0]).reason;
    assert_eq!(reason, format!("job memory {NOT_GROWING}"));
}

#[test]
fn on_the_machine_it_is_the_job_that_grows() {
    let mut host = ResourceVerdict::unmeasured(Resource::Host);
    host.reading = sawtooth(0.0);
    host.growth_ahead = Some(growing());
    assert_eq!(
        judged(&host).reason,
        "job memory grows by 60 MiB/min, for 60 seconds so far; too early to tell when it reaches the limit"
    );
}

#[test]
fn whoever_hears_of_an_early_leak_hears_that_it_may_be_loading() {
    let mut job = ResourceVerdict::unmeasured(Resource::Job);
    job.reading = sawtooth(0.0);
    job.forecast = Forecast {
        level: RiskLevel::Moderate,
        seconds: Some(300.0),
        confidence: 0.5,
        cause: Some(Cause::Leak),
        ..Forecast::default()
    };
    job.may_be_loading = true;
    let loading = "in the first minute and the first 50 steps this may be loading";
    let reason = judged(&job).reason;
    assert_eq!(reason, format!("job memory leaks; {loading}"));
    job.may_be_loading = false;
    assert_eq!(judged(&job).reason, "job memory leaks");
    // A warning is one, whatever the program does.
    job.may_be_loading = true;
    job.forecast.level = RiskLevel::High;
    assert_eq!(judged(&job).reason, "job memory leaks");
}
