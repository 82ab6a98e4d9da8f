//! The command as a person meets it.

use std::fs;
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nilo-verdict-bench"))
        .args(arguments)
        .output()
        .expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn tables_come_on_standard_output_and_the_page_as_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("verdicts.md");
    let output = run(&[
        "--traces-per-shape",
        "1",
        "--generator",
        "shapes",
        "--details",
        "--markdown",
        page.to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let tables = text(&output.stdout);
    let page = fs::read_to_string(page).unwrap();
    for part in [
        "threshold 90 %",
        "OLS 600 s",
        "24-swap-fills",
        "gpu/cache-plateau",
        "real/sawtooth-leak",
    ] {
        assert!(tables.contains(part), "{part}");
        assert!(page.contains(part), "{part}");
    }
    assert!(tables.contains("What went wrong"));
    assert!(page.contains(
        "nilo-verdict-bench --seeds tuning --traces-per-shape 1 --generator shapes --markdown"
    ));
    assert!(page.contains("24 traces of 24 shapes (seeds 1000 to 1000 of each)"));
}

#[test]
fn one_shape_and_one_predictor_are_scored_alone() {
    let output = run(&["--shape", "10", "--only", "60 s", "--seeds", "1-2"]);
    let tables = text(&output.stdout);
    assert!(tables.contains("10-workers-reset"));
    assert!(
        !tables.contains("11-workers-leak")
            && !tables.contains("OLS 600")
            && !tables.contains("real/")
    );
}

#[test]
fn simulated_jobs_have_tables_of_their_own() {
    let output = run(&[
        "--generator",
        "workloads",
        "--shape",
        "6",
        "--only",
        "nilometer",
        "--seeds",
        "1-2",
    ]);
    let tables = text(&output.stdout);
    assert!(tables.contains("== workloads ==") && tables.contains("06-ramp-too-far"));
    assert!(!tables.contains("== shapes ==") && !tables.contains("01-leak"));
}

#[test]
fn dumped_traces_are_read_back_as_recordings() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    assert!(
        run(&["--shape", "1", "--seeds", "5-5", "--dump", path])
            .status
            .success()
    );
    let label = r#"[{"trace": "01-steady-leak-5.csv", "cap_bytes": 1, "leak": true, "oom_at_s": null, "note": ""}]"#;
    fs::write(folder.path().join("labels.json"), label).unwrap();
    let read = &nilo_verdict_bench::recorded::read_folder(folder.path()).unwrap()[0];
    let drawn = nilo_verdict_bench::shapes::draw(1, 5);
    assert_eq!(read.points.len(), drawn.points.len());
    for (read, drawn) in read.points.iter().zip(&drawn.points) {
        assert_eq!(read.used_bytes, drawn.used_bytes);
        assert_eq!(read.limit_bytes, drawn.limit_bytes);
        assert_eq!(read.time_nanos, drawn.time_nanos);
        assert_eq!(read.step, drawn.step);
    }
}

#[test]
fn wrong_arguments_get_a_sentence_and_a_failing_status() {
    for (arguments, part) in [
        (&["--seeds", "9-3"][..], "ends before it begins"),
        (
            &["--seeds", "some"][..],
            "seeds are tuning, reporting or FROM-TO",
        ),
        (&["--shape", "25"][..], "25 is not in 1..=24"),
        (&["--traces-per-shape", "0"][..], "0 is not in"),
        (
            &["--only", "no such"][..],
            "hint: there are nilometer; threshold 90 %",
        ),
        (
            &["--traces-per-shape", "1", "--recorded", "/no/such"][..],
            "cannot read /no/such/labels.json",
        ),
        (
            &[
                "--shape",
                "1",
                "--seeds",
                "1-1",
                "--markdown",
                "/no/such/page.md",
            ][..],
            "cannot write /no/such/page.md",
        ),
    ] {
        let output = run(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        let said = text(&output.stderr);
        assert!(said.contains(part), "{arguments:?}: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}
