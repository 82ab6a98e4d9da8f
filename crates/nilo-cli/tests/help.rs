//! Every help text and the commonest errors, as transcripts.

#[path = "support/command.rs"]
mod command;

use command::{command, transcript_of};

/// Runs `nilo` in an empty folder and writes down everything it said.
fn transcript(arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = command(folder.path(), arguments).output();
    transcript_of(arguments, &output.expect("nilo starts"))
}

#[test]
fn help_texts() {
    insta::assert_snapshot!("help", transcript(&["--help"]));
    for verb in [
        "run",
        "watch",
        "ps",
        "mark",
        "runs",
        "show",
        "compare",
        "request",
        "optimize",
        "oom",
        "leak",
        "snapshot",
        "fit",
        "gpu",
        "profile",
        "monitor",
        "bpe",
        "plot",
        "export",
        "verify",
        "rm",
        "prune",
        "trust",
        "completions",
        "man",
    ] {
        insta::assert_snapshot!(format!("help-{verb}"), transcript(&[verb, "--help"]));
    }
    for verb in ["train", "count", "encode", "decode"] {
        let help = transcript(&["bpe", verb, "--help"]);
        insta::assert_snapshot!(format!("help-bpe-{verb}"), help);
    }
    for verb in ["summary", "why", "whatif", "leaks", "diff", "flame", "html"] {
        let help = transcript(&["snapshot", verb, "--help"]);
        insta::assert_snapshot!(format!("help-snapshot-{verb}"), help);
    }
}

#[test]
fn errors_are_one_sentence_and_a_hint() {
    for (name, arguments) in [
        ("no-verb", &[][..]),
        ("unknown-verb", &["rnu"]),
        ("run-unknown-command", &["run", "--", "no-such-command"]),
        (
            "run-interval-zero",
            &["run", "--interval", "0", "--", "true"],
        ),
        (
            "run-interval-negative",
            &["run", "--interval", "-1", "--", "true"],
        ),
        (
            "run-unknown-option",
            &["run", "--intervall", "1", "--", "true"],
        ),
        ("run-nothing", &["run", "--dir", "x"]),
        ("watch-nobody", &["watch"]),
        ("watch-no-such-pid", &["watch", "--pid", "4000000"]),
        (
            "watch-no-match",
            &["watch", "--name", "no-such-program-anywhere"],
        ),
        ("profile-no-such-pid", &["profile", "--pid", "4000000"]),
        (
            "profile-duration-negative",
            &["profile", "--duration", "-5"],
        ),
        (
            "oom-monitor-threshold",
            &["oom", "--monitor", "--threshold", "850"],
        ),
        (
            "leak-too-short",
            &["leak", "--check", "--pid", "1", "--duration", "5"],
        ),
        ("monitor-run", &["oom", "last", "--monitor"]),
        ("mark-outside", &["mark", "x"]),
        ("show-nothing", &["show"]),
        ("show-unknown-option", &["show", "--al"]),
        ("verify-nothing", &["verify", "--all"]),
        ("rm-nothing", &["rm", "base"]),
        ("prune-nothing-asked", &["prune"]),
        ("optimize-nothing", &["optimize"]),
        (
            "optimize-report-kind",
            &["optimize", "--report", "report.txt", "--", "true"],
        ),
        (
            "optimize-json-and-command",
            &["optimize", "--format", "json", "--", "true"],
        ),
        ("optimize-no-command", &["optimize", "--"]),
        (
            "optimize-run-and-command",
            &["optimize", "base", "--", "true"],
        ),
        ("gpu-unknown-model", &["gpu", "--models", "llama-9b"]),
        ("gpu-unknown-gpu", &["gpu", "--gpu", "voodoo"]),
        (
            "gpu-named-and-device",
            &["gpu", "--gpu", "t4", "--device", "0"],
        ),
        ("runs-empty", &["runs"]),
    ] {
        insta::assert_snapshot!(format!("error-{name}"), transcript(arguments));
    }
}
