use super::*;
use crate::tracking::Resource;

const EVERY_LEVEL: [RiskLevel; 4] = [
    RiskLevel::Low,
    RiskLevel::Moderate,
    RiskLevel::High,
    RiskLevel::Critical,
];

fn evidence<'a>(used_share: Option<f64>, forecast: &'a Forecast) -> Evidence<'a> {
    Evidence {
        name: "GPU 0",
        reason: "GPU 0 grows",
        is_gpu: true,
        is_limit_given: false,
        used_share,
        forecast,
        ran_out: None,
    }
}

fn killed() -> RanOut {
    RanOut {
        resource: Resource::Job,
        kind: RanOutKind::OomKill,
        time_nanos: Some(78_000_000_000),
        pid: Some(7),
        name: Some("train.py".to_owned()),
        limit_bytes: Some(900 << 20),
        refused_by: None,
        peak_bytes: Some(899 << 20),
        gpu: None,
        gpu_cause: None,
        limit_use: None,
        certainty: nilo_sample::Certainty::Certain,
        growth: None,
        evidence: Vec::new(),
    }
}

#[test]
fn a_warning_is_never_low_and_the_block_says_what_the_status_says() {
    for forecast_level in EVERY_LEVEL {
        for percent in [
            None,
            Some(0.0),
            Some(84.9),
            Some(85.0),
            Some(94.0),
            Some(99.0),
        ] {
            for ran_out in [None, Some(killed())] {
                let forecast = Forecast {
                    level: forecast_level,
                    ..Forecast::default()
                };
                let evidence = Evidence {
                    ran_out: ran_out.as_ref(),
                    ..evidence(percent.map(|percent| percent / 100.0), &forecast)
                };
                let assessed = assess(&evidence, &Thresholds::from_percent(85.0));
                let text = assessed.warning_text(str::to_owned);
                let shown = format!("Risk Level: {}", assessed.level.as_str());
                assert!(text.contains(&shown), "{text}");
                let is_shown_as_warning = text.starts_with("[WARNING] OOM Warning: GPU 0\n");
                assert_eq!(is_shown_as_warning, assessed.is_warning(), "{text}");
                assert_eq!(is_shown_as_warning, !text.starts_with("OOM Risk: GPU 0\n"));
                assert_eq!(exit_status([&assessed]), u8::from(assessed.is_warning()));
                assert_eq!(assessed.is_warning(), assessed.level >= RiskLevel::High);
                assert!(assessed.level >= forecast_level);
                let full = percent.is_some_and(|percent| percent >= 85.0);
                let expected = full || ran_out.is_some() || forecast_level >= RiskLevel::High;
                assert_eq!(assessed.is_warning(), expected, "{text}");
            }
        }
    }
}

#[test]
fn a_level_above_the_threshold_is_high_and_a_full_one_critical() {
    let still = Forecast::default();
    let level = |share, percent| {
        assess(
            &evidence(Some(share), &still),
            &Thresholds::from_percent(percent),
        )
        .level
    };
    assert_eq!(level(0.873, 85.0), RiskLevel::High);
    assert_eq!(level(0.96, 85.0), RiskLevel::Critical);
    assert_eq!(level(0.96, 98.0), RiskLevel::Low);
    assert_eq!(level(0.5, 40.0), RiskLevel::High);
    assert_eq!(level(0.5, 85.0), RiskLevel::Low);
}

#[test]
fn the_documented_block_is_printed() {
    let forecast = Forecast {
        level: RiskLevel::High,
        seconds: Some(45.2),
        seconds_low: Some(40.0),
        seconds_high: Some(50.0),
        confidence: 0.82,
        ..Forecast::default()
    };
    let assessed = assess(
        &evidence(Some(0.873), &forecast),
        &Thresholds::from_percent(85.0),
    );
    let text = assessed.warning_text(str::to_owned);
    let documented = "[WARNING] OOM Warning: GPU 0\n   Risk Level: high\n   Current Usage: 87.3%\n   \
Predicted OOM Time: 45.2seconds later\n   Confidence: 0.82\n   Recommendation: Prepare to release cache\n   \
Recommendation: Consider reducing batch size\n   Reason: ";
    assert!(text.starts_with(documented), "{text}");
    assert!(
        text.contains("87.3% is above the threshold of 85%"),
        "{text}"
    );
}

#[test]
fn what_ran_out_is_critical_and_says_when_limit_and_peak() {
    let still = Forecast::default();
    let ran_out = killed();
    let evidence = Evidence {
        name: "job memory",
        is_gpu: false,
        ran_out: Some(&ran_out),
        ..evidence(Some(0.1), &still)
    };
    let assessed = assess(&evidence, &Thresholds::from_percent(85.0));
    assert_eq!(
        (assessed.level, assessed.is_warning()),
        (RiskLevel::Critical, true)
    );
    // Of the last sample, 10 %, nothing is said: it was read while the process ended.
    assert_eq!(assessed.used_percent.unwrap().round(), 100.0);
    assert_eq!(
        assessed.reason,
        "it ran out of memory after 78 seconds: the kernel killed train.py (PID 7); limit 900 MiB; peak 899 MiB"
    );
    let text = assessed.warning_text(str::to_owned);
    assert!(
        text.contains("Predicted OOM Time: it has run out"),
        "{text}"
    );
}

#[test]
fn above_its_limit_is_a_warning_but_no_end() {
    let above = Forecast {
        cause: Some(Cause::AboveLimit),
        ..Forecast::default()
    };
    let evidence = Evidence {
        is_limit_given: true,
        ..evidence(Some(1.3), &above)
    };
    let assessed = assess(&evidence, &Thresholds::from_percent(85.0));
    assert_eq!(assessed.level, RiskLevel::High);
    assert!(
        assessed.reason.contains("check --limit"),
        "{}",
        assessed.reason
    );
}

#[test]
fn a_time_that_hardly_anybody_would_bet_on_is_not_told() {
    let unsure = Forecast {
        seconds: Some(900.0),
        confidence: 0.1,
        ..Forecast::default()
    };
    let thresholds = Thresholds::from_percent(85.0);
    assert_eq!(
        assess(&evidence(Some(0.5), &unsure), &thresholds).prediction,
        None
    );
    let surer = Forecast {
        confidence: 0.3,
        ..unsure
    };
    assert!(
        assess(&evidence(Some(0.5), &surer), &thresholds)
            .prediction
            .is_some()
    );
}

#[test]
fn a_time_without_any_confidence_is_not_told_even_of_a_leak() {
    let told = |confidence: f64| {
        let leak = Forecast {
            seconds: Some(90_000.0),
            confidence,
            cause: Some(Cause::Leak),
            ..Forecast::default()
        };
        let thresholds = Thresholds::from_percent(85.0);
        let assessed = assess(&evidence(Some(0.1), &leak), &thresholds);
        // What leaks is to be looked for all the same.
        assert!(!assessed.recommendations.is_empty());
        assessed.prediction.is_some()
    };
    assert!(!told(0.004) && told(0.005));
}

#[test]
fn a_leak_that_ended_in_a_kill_is_not_told_as_a_spike() {
    let grown = |kind| Growth {
        kind,
        bytes_per_sec: 1e6,
        bytes_per_sec_low: 1e6,
        bytes_per_sec_high: 1e6,
        grown_bytes: 5e8,
        lasted_secs: 500.0,
        paused_secs: 0.0,
        is_in_tmpfs: false,
        level_bytes: None,
    };
    let assessed = |growth, is_in_tmpfs| {
        let mut verdict = ResourceVerdict::unmeasured(Resource::Job);
        let growth = Option::<GrowthKind>::map(growth, |kind| Growth {
            is_in_tmpfs,
            ..grown(kind)
        });
        verdict.growth = growth;
        let ran_out = RanOut { growth, ..killed() };
        assess_verdict(&verdict, &Thresholds::from_percent(85.0), Some(&ran_out))
    };
    for kind in [GrowthKind::Leak, GrowthKind::Growth] {
        let told = assessed(Some(kind), false);
        assert!(
            told.recommendations[0].contains("`nilo leak`"),
            "{:?}",
            told.recommendations
        );
        let told = assessed(Some(kind), true);
        assert!(
            told.recommendations[0].contains("tmpfs"),
            "{:?}",
            told.recommendations
        );
    }
    assert_eq!(
        assessed(Some(GrowthKind::Leak), false).cause,
        Some(Cause::Leak)
    );
    let sudden = assessed(None, false);
    assert!(sudden.recommendations[0].contains("spike"));
}

#[test]
fn a_limit_that_files_in_memory_filled_is_told_with_what_to_do_about_them() {
    let filled = |shmem_bytes, shared_mapping_bytes| {
        let limit_use = crate::LimitUse {
            peak_bytes: 900 << 20,
            anon_bytes: None,
            shmem_bytes: Some(shmem_bytes),
            shared_mapping_bytes,
            page_cache_bytes: None,
        };
        let ran_out = RanOut {
            limit_use: Some(limit_use),
            ..killed()
        };
        let verdict = ResourceVerdict::unmeasured(Resource::Job);
        assess_verdict(&verdict, &Thresholds::from_percent(85.0), Some(&ran_out))
    };
    assert!(filled(800 << 20, None).recommendations[0].contains("/dev/shm"));
    assert!(!filled(100 << 20, None).recommendations[0].contains("/dev/shm"));
    let mapped = filled(800 << 20, Some(790 << 20));
    assert!(!mapped.recommendations[0].contains("/dev/shm"));
    assert!(
        mapped
            .reason
            .contains("790 MiB of it shared memory that processes map (no file)"),
        "{}",
        mapped.reason
    );
}

#[test]
fn what_is_calm_needs_nothing_to_be_done() {
    let thresholds = Thresholds::from_percent(85.0);
    let advised = |share: f64, forecast: &Forecast| {
        let assessment = assess(&evidence(Some(share), forecast), &thresholds);
        !assessment.recommendations.is_empty()
    };
    let of_job = Forecast::default();
    assert!(!advised(0.06, &of_job) && advised(0.9, &of_job));
    let unlikely = Forecast {
        seconds: Some(9000.0),
        confidence: 0.05,
        cause: Some(Cause::Growth),
        ..Forecast::default()
    };
    assert!(!advised(0.06, &unlikely));
    let leak = Forecast {
        cause: Some(Cause::Leak),
        ..unlikely
    };
    assert!(advised(0.06, &leak));
}

#[test]
fn what_is_full_does_not_have_its_end_out_of_sight() {
    let thresholds = Thresholds::from_percent(85.0);
    let calm = Forecast::default();
    let text = |share: f64| {
        let assessment = assess(&evidence(Some(share), &calm), &thresholds);
        assessment.warning_text(str::to_owned)
    };
    assert!(text(0.9997).contains("Predicted OOM Time: not known"));
    assert!(text(0.9).contains("Predicted OOM Time: none"));
}
