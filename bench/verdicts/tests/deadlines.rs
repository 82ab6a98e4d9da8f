//! A leak that kills within one to ten minutes is alarmed of by half of the time that was left when it was established.

use nilo_verdict_bench::deadlines::LeakCase;

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
