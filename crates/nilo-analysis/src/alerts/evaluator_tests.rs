//! What is told and what is not, from made-up verdicts.

use nilo_sample::{Alert, AlertKind, Severity};

use super::{AlertEvaluator, AlertRules};
use crate::tracking::{Resource, ResourceTracker, ResourceVerdict};
use nilo_forecast::{Cause, Forecast, Growth, GrowthKind, Reading, RiskLevel};

const SECOND: u64 = 1_000_000_000;

fn at(resource: Resource, second: u64, used: f64) -> ResourceVerdict {
    ResourceVerdict {
        too_young_to_forecast: false,
        too_young: false,
        may_be_loading: false,
        is_limit_given: false,
        led_to_end: false,
        readings: 1,
        watched_secs: 0.0,
        judged_secs: 0.0,
        resource,
        forecast: Forecast::default(),
        growth: None,
        paused_growth: None,
        growth_ahead: None,
        job_share: None,
        odd_peers: Vec::new(),
        reading: Reading {
            time_nanos: second * SECOND,
            used_bytes: used,
            limit_bytes: Some(1000.0),
            ..Reading::default()
        },
    }
}

fn follow(resource: &Resource, levels: impl IntoIterator<Item = f64>) -> Vec<Alert> {
    let mut evaluator = AlertEvaluator::new(AlertRules::default());
    let looks = levels.into_iter().zip(0..);
    looks
        .flat_map(|(used, second)| evaluator.look(&[at(resource.clone(), second, used)]))
        .collect()
}

fn told(alerts: &[Alert]) -> Vec<(AlertKind, bool)> {
    alerts
        .iter()
        .map(|alert| (alert.kind, alert.raised))
        .collect()
}

#[test]
fn a_rise_past_both_thresholds_tells_each_once() {
    for resource in [Resource::Job, Resource::Host] {
        let alerts = follow(&resource, (0..=100).map(|i| f64::from(i) * 9.5));
        assert_eq!(
            told(&alerts),
            [
                (AlertKind::MemoryWarning, true),
                (AlertKind::MemoryCritical, true)
            ]
        );
        assert_eq!(alerts[0].severity, Severity::Warning);
        assert_eq!(alerts[1].severity, Severity::Critical);
        assert_eq!(alerts[1].resource, resource.to_string());
        assert_eq!(alerts[1].used_percent, Some(90.3));
        assert_eq!(alerts[1].limit_bytes, Some(1000));
    }
}

#[test]
fn gpus_have_thresholds_of_their_own() {
    let alerts = follow(&Resource::Gpu { index: 1 }, [790.0, 810.0, 940.0, 960.0]);
    let times: Vec<u64> = alerts
        .iter()
        .map(|alert| alert.time_nanos / SECOND)
        .collect();
    assert_eq!(times, [1, 3]);
    assert_eq!(
        told(&alerts),
        [
            (AlertKind::GpuMemoryWarning, true),
            (AlertKind::GpuMemoryCritical, true)
        ]
    );
}

#[test]
fn an_allocator_that_holds_the_whole_gpu_is_at_rest() {
    let torch = Resource::Torch {
        writer: "python-1".to_owned(),
        device: 0,
    };
    assert_eq!(follow(&torch, [999.0; 100]), []);
    assert_eq!(follow(&Resource::SharedMemory, [999.0; 100]), []);
}

#[test]
fn file_pages_that_can_be_dropped_do_not_count() {
    let mut verdict = at(Resource::Job, 0, 950.0);
    verdict.reading.reclaimable_bytes = 500.0;
    assert_eq!(AlertEvaluator::default().look(&[verdict]), []);
}

#[test]
fn no_limit_no_level() {
    let mut verdict = at(Resource::Job, 0, 950.0);
    verdict.reading.limit_bytes = None;
    assert_eq!(AlertEvaluator::default().look(&[verdict]), []);
}

#[test]
fn a_level_that_swings_around_a_threshold_is_told_once() {
    let swing = (0..500).map(|i| if i % 2 == 0 { 760.0 } else { 735.0 });
    assert_eq!(
        told(&follow(&Resource::Job, swing)),
        [(AlertKind::MemoryWarning, true)]
    );
    let wide = (0..500).map(|i| if i % 10 < 5 { 760.0 } else { 500.0 });
    assert_eq!(
        told(&follow(&Resource::Job, wide)),
        [(AlertKind::MemoryWarning, true)]
    );
}

#[test]
fn a_level_that_stays_down_is_cleared_once() {
    let levels = [800.0; 5].into_iter().chain([400.0; 100]);
    let alerts = follow(&Resource::Job, levels);
    assert_eq!(
        told(&alerts),
        [
            (AlertKind::MemoryWarning, true),
            (AlertKind::MemoryWarning, false)
        ]
    );
    assert_eq!(alerts[1].severity, Severity::Info);
    assert!(
        alerts[1].text.contains("back at 40.0 %"),
        "{}",
        alerts[1].text
    );
}

fn risky(second: u64, level: RiskLevel) -> ResourceVerdict {
    let mut verdict = at(Resource::Job, second, 500.0);
    verdict.forecast = Forecast {
        level,
        seconds: Some(90.0),
        seconds_low: Some(60.0),
        seconds_high: Some(130.0),
        confidence: 0.85,
        bytes_per_sec: Some(4.0),
        ..Forecast::default()
    };
    verdict
}

#[test]
fn a_risk_is_told_when_it_is_high_and_again_when_it_is_critical() {
    use RiskLevel::{Critical, High, Low, Moderate};
    let mut evaluator = AlertEvaluator::default();
    let levels = [
        Low, Moderate, High, Moderate, High, Critical, High, Critical, Moderate, High,
    ];
    let alerts: Vec<Alert> = levels
        .into_iter()
        .zip(0..)
        .flat_map(|(level, second)| evaluator.look(&[risky(second, level)]))
        .collect();
    let said: Vec<_> = alerts
        .iter()
        .map(|alert| (alert.time_nanos / SECOND, alert.severity))
        .collect();
    assert_eq!(said, [(2, Severity::Warning), (5, Severity::Critical)]);
    assert_eq!(alerts[0].kind, AlertKind::OomRisk);
    assert_eq!(
        (alerts[0].seconds_left, alerts[0].confidence),
        (Some(90.0), Some(0.85))
    );
    assert!(!alerts[0].recommendations.is_empty());
}

#[test]
fn a_risk_that_is_critical_at_once_is_told_once() {
    let mut evaluator = AlertEvaluator::default();
    let alerts: Vec<Alert> = (0..10)
        .flat_map(|second| evaluator.look(&[risky(second, RiskLevel::Critical)]))
        .collect();
    assert_eq!(told(&alerts), [(AlertKind::OomRisk, true)]);
}

#[test]
fn of_a_level_above_its_limit_nothing_is_foretold() {
    let mut evaluator = AlertEvaluator::new(AlertRules::default());
    let mut above = at(Resource::Job, 0, 1100.0);
    above.forecast.level = RiskLevel::Critical;
    above.forecast.cause = Some(Cause::AboveLimit);
    assert_eq!(
        told(&evaluator.look(&[above])),
        [
            (AlertKind::MemoryWarning, true),
            (AlertKind::MemoryCritical, true)
        ]
    );
}

fn leaking(resource: Resource, second: u64, kind: GrowthKind) -> ResourceVerdict {
    let mut verdict = at(resource, second, 500.0);
    verdict.growth = Some(Growth {
        kind,
        bytes_per_sec: 2.0,
        bytes_per_sec_low: 1.0,
        bytes_per_sec_high: 3.0,
        grown_bytes: 100.0,
        paused_secs: 0.0,
        is_in_tmpfs: false,
        level_bytes: None,
        lasted_secs: 50.0,
    });
    verdict
}

fn leaks(resource: &Resource, kind: GrowthKind) -> Vec<Alert> {
    let mut evaluator = AlertEvaluator::default();
    (0..20)
        .flat_map(|i| evaluator.look_for_leaks(&[leaking(resource.clone(), 10 * i, kind)]))
        .collect()
}

#[test]
fn a_leak_is_told_once_it_was_found_three_times() {
    let alerts = leaks(&Resource::Job, GrowthKind::Leak);
    assert_eq!(told(&alerts), [(AlertKind::MemoryLeak, true)]);
    assert_eq!(alerts[0].time_nanos, 20 * SECOND);
    assert_eq!(alerts[0].bytes_per_sec, Some(2.0));
}

#[test]
fn a_program_that_may_be_loading_raises_no_alert() {
    let mut evaluator = AlertEvaluator::default();
    let mut verdict = leaking(Resource::Job, 0, GrowthKind::Leak);
    verdict.may_be_loading = true;
    for second in 0..20 {
        verdict.reading.time_nanos = second * 10 * SECOND;
        assert_eq!(evaluator.look_for_leaks(&[verdict.clone()]), []);
    }
}

#[test]
fn a_leak_that_stands_still_is_told_when_it_goes_on() {
    let mut evaluator = AlertEvaluator::default();
    let mut look = |second: u64, paused_secs: f64| {
        let mut verdict = leaking(Resource::Job, second, GrowthKind::Leak);
        verdict.growth.as_mut().unwrap().paused_secs = paused_secs;
        told(&evaluator.look_for_leaks(&[verdict]))
    };
    assert_eq!([look(0, 0.0), look(10, 0.0), look(20, 4.0)].concat(), []);
    assert_eq!(look(30, 0.0), [(AlertKind::MemoryLeak, true)]);
}

/// A job without a limit is sampled ten times a second and looked at every ten seconds, each time from another second on.
#[test]
fn growth_that_has_stopped_is_not_told_as_a_leak() {
    let level = |t: f64| (20.0 + 20.0 * t).min(60.0) + 80.0 * ((t - 50.0) / 27.0).clamp(0.0, 1.0);
    for first_look in 0..10 {
        let mut tracker = ResourceTracker::default();
        let mut evaluator = AlertEvaluator::default();
        for tenth in 0..1500_u64 {
            let t = tenth as f64 / 10.0;
            let reading = Reading {
                time_nanos: tenth * SECOND / 10,
                used_bytes: level(t) * 1048576.0,
                ..Reading::default()
            };
            tracker.observe(Resource::Job, reading);
            if tenth % 100 != first_look * 10 {
                continue;
            }
            let alerts = evaluator.look_for_leaks(&tracker.verdicts(None));
            for alert in alerts.iter().filter(|alert| alert.raised) {
                assert!(t < 80.5, "{t}: {}", alert.text);
                let lasted = alert.text.rsplit_once(" for ").unwrap().1;
                let lasted: f64 = lasted
                    .trim_end_matches(" s")
                    .trim_end_matches('s')
                    .parse()
                    .unwrap();
                let truth = t.min(77.0) - 50.0;
                assert!(
                    (0.75 * truth..1.15 * truth + 1.0).contains(&lasted),
                    "{t}: {}",
                    alert.text
                );
            }
        }
    }
}

#[test]
fn growth_that_may_end_is_no_leak() {
    assert_eq!(leaks(&Resource::Job, GrowthKind::Growth), []);
}

#[test]
fn the_machines_view_of_the_job_is_not_told_twice() {
    assert_eq!(leaks(&Resource::Host, GrowthKind::Leak), []);
    let gpu = Resource::Gpu { index: 0 };
    assert_eq!(leaks(&gpu, GrowthKind::Leak).len(), 1);
}

#[test]
fn what_is_switched_off_is_not_told() {
    let rules = AlertRules {
        leak: false,
        oom_risk: false,
        ..AlertRules::default()
    };
    let mut evaluator = AlertEvaluator::new(rules);
    for second in 0..10 {
        let leak = leaking(Resource::Job, second, GrowthKind::Leak);
        assert_eq!(evaluator.look_for_leaks(&[leak]), []);
        assert_eq!(evaluator.look(&[risky(second, RiskLevel::Critical)]), []);
    }
}
