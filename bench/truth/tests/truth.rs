//! The harness against the `nilo` of this build: short jobs of every kind, judged by the goals.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test")]

use std::path::PathBuf;
use std::process::Command;

/// The command that was built beside the harness.
fn nilo() -> PathBuf {
    let harness = PathBuf::from(env!("CARGO_BIN_EXE_nilo-truth-bench"));
    let nilo = harness.with_file_name("nilo");
    assert!(
        nilo.exists(),
        "{} is missing: build the workspace",
        nilo.display()
    );
    nilo
}

fn meets_the_goals(arguments: &[&str]) {
    // SAFETY: asks for a number and changes nothing.
    if unsafe { libc::geteuid() } != 0 {
        assert!(
            std::env::var_os("CI").is_none_or(|value| value != "true"),
            "CI tests run as root"
        );
        eprintln!("not tested: only root can see which pages processes hold");
        return;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_nilo-truth-bench"))
        .args(["measure", "--check", "--nilo"])
        .arg(nilo())
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let trouble = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{trouble}");
}

#[test]
fn forked_workers_of_three_epochs_count_what_they_hold() {
    meets_the_goals(&["--jobs", "epochs"]);
}

#[test]
fn three_hundred_forks_count_what_they_copied() {
    meets_the_goals(&["--jobs", "forks"]);
}

#[test]
fn a_file_that_strangers_map_counts_in_full() {
    meets_the_goals(&["--jobs", "shared-file"]);
}

#[test]
fn workers_that_read_shared_memory_on_a_busy_machine_raise_no_peak() {
    meets_the_goals(&["--jobs", "shared-memory"]);
}

#[test]
fn growth_of_workers_whose_parent_has_huge_pages_counts_once() {
    meets_the_goals(&["--jobs", "growing-workers"]);
}

#[test]
fn what_a_process_maps_twice_counts_once_in_curve_and_peak() {
    meets_the_goals(&["--jobs", "double-maps"]);
}

#[test]
fn a_random_tree_is_right_whenever_it_is_stable() {
    meets_the_goals(&["--jobs", "random", "--seeds", "1", "--seconds", "30"]);
}
