//! Where output goes: a dash is standard output, and a name tells the format.

use super::{refusal, stdout};
use crate::command::nilo_by_itself as nilo;
use crate::support::training_run;

#[test]
fn a_dash_is_standard_output() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    training_run(&here.join(".nilo"), "base", 4.0);
    for options in [
        &["export", "--long"][..],
        &["export", "--format", "json"],
        &["export", "--format", "parquet"],
    ] {
        let usual = nilo(here, options);
        let dashed = nilo(here, &[options, &["-o", "-"]].concat());
        assert!(usual.status.success() && !usual.stdout.is_empty());
        assert_eq!(dashed.stdout, usual.stdout, "{options:?}");
    }
    let svg = nilo(here, &["plot", "-o", "-"]);
    assert!(svg.stdout.starts_with(b"<svg"), "{svg:?}");
    assert!(svg.stderr.is_empty(), "{svg:?}");
    let png = nilo(here, &["plot", "-o", "-", "--format", "png"]);
    assert!(png.stdout.starts_with(b"\x89PNG"));
    assert!(!here.join("-").exists());
}

#[test]
fn a_dash_is_refused_where_standard_output_is_no_place_for_it() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    training_run(&here.join(".nilo"), "base", 4.0);
    std::fs::write(here.join("text"), "some words").unwrap();
    for arguments in [
        &["export", "--format", "tensorboard", "-o", "-"][..],
        &["run", "--json", "-", "--", "true"],
        &["run", "--memory-log", "-", "--", "true"],
        &["profile", "--duration", "1", "-o", "-"],
        &["monitor", "--duration", "1", "-o", "-"],
        &["bpe", "count", "text", "-o", "-"],
        &["bpe", "train", "text", "--vocab-size", "300", "-o", "-"],
        &["man", "--output", "-"],
    ] {
        let said = refusal(here, arguments);
        assert!(said.contains("standard output"), "{arguments:?}: {said}");
        assert!(said.contains("\nhint: "), "{arguments:?}: {said}");
        assert!(!here.join("-").exists(), "{arguments:?}");
    }
}

#[test]
fn a_format_is_chosen_for_a_name_without_an_extension() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    training_run(&here.join(".nilo"), "base", 4.0);
    let said = refusal(here, &["plot", "-o", "picture"]);
    assert!(said.contains("cannot tell the format of picture"), "{said}");
    stdout(here, &["plot", "-o", "picture", "--format", "png"]);
    let picture = std::fs::read(here.join("picture")).unwrap();
    assert!(picture.starts_with(b"\x89PNG"));
}

#[test]
fn what_is_read_is_never_written_over() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    training_run(&here.join(".nilo"), "base", 4.0);
    let mut entries = std::fs::read_dir(here.join(".nilo")).unwrap();
    let run = entries.find_map(|entry| {
        let file = entry.ok()?.path().join("run.json");
        file.is_file().then_some(file)
    });
    let run = run.unwrap().display().to_string();
    std::fs::write(here.join("config.json"), "{}").unwrap();
    std::fs::hard_link(here.join("config.json"), here.join("linked.json")).unwrap();
    std::fs::write(here.join("text"), "some words").unwrap();
    for (input, arguments) in [
        (&*run, &["export", "--format", "json", "-o", &run][..]),
        (&*run, &["plot", "--format", "svg", "-o", &run]),
        (&*run, &["optimize", "--report", &run]),
        (
            "config.json",
            &[
                "optimize",
                "--config",
                "config.json",
                "--report",
                "linked.json",
            ],
        ),
        ("text", &["bpe", "count", "text", "-o", "text"]),
    ] {
        let before = std::fs::read(here.join(input)).unwrap();
        let said = refusal(here, arguments);
        assert!(
            said.contains(" is both the input and the output\nhint: name another file with -"),
            "{arguments:?}: {said}"
        );
        assert_eq!(std::fs::read(here.join(input)).unwrap(), before);
    }
}

#[test]
fn an_export_to_a_file_of_an_unknown_format_is_refused() {
    let here = tempfile::tempdir().unwrap();
    let here = here.path();
    training_run(&here.join(".nilo"), "base", 4.0);
    let refused = nilo(here, &["export", "-o", "run.xyz"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("cannot tell the format of run.xyz") && said.contains("--format"));
    assert!(!here.join("run.xyz").exists());
    for arguments in [
        &["export", "-o", "plain"][..],
        &["export", "--format", "csv", "-o", "run.xyz"],
    ] {
        stdout(here, arguments);
        let written = std::fs::read(here.join(arguments.last().unwrap())).unwrap();
        assert!(written.starts_with(b"timestamp"), "{written:?}");
    }
}
