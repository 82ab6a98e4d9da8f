//! `nilo request` on made-up runs, as transcripts.

// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

#[path = "support/command.rs"]
mod command;
mod support;

use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use command::{command, transcript_of};
use nilo_runfile::RunFolder;
use serde_json::{Value, json};
use support::{Program, command_ended, create, record_memory, resumed_run, training_run};

const GIB: f64 = 1073741824.0;

fn nilo_with_input(root: &Path, arguments: &[&str], input: &str) -> Output {
    let mut child = command(root, arguments)
        .env("NILO_DIR", root.join("runs"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that does not read its input closes it.
    child.stdin.take().unwrap().write_all(input.as_bytes()).ok();
    child.wait_with_output().unwrap()
}

fn transcript_with_input(root: &Path, arguments: &[&str], input: &str) -> String {
    let text = transcript_of(arguments, &nilo_with_input(root, arguments, input));
    text.replace(&root.display().to_string(), "HERE")
}

fn transcript(root: &Path, arguments: &[&str]) -> String {
    transcript_with_input(root, arguments, "")
}

fn json_of(root: &Path, arguments: &[&str]) -> Value {
    let output = nilo_with_input(root, &[arguments, &["--format", "json"]].concat(), "");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Changes the description of a run.
fn change(folder: &RunFolder, changes: &[(&str, Value)]) {
    let path = folder.path().join("run.json");
    let mut description: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for (key, value) in changes {
        description[*key] = value.clone();
    }
    std::fs::write(path, description.to_string()).unwrap();
}

fn slurm_limit(job: u32, gib: f64) -> Value {
    let path = format!("/slurm_node7/uid_1000/job_{job}/step_0");
    json!({"bytes": (gib * GIB) as u64, "source": {"type": "cgroup", "path": path, "version": 1}})
}

/// A run of ten minutes whose memory is `level(seconds)` GiB.
fn plain_run(root: &Path, name: &str, level: impl Fn(f64) -> f64) -> RunFolder {
    run_that_ended(root, name, (Some(0), None), level)
}

/// The same, with this exit code or signal.
fn run_that_ended(
    root: &Path,
    name: &str,
    (exit_code, signal): (Option<i32>, Option<i32>),
    level: impl Fn(f64) -> f64,
) -> RunFolder {
    let folder = create(&root.join("runs"), name, "run", 600);
    let mut recorder = Program::in_run(&folder, "recorder");
    for second in 0..600 {
        let secs = f64::from(second);
        let memory = level(secs) * GIB;
        recorder.tree(secs, memory, secs * 1e9);
    }
    recorder.event(600.0, &command_ended(exit_code, signal));
    folder
}

#[test]
fn one_run_with_a_gpu() {
    let root = tempfile::tempdir().unwrap();
    training_run(&root.path().join("runs"), "base", 4.0);
    insta::assert_snapshot!("one-run", transcript(root.path(), &["request"]));
}

#[test]
fn all_runs_of_a_job_with_its_cpus() {
    let root = tempfile::tempdir().unwrap();
    for (name, peak) in [("a", 17.0), ("b", 17.4), ("c", 18.1), ("d", 17.7)] {
        let folder = plain_run(root.path(), name, |_| peak);
        let command = json!(["python3", "/home/me/train.py", "--seed", name]);
        change(
            &folder,
            &[("command", command), ("limit", slurm_limit(7, 64.0))],
        );
    }
    let other = plain_run(root.path(), "other", |_| 30.0);
    change(&other, &[("command", json!(["python", "other.py"]))]);
    let all = ["request", "d", "--all", "--cpus", "8"];
    insta::assert_snapshot!("four-runs", transcript(root.path(), &all));
    let found = json_of(root.path(), &all);
    assert_eq!(found["schema"], "nilo.request/1");
    assert_eq!(found["memory"]["bytes"], 20 * (1u64 << 30));
    assert_eq!(found["memory"]["confidence"], "medium");
    assert_eq!(found["slurm"]["mem"], "20G");
    assert_eq!(found["slurm"]["mem_per_cpu"], "2560M");
    assert_eq!(found["runs"].as_array().unwrap().len(), 4);
    assert_eq!(found["present_limit"]["verdict"], "wasteful");
}

#[test]
fn a_run_that_was_killed_for_lack_of_memory_makes_it_a_guess() {
    let root = tempfile::tempdir().unwrap();
    let by_kill = (None, Some(9));
    let level = |secs: f64| (secs / 60.0).min(7.9);
    let folder = run_that_ended(root.path(), "killed", by_kill, level);
    let limit = slurm_limit(3, 8.0);
    let oom = json!({"certainty": "certain", "limit": limit, "kills": 1, "evidence": ["the kernel said so"]});
    let ending =
        json!({"status": "oom-killed", "signal": 9, "time_nanos": 600_000_000_000u64, "oom": oom});
    change(&folder, &[("ending", ending), ("limit", limit)]);
    insta::assert_snapshot!("oom-killed", transcript(root.path(), &["request"]));
}

#[test]
fn growth_needs_a_planned_time() {
    let root = tempfile::tempdir().unwrap();
    plain_run(root.path(), "growing", |secs| 8.0 + secs / 600.0);
    insta::assert_snapshot!("growing", transcript(root.path(), &["request"]));
    let planned = ["request", "--time", "01:10:00"];
    insta::assert_snapshot!("growing-planned", transcript(root.path(), &planned));
    let far = transcript(root.path(), &["request", "--time", "24:00:00"]);
    assert!(
        far.contains("no request is enough for the planned time"),
        "{far}"
    );
    assert!(far.contains("For runs as long as these, request "), "{far}");
    // What is pasted says itself that it does not hold.
    for line in ["#SBATCH --mem=", "limits.memory: "] {
        let mut lines = far.lines();
        let pasted = lines.find(|text| text.contains(line)).unwrap();
        assert!(pasted.ends_with("memory grows without bound"), "{far}");
    }
}

#[test]
fn runs_of_different_jobs_are_not_mixed_unless_asked_to() {
    let root = tempfile::tempdir().unwrap();
    plain_run(root.path(), "small", |_| 2.0);
    let large = plain_run(root.path(), "large", |_| 9.0);
    let command = json!(["python", "train.py", "--batch-size", "64"]);
    change(&large, &[("command", command)]);
    insta::assert_snapshot!(
        "mixed",
        transcript(root.path(), &["request", "small", "large"])
    );
    let mixed = json_of(root.path(), &["request", "small", "large", "--mix"]);
    assert_eq!(mixed["memory"]["bytes"], 11 * (1u64 << 30));
}

#[test]
fn runs_are_chosen_by_name_and_by_tag() {
    let root = tempfile::tempdir().unwrap();
    for (id, name) in [("a", "same"), ("b", "same"), ("c", "else")] {
        let folder = plain_run(root.path(), id, |_| 2.0);
        let tags = if id == "b" {
            json!({})
        } else {
            json!({"lr": "1"})
        };
        change(&folder, &[("name", json!(name)), ("tags", tags)]);
    }
    let runs = |arguments: &[&str]| {
        let found = json_of(root.path(), arguments);
        let ids = found["runs"].as_array().unwrap().iter();
        ids.map(|run| {
            run["run"]
                .as_str()
                .unwrap()
                .rsplit('-')
                .next()
                .unwrap()
                .to_owned()
        })
        .collect::<Vec<_>>()
    };
    assert_eq!(runs(&["request"]), ["c"]);
    assert_eq!(runs(&["request", "last~1", "last"]), ["b", "c"]);
    assert_eq!(runs(&["request", "--name", "same"]), ["a", "b"]);
    assert_eq!(runs(&["request", "--tag", "lr=1"]), ["a", "c"]);
    assert_eq!(runs(&["request", "else", "--name", "else"]), ["c"]);
    assert_eq!(runs(&["request", "--all"]), ["a", "b", "c"]);
}

/// What a real Slurm said of such jobs.
const LISTING: &str = "JobID|JobName|State|ReqMem|MaxRSS|Elapsed|ExitCode|NNodes|NTasks\n\
    3|train|COMPLETED|8G||00:10:00|0:0|1|\n\
    3.batch|batch|COMPLETED||10852K|00:10:00|0:0|1|1\n\
    3.0|python|COMPLETED||1.50G|00:10:00|0:0|1|1\n";

#[test]
fn slurms_account_is_explained() {
    let root = tempfile::tempdir().unwrap();
    let folder = plain_run(
        root.path(),
        "spike",
        |secs| if secs == 300.0 { 6.0 } else { 1.5 },
    );
    change(&folder, &[("limit", slurm_limit(3, 8.0))]);
    std::fs::write(root.path().join("jobs.txt"), LISTING).unwrap();
    let from_file = transcript(root.path(), &["request", "--sacct", "jobs.txt"]);
    insta::assert_snapshot!("sacct", from_file);
    let from_input = transcript_with_input(root.path(), &["request", "--sacct", "-"], LISTING);
    let without_command = |text: &str| text.split_once('\n').unwrap().1.to_owned();
    assert_eq!(without_command(&from_file), without_command(&from_input));
    let found = json_of(root.path(), &["request", "--sacct", "jobs.txt"]);
    assert_eq!(found["slurm_account"][0]["job"], "3.0");
}

#[test]
fn what_cannot_be_is_one_sentence_and_a_hint() {
    let root = tempfile::tempdir().unwrap();
    let mut said = transcript(root.path(), &["request"]);
    resumed_run(&root.path().join("runs"));
    said += &transcript(root.path(), &["request"]);
    said += &transcript(root.path(), &["request", "--name", "nobody"]);
    said += &transcript(root.path(), &["request", "--time", "90"]);
    said += &transcript(root.path(), &["request", "--cpus", "0"]);
    record_memory(&create(&root.path().join("runs"), "zz", "run", 5), 5);
    said += &transcript(root.path(), &["request", "--sacct", "missing.txt"]);
    for listing in [
        "",
        "1|2|3\n",
        "Slurm accounting storage is disabled\n",
        "JobID|State|MaxRSS\n1|COMPLETED|\n1.0|COMPLETED|lots\n",
        "JobID|State|MaxRSS\n1|COMPLETED\n",
        "JobID|State|MaxRSS\n4711|COMPLETED|\n4712|COMPLETED|\n",
    ] {
        let arguments = ["request", "zz", "--sacct", "-"];
        let text = transcript_with_input(root.path(), &arguments, listing);
        said += text.split_once("--- stderr").unwrap().1;
    }
    insta::assert_snapshot!("request-errors", said);
}

#[test]
fn a_run_that_says_no_job_is_taken_for_the_only_one_with_a_word() {
    let root = tempfile::tempdir().unwrap();
    plain_run(root.path(), "x", |secs| 8.0 + secs / 600.0);
    let header = LISTING.lines().next().unwrap();
    let job = LISTING.lines().find(|line| line.starts_with("3|")).unwrap();
    let text = transcript_with_input(
        root.path(),
        &["request", "--sacct", "-"],
        &format!("{header}\n{job}\n"),
    );
    assert!(
        text.contains("The run does not say which job it was"),
        "{text}"
    );
}

#[test]
fn names_from_outside_break_no_terminal() {
    let root = tempfile::tempdir().unwrap();
    let folder = plain_run(root.path(), "x", |secs| 8.0 + secs / 600.0);
    let name = "\u{1b}[2Jred\nline";
    change(
        &folder,
        &[
            ("name", json!(name)),
            ("command", json!([name])),
            ("limit", slurm_limit(3, 8.0)),
        ],
    );
    let text = transcript_with_input(root.path(), &["request", "--sacct", "-"], LISTING);
    assert!(
        text.chars().all(|c| c == '\n' || !c.is_control()),
        "{text:?}"
    );
}

#[test]
fn a_real_run_is_covered_by_its_own_request() {
    let root = tempfile::tempdir().unwrap();
    // The end of a pipe is kept in memory until it is known to be the end.
    let job = "head -c 120M /dev/zero | tail -c 100M > /dev/null";
    let recorded = ["run", "-q", "--interval", "0.01", "--", "sh", "-c", job];
    let output = nilo_with_input(root.path(), &recorded, "");
    assert!(output.status.success(), "{output:?}");
    let found = json_of(root.path(), &["request"]);
    let peak = found["runs"][0]["peak_bytes"].as_u64().unwrap();
    assert!((100 << 20..300 << 20).contains(&peak), "{peak}");
    let asked = found["memory"]["bytes"].as_u64().unwrap();
    assert!(asked as f64 >= 1.25 * peak as f64 && asked.is_multiple_of(64 << 20));
    assert_eq!(found["runs"][0]["completeness"], "whole");
    assert_eq!(found["memory"]["covered_runs"], 1);
}

#[test]
fn all_and_mix_take_every_run() {
    let root = tempfile::tempdir().unwrap();
    for (name, peak) in [("a", 3.0), ("b", 9.0), ("c", 5.0)] {
        let folder = plain_run(root.path(), name, |_| peak);
        change(
            &folder,
            &[("command", json!(["python", format!("{name}.py")]))],
        );
    }
    let taken = |arguments: &[&str]| {
        let found = json_of(root.path(), &[&["request"], arguments].concat());
        let runs = found["runs"].as_array().unwrap();
        let labels: Vec<String> = runs.iter().map(|run| run["label"].to_string()).collect();
        (
            labels.join(" "),
            found["memory"]["largest_peak_bytes"].clone(),
        )
    };
    let largest = json!(9u64 << 30);
    let every = r#""a" "b" "c""#.to_owned();
    assert_eq!(taken(&["--all", "--mix"]), (every.clone(), largest.clone()));
    assert_eq!(taken(&["a", "--all", "--mix"]), (every, largest));
    assert_eq!(taken(&["a", "--all"]).0, r#""a""#);
    // Runs that were named are never left out without a word.
    let refused = transcript(root.path(), &["request", "a", "b", "--all"]);
    assert!(refused.contains("runs of 2 different jobs"), "{refused}");
}
