//! `nilo oom` and `nilo leak` on traces drawn by hand: what a person would say of them, and files that are odd.

// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

#[path = "support/command.rs"]
mod command;

use std::fmt::Write;
use std::path::Path;

use command::nilo;
use serde_json::Value;

const MIB: f64 = 1048576.0;

fn answer(root: &Path, arguments: &[&str]) -> (Value, Option<i32>) {
    let output = nilo(root, &[arguments, &["--format", "json"]].concat());
    let value = serde_json::from_slice(&output.stdout);
    (
        value.unwrap_or_else(|_| panic!("{output:?}")),
        output.status.code(),
    )
}

/// Standard output and standard error of a file with these rows below `time,rss_mb`.
fn judged(verb: &str, rows: &str, options: &[&str]) -> (String, Option<i32>) {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("trace.csv"), rows).unwrap();
    let output = nilo(
        root.path(),
        &[&[verb, "--csv", "trace.csv"], options].concat(),
    );
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).unwrap(), output.status.code())
}

fn rows(secs: u32, level_mib: impl Fn(f64) -> f64) -> String {
    let mut text = "time,rss_mb\n".to_owned();
    for second in 0..secs {
        writeln!(text, "{second},{:.3}", level_mib(f64::from(second))).unwrap();
    }
    text
}

/// Noise of about this standard deviation, the same on every machine.
fn noise(secs: f64, deviation: f64) -> f64 {
    let mut state = (secs as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut sum = 0.0;
    for _ in 0..12 {
        state ^= state >> 27;
        state = state.wrapping_mul(0x94d0_49bb_1331_11eb).wrapping_add(1);
        sum += (state >> 11) as f64 / (1u64 << 53) as f64;
    }
    (sum - 6.0) * deviation
}

/// Five minutes at two mebibytes a second, with four minutes left of two gibibytes.
#[test]
fn a_leak_with_four_minutes_left_is_warned_of_and_named_a_leak_at_any_noise() {
    for deviation in [0.0, 1.0, 5.0, 20.0, 50.0] {
        let root = tempfile::tempdir().unwrap();
        let trace = rows(300, |secs| 1000.0 + 2.0 * secs + noise(secs, deviation));
        std::fs::write(root.path().join("trace.csv"), trace).unwrap();
        let (oom, status) = answer(
            root.path(),
            &["oom", "--csv", "trace.csv", "--limit", "2GiB"],
        );
        let danger = &oom["resources"][0];
        assert_eq!(status, Some(1), "noise {deviation}: {danger}");
        assert_eq!(danger["warned"], true);
        let left = danger["predicted_secs"].as_f64().unwrap();
        assert!((60.0..300.0).contains(&left), "noise {deviation}: {danger}");
        let (leak, status) = answer(root.path(), &["leak", "--csv", "trace.csv"]);
        assert_eq!(status, Some(1), "noise {deviation}: {leak}");
        let rate = leak["resources"][0]["growth_bytes_per_sec"]
            .as_f64()
            .unwrap();
        assert!(
            (rate / (2.0 * MIB) - 1.0).abs() < 0.1,
            "noise {deviation}: {rate}"
        );
    }
}

#[test]
fn a_program_that_may_have_only_begun_to_load_is_a_risk_and_not_warned_of() {
    let trace = rows(90, |secs| 50.0 + 9.0 * secs);
    let (text, status) = judged("oom", &trace, &["--limit", "2GiB"]);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("moderate risk"), "{text}");
    // What is called a leak by one is called a leak by the other.
    let (leak, _) = judged("leak", &trace, &[]);
    assert_eq!(
        leak.contains("leaks"),
        text.contains("leaks"),
        "{leak}{text}"
    );
}

/// 381 MiB/min under 900 MiB: killed after 140 seconds. Established at 30 seconds, it is warned of by half of what is left.
#[test]
fn a_leak_and_a_limit_are_a_forecast() {
    let leak = |secs: f64| 12.0 + 381.0 / 60.0 * secs;
    let limit = ["--limit", "900MiB"];
    let (text, status) = judged("oom", &rows(30, leak), &limit);
    assert_eq!(status, Some(0), "{text}");
    for seconds in [86, 100, 120, 139] {
        let (text, status) = judged("oom", &rows(seconds, leak), &limit);
        assert_eq!(status, Some(1), "{seconds}: {text}");
        assert!(
            text.contains("rss_mb leaks by 381 MiB/min"),
            "{seconds}: {text}"
        );
    }
}

/// Every ten seconds a tenth of the limit more, from three tenths on.
#[test]
fn a_staircase_is_warned_of_before_the_step_that_does_not_fit_and_not_once_it_has_ended() {
    let level = |steps: f64| 300.0 + 100.0 * steps;
    let step = |secs: f64| ((secs - 60.0) / 10.0).floor().clamp(0.0, 5.0);
    let climbing = rows(118, |secs| level(step(secs)));
    let (text, status) = judged("oom", &climbing, &["--limit", "880MiB"]);
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("rises in steps"), "{text}");
    let ended = rows(180, |secs| level(step(secs)));
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("trace.csv"), ended).unwrap();
    // It stands at 91 %: too full for the usual threshold, but not on its way to the limit.
    let arguments = ["oom", "--csv", "trace.csv", "--limit", "880MiB"];
    let (oom, _) = answer(root.path(), &arguments);
    let reason = &oom["resources"][0]["reason"];
    assert_eq!(reason, "90.9% is above the threshold of 85%", "{oom}");
    let arguments = [&arguments[..], &["--threshold", "95"]].concat();
    let (oom, _) = answer(root.path(), &arguments);
    assert_eq!(oom["resources"][0]["level"], "low", "{oom}");
}

#[test]
fn a_level_above_the_limit_questions_the_limit_instead_of_foretelling() {
    for level in [|_: f64| 2200.0, |secs: f64| 2000.0 + 4.0 * secs] {
        let (text, status) = judged("oom", &rows(300, level), &["--limit", "2GiB"]);
        assert_eq!(status, Some(1));
        let reason = "the recording is above the limit that was given: check --limit and --unit";
        assert!(text.contains(reason), "{text}");
        assert!(!text.contains("seconds later"), "{text}");
        assert!(!text.contains("Recommendation"), "{text}");
    }
}

#[test]
fn a_limit_without_its_unit_is_questioned() {
    let (text, status) = judged("oom", &rows(60, |_| 100.0), &["--limit", "24"]);
    assert_eq!(status, Some(2));
    assert!(text.contains("write the unit, such as 24GiB"), "{text}");
}

#[test]
fn growth_below_the_threshold_is_said_to_be_so() {
    let trace = rows(300, |secs| 1000.0 + 2.0 * secs);
    let (text, status) = judged("leak", &trace, &["--threshold", "1000"]);
    assert_eq!(status, Some(0));
    let line = "rss_mb: grows 120 MiB/min, 566 MiB so far, which is below the threshold";
    assert!(text.contains(line), "{text}");
    let (text, status) = judged("leak", &trace, &["--threshold", "1000", "--check"]);
    assert_eq!(status, Some(0));
    assert!(
        text.starts_with("no leak found: rss_mb grows 120 MiB"),
        "{text}"
    );
    let (text, _) = judged("leak", &trace, &["--threshold", "1000", "--format", "json"]);
    let answer: Value = serde_json::from_str(&text).unwrap();
    let small = &answer["resources"][0];
    assert_eq!(small["kind"], Value::Null);
    assert_eq!(small["below_threshold"]["kind"], "leak");
}

#[test]
fn a_check_of_too_short_a_recording_is_an_error() {
    let (text, status) = judged("leak", &rows(5, |_| 100.0), &["--check"]);
    assert_eq!(status, Some(2));
    assert!(
        text.contains("a recording of 4 seconds is too short to detect a leak"),
        "{text}"
    );
    assert!(text.contains("hint: at least 10 seconds"), "{text}");
}

#[test]
fn columns_of_one_name_are_told_apart() {
    let mut trace = "time,rss_mb,rss_mb\n".to_owned();
    for second in 0..60 {
        writeln!(trace, "{second},{},50", 100 + second).unwrap();
    }
    let (text, _) = judged("leak", &trace, &[]);
    assert!(
        text.contains("rss_mb (column 2): leaks 60 MiB/min"),
        "{text}"
    );
    assert!(
        text.contains("rss_mb (column 3): no lasting growth"),
        "{text}"
    );
}

#[test]
fn what_is_no_amount_of_memory_is_said_and_many_gaps_are_counted() {
    for number in ["-5", "1e300"] {
        let trace: String = (0..60)
            .map(|second| format!("{second},{number}\n"))
            .collect();
        let (text, status) = judged("leak", &format!("time,rss\n{trace}"), &[]);
        assert_eq!(status, Some(2));
        assert!(text.contains("has no memory values in rss"), "{text}");
    }
    let row = |second: u32| match second % 3 {
        0 => format!("{second},\n"),
        _ => format!("{second},{}\n", 100 + second),
    };
    let trace: String = (0..60).map(row).collect();
    let (text, _) = judged("leak", &format!("time,rss_mb\n{trace}"), &[]);
    assert!(
        text.contains("20 of 60 rows have no memory value in rss_mb"),
        "{text}"
    );
}

#[test]
fn the_time_is_no_memory_and_a_folder_no_file() {
    let (text, status) = judged("leak", &rows(60, |_| 1.0), &["--column", "time"]);
    assert_eq!(status, Some(2));
    assert!(
        text.contains("column \"time\" is the time, not memory"),
        "{text}"
    );
    let root = tempfile::tempdir().unwrap();
    let output = nilo(root.path(), &["leak", "--csv", "."]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.starts_with("error: cannot read .: Is a directory"),
        "{text}"
    );
    assert!(
        text.contains("hint: check the path; --csv takes a file"),
        "{text}"
    );
}

#[test]
fn a_header_alone_has_no_rows_and_none_was_dropped() {
    let (text, status) = judged("leak", "time,rss_mb\n", &[]);
    assert_eq!(status, Some(2));
    assert!(text.contains("has no rows with a time\n"), "{text}");
}

#[test]
fn a_negative_number_is_a_wrong_value_and_not_an_unknown_option() {
    let root = tempfile::tempdir().unwrap();
    for arguments in [
        &["request", "--cpus", "-3"][..],
        &["bpe", "train", "--vocab-size", "-4", "x"],
    ] {
        let output = nilo(root.path(), arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.starts_with("error: invalid value"), "{text}");
    }
}

#[test]
fn a_leak_stays_one_when_the_program_gives_everything_back_at_its_end() {
    let trace = rows(1200, |secs| 500.0 + 0.8 * secs) + "1200,300\n1201,200\n1202,120\n";
    let (text, status) = judged("leak", &trace, &[]);
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("leaks 48 MiB/min"), "{text}");
    let (text, status) = judged("oom", &trace, &["--limit", "1500MiB"]);
    assert_eq!(status, Some(0), "{text}");
    assert!(
        text.contains("low risk, 8.0% of 1.46 GiB, no trend towards the limit: leaked memory was freed at the end"),
        "{text}"
    );
}

#[test]
fn growth_is_no_larger_than_what_grew() {
    let trace = rows(600, |secs| 500.0 + 3.0 * (secs - 300.0).max(0.0));
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("trace.csv"), trace).unwrap();
    let (leak, _) = answer(root.path(), &["leak", "--csv", "trace.csv"]);
    let grown = leak["resources"][0]["grown_bytes"].as_f64().unwrap();
    assert!(grown <= 900.0 * MIB, "{leak}");
    let lasted = leak["resources"][0]["grown_over_secs"].as_f64().unwrap();
    assert!(lasted <= 310.0, "{leak}");
}

#[test]
fn a_growth_that_stopped_is_not_foretold() {
    let trace = rows(1200, |secs| 500.0 + 0.9 * secs.min(600.0));
    let (text, _) = judged("oom", &trace, &["--limit", "1100MiB"]);
    assert!(text.contains("Predicted OOM Time: none"), "{text}");
}

#[test]
fn rows_that_run_backwards_are_as_short_as_what_is_left_of_them() {
    let mut trace = "time,rss_mb\n".to_owned();
    for second in (0..1200).rev() {
        writeln!(trace, "{second},100").unwrap();
    }
    let (text, status) = judged("leak", &trace, &["--check"]);
    assert_eq!(status, Some(2), "{text}");
    assert!(
        text.contains("a recording of 0 seconds is too short"),
        "{text}"
    );
}
