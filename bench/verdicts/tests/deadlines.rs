//! A leak that kills within one to ten minutes is alarmed of by half of the time that was left when it was established.

use nilo_verdict_bench::deadlines::{LeakCase, LeakKind, SHORT_KILL_SECS};
use nilo_verdict_bench::loads::false_alarm_secs;

#[test]
fn every_leak_that_kills_is_alarmed_of_in_time_and_until_the_kill() {
    let late: Vec<String> = LeakCase::all()
        .iter()
        .map(|case| (case, case.play()))
        .filter(|(_, alarm)| !alarm.is_in_time())
        .map(|(case, alarm)| format!("{case:?}: {alarm:?}"))
        .collect();
    assert!(late.is_empty(), "{}", late.join("\n"));
}

/// Sooner than a minute, growth from the start may be loading, or the first of many training steps: after a plateau it is neither.
#[test]
fn leaks_after_a_plateau_that_kill_within_a_minute_are_alarmed_of_in_time() {
    for kill_secs in SHORT_KILL_SECS {
        let case = LeakCase {
            kind: LeakKind::AfterAPlateau,
            kill_secs,
            step_secs: None,
            interval_secs: 0.1,
        };
        let alarm = case.play();
        assert!(alarm.is_in_time(), "{case:?}: {alarm:?}");
    }
}

#[test]
fn loading_for_half_a_minute_raises_no_alarm_up_to_nine_tenths_of_the_limit() {
    for load_secs in [5.0, 10.0, 20.0, 30.0] {
        for end_share in [0.6, 0.8, 0.9] {
            let secs = false_alarm_secs(load_secs, end_share);
            assert_eq!(secs, 0.0, "{load_secs} s to {end_share}");
        }
    }
}

/// Waiting makes no loading older: what was too short to be told from loading while it grew is no leak once it stands still.
#[test]
fn loading_that_is_over_raises_no_alarm() {
    for (load_secs, end_share) in [(32.0, 0.67), (35.0, 0.6), (35.0, 0.7), (40.0, 0.6)] {
        let secs = false_alarm_secs(load_secs, end_share);
        assert_eq!(secs, 0.0, "{load_secs} s to {end_share}");
    }
}
