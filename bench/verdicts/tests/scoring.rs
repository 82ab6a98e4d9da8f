//! The rules of scoring, each on a trace and a predictor made for it.

use nilo_verdict_bench::predictor::{Predictor, PredictorOutput};
use nilo_verdict_bench::score::{Total, TraceScore, replay, score};
use nilo_verdict_bench::trace::{Trace, TraceOutcome, TracePoint};

const SECOND: u64 = 1_000_000_000;

/// Says whatever a function of the time says.
struct Scripted<F: Fn(f64) -> PredictorOutput> {
    script: F,
    now_secs: f64,
    leak: Option<bool>,
}

impl<F: Fn(f64) -> PredictorOutput> Predictor for Scripted<F> {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn observe(&mut self, point: &TracePoint) {
        self.now_secs = point.seconds();
    }

    fn judge(&mut self) -> PredictorOutput {
        (self.script)(self.now_secs)
    }

    fn leak(&mut self) -> Option<bool> {
        self.leak
    }
}

/// A trace at 1 Hz.
fn trace(seconds: u64, oom: bool, reached_after_end_secs: Option<u64>) -> Trace {
    Trace {
        name: "made".to_string(),
        shape: None,
        seed: 0,
        points: (0..=seconds)
            .map(|second| TracePoint {
                time_nanos: second * SECOND,
                used_bytes: 1.0,
                limit_bytes: Some(2.0),
                ..TracePoint::default()
            })
            .collect(),
        truth: TraceOutcome {
            oom_at_nanos: oom.then_some(seconds * SECOND),
            unpredictable: false,
            limit_reached_after_end_nanos: reached_after_end_secs
                .map(|after| (seconds + after) * SECOND),
            leak: Some(true),
            leak_cycles: None,
            expected: "".into(),
        },
    }
}

fn scored(trace: &Trace, script: impl Fn(f64) -> PredictorOutput) -> TraceScore {
    let mut predictor = Scripted {
        script,
        now_secs: 0.0,
        leak: Some(true),
    };
    score(trace, &replay(trace, &mut predictor))
}

/// An alarm from one second to another that predicts ten minutes.
fn alarm(from: f64, to: f64) -> impl Fn(f64) -> PredictorOutput {
    move |seconds| PredictorOutput {
        seconds: Some(600.0),
        alarm: (from..to).contains(&seconds),
        ..PredictorOutput::default()
    }
}

#[test]
fn an_alarm_five_minutes_ahead_is_a_hit_with_that_lead() {
    let result = scored(&trace(3600, true, None), alarm(3300.0, 9999.0));
    assert_eq!(result.lead_secs, Some(300.0));
    assert_eq!(result.false_episodes, 0);
}

#[test]
fn an_alarm_that_was_on_too_early_is_a_hit_with_a_lead_of_twenty_minutes() {
    let result = scored(&trace(3600, true, None), alarm(600.0, 9999.0));
    assert_eq!(result.lead_secs, Some(1200.0));
    assert_eq!(result.false_episodes, 0);
}

#[test]
fn an_alarm_gone_twenty_minutes_ahead_is_false_and_no_hit() {
    let result = scored(&trace(3600, true, None), alarm(600.0, 2400.0));
    assert_eq!(result.lead_secs, None);
    assert_eq!(result.false_episodes, 1);
}

#[test]
fn an_alarm_in_the_last_half_minute_counts_for_nothing() {
    let result = scored(&trace(3600, true, None), alarm(3575.0, 9999.0));
    assert_eq!(result.lead_secs, None);
    assert_eq!(result.false_episodes, 0);
}

#[test]
fn a_short_trace_wants_one_percent_of_its_length() {
    let late = scored(&trace(300, true, None), alarm(290.0, 9999.0));
    assert_eq!(late.lead_secs, Some(10.0));
    let too_late = scored(&trace(300, true, None), alarm(298.0, 9999.0));
    assert_eq!(too_late.lead_secs, None);
}

#[test]
fn every_episode_on_a_calm_trace_is_false() {
    let twice = |seconds: f64| PredictorOutput {
        alarm: (600.0..700.0).contains(&seconds) || seconds > 3000.0,
        ..PredictorOutput::default()
    };
    let result = scored(&trace(3600, false, None), twice);
    assert_eq!(result.false_episodes, 2);
}

#[test]
fn an_alarm_about_growth_that_the_end_cut_off_is_neutral() {
    let result = scored(&trace(3600, false, Some(800)), alarm(3500.0, 9999.0));
    assert_eq!((result.false_episodes, result.neutral_episodes), (0, 1));
    let too_far = scored(&trace(3600, false, Some(1000)), alarm(3500.0, 9999.0));
    assert_eq!((too_far.false_episodes, too_far.neutral_episodes), (1, 0));
    let long_gone = scored(&trace(3600, false, Some(800)), alarm(100.0, 200.0));
    assert_eq!(
        (long_gone.false_episodes, long_gone.neutral_episodes),
        (1, 0)
    );
    let as_predicted = scored(&trace(3600, false, Some(1000)), |seconds| PredictorOutput {
        seconds: Some(900.0),
        ..alarm(3500.0, 9999.0)(seconds)
    });
    assert_eq!(as_predicted.neutral_episodes, 1);
}

#[test]
fn error_and_coverage_are_taken_under_alarm_and_twenty_minutes_ahead() {
    let result = scored(&trace(3600, true, None), |seconds| PredictorOutput {
        seconds: Some(2.0 * (3600.0 - seconds)),
        seconds_low: Some(0.0),
        seconds_high: Some(600.0),
        alarm: seconds >= 1200.0,
        confidence: 0.0,
    });
    assert_eq!(result.log2_errors.len(), 120);
    assert!(
        result
            .log2_errors
            .iter()
            .all(|error| (error - 1.0).abs() < 1e-9)
    );
    assert_eq!((result.intervals, result.covered), (120, 60));
}

#[test]
fn a_certain_and_right_predictor_has_a_brier_score_of_zero() {
    let known = |seconds: f64| PredictorOutput {
        confidence: if seconds >= 3000.0 { 1.0 } else { 0.0 },
        ..PredictorOutput::default()
    };
    let mut total = Total::default();
    total.add(&scored(&trace(3600, true, None), known));
    assert_eq!(total.brier(), Some(0.0));
    let mut unsure = Total::default();
    unsure.add(&scored(&trace(3600, true, None), |_| PredictorOutput {
        confidence: 0.5,
        ..PredictorOutput::default()
    }));
    assert_eq!(unsure.brier(), Some(0.25));
    assert_eq!(unsure.reliability[5].judgements, 359);
    assert_eq!(unsure.reliability[5].events, 60);
}

#[test]
fn totals_divide_hits_by_ooms_and_by_alarms() {
    let mut total = Total::default();
    total.add(&scored(&trace(3600, true, None), alarm(3300.0, 9999.0)));
    total.add(&scored(&trace(3600, true, None), alarm(0.0, 0.0)));
    total.add(&scored(&trace(3600, false, None), alarm(600.0, 700.0)));
    let mut surprise = trace(3600, true, None);
    surprise.truth.unpredictable = true;
    total.add(&scored(&surprise, alarm(0.0, 0.0)));
    assert_eq!(total.recall(), Some(1.0 / 3.0));
    assert_eq!(total.recall_of_predictable(), Some(0.5));
    assert_eq!(total.precision(), Some(0.5));
    assert_eq!(total.false_alarms_an_hour(), Some(0.25));
    assert_eq!((total.calm_traces, total.calm_alarmed), (1, 1));
    assert_eq!(total.lead_secs(0.5), Some(300.0));
}

#[test]
fn leaks_are_counted_where_there_are_cycles_enough_to_tell() {
    let mut total = Total::default();
    total.add(&scored(&trace(3600, false, None), alarm(0.0, 0.0)));
    let mut too_few = trace(3600, false, None);
    too_few.truth.leak_cycles = Some(4);
    total.add(&scored(&too_few, alarm(0.0, 0.0)));
    let mut no_leak = trace(3600, false, None);
    no_leak.truth.leak = Some(false);
    total.add(&scored(&no_leak, alarm(0.0, 0.0)));
    assert_eq!(total.leaks.answers(), 2);
    assert_eq!(total.leaks.precision(), Some(0.5));
    assert_eq!(total.leaks.recall(), Some(1.0));
}
