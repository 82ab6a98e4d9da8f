//! `nilo gpu` on a machine without a GPU, as transcripts; tests/python has a fake driver.

// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

#[path = "support/command.rs"]
mod command;

use command::{command, transcript_of};

/// What `nilo gpu` says where no driver is asked.
fn transcript(arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut nilo = command(folder.path(), arguments);
    // Empty, no GPU is looked for.
    let output = nilo.env("NILO_NVML", "").output().unwrap();
    transcript_of(arguments, &output)
}

#[test]
fn without_a_gpu_models_are_compared_with_common_ones() {
    insta::assert_snapshot!("gpu-none", transcript(&["gpu"]));
}

#[test]
fn what_does_not_fit_comes_with_what_would_make_it_fit() {
    let models = "gpt2,deepseek-math-7b,deepseek-v3";
    let asked = ["gpu", "--gpu", "t4", "--models", models];
    insta::assert_snapshot!("gpu-t4", transcript(&asked));
}

#[test]
fn a_device_needs_a_gpu() {
    insta::assert_snapshot!("gpu-no-device", transcript(&["gpu", "--device", "0"]));
}
