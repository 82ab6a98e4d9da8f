//! The committed traces of real jobs can be read and are what their labels say; others fail with a sentence.

use std::fs;

use nilo_verdict_bench::recorded::{committed_folders, read_folder};
use nilo_verdict_bench::trace::Trace;

fn committed() -> Vec<Trace> {
    committed_folders()
        .iter()
        .flat_map(|folder| read_folder(folder).expect("committed traces can be read"))
        .collect()
}

/// Whether the batch size grows.
fn is_ramp(trace: &Trace) -> bool {
    trace.name.contains("ramp") || trace.name.contains("doubling")
}

#[test]
fn every_committed_trace_is_read() {
    let traces = committed();
    assert_eq!(traces.len(), 22);
    for trace in &traces {
        assert!(trace.points.len() > 400, "{}", trace.name);
        // Whether a ramp of the batch size leaks is a matter of definition.
        assert_eq!(trace.truth.leak.is_none(), is_ramp(trace), "{}", trace.name);
        assert!(trace.duration_secs() < 60.0, "{}", trace.name);
    }
    let killed = traces
        .iter()
        .filter(|trace| trace.truth.oom_at_nanos.is_some());
    assert_eq!(killed.count(), 8);
}

#[test]
fn killed_processes_were_at_their_limit_and_the_others_were_not() {
    for trace in committed() {
        let share = |used: f64, limit: Option<f64>| used / limit.unwrap();
        let last = trace.points.last().unwrap();
        let top = trace
            .points
            .iter()
            .map(|point| share(point.used_bytes, point.limit_bytes))
            .fold(0.0, f64::max);
        match trace.truth.oom_at_nanos {
            Some(at) => {
                // What a ramp's last step asked for was refused, and no sample has it.
                let last = share(last.used_bytes, last.limit_bytes);
                assert!(last > 0.95 || is_ramp(&trace), "{}", trace.name);
                let beyond = at as f64 / 1e9 - trace.duration_secs();
                assert!((0.0..0.1).contains(&beyond), "{}: {beyond}", trace.name);
            }
            None => assert!(top < 1.0, "{}: {top}", trace.name),
        }
    }
}

#[test]
fn torch_traces_have_what_is_held_and_workers_have_their_part() {
    for trace in committed() {
        let torch = trace.name.starts_with("gpu/");
        assert!(
            trace
                .points
                .iter()
                .all(|point| point.held_bytes.is_some() == torch)
        );
        assert!(
            trace
                .points
                .iter()
                .all(|point| point.step.is_some() == torch)
        );
        let middle = &trace.points[trace.points.len() / 2];
        if ["real/copy-on-write", "real/workers-leak"].contains(&trace.name.as_str()) {
            assert!(
                middle.children_bytes.unwrap() > 0.5 * middle.used_bytes,
                "{}",
                trace.name
            );
        }
        if trace.name == "real/page-cache" {
            assert!(middle.reclaimable_bytes > 0.5 * middle.used_bytes);
        }
        let marks = trace
            .points
            .iter()
            .filter(|point| point.mark.is_some())
            .count();
        assert_eq!(marks > 0, trace.name == "gpu/eval-bump", "{}", trace.name);
    }
}

#[test]
fn what_is_no_trace_fails_with_a_sentence_and_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let failure = || format!("{}", read_folder(folder.path()).unwrap_err());
    assert!(failure().contains("cannot read"));
    fs::write(folder.path().join("labels.json"), "{}").unwrap();
    assert!(failure().starts_with("not a list of labels"));
    let label =
        r#"[{"trace": "a.csv", "cap_bytes": 1, "leak": null, "oom_at_s": null, "note": ""}]"#;
    fs::write(folder.path().join("labels.json"), label).unwrap();
    assert!(failure().ends_with("a.csv"));
    for (text, expected) in [
        ("", "no column time_secs"),
        ("time_secs\n", "no column used_bytes"),
        (
            "time_secs,used_bytes\n0,1\n0,2\n",
            "line 3: time does not ascend",
        ),
        (
            "time_secs,used_bytes\n0,x\n",
            "line 2: \"x\" is not a number",
        ),
        ("time_secs,used_bytes\n0\n", "line 2: \"\" is not a number"),
        (
            "time_secs,used_bytes\nNaN,1\n",
            "line 2: \"NaN\" is not a number",
        ),
    ] {
        fs::write(folder.path().join("a.csv"), text).unwrap();
        assert!(failure().starts_with(expected), "{text:?}: {}", failure());
    }
}
