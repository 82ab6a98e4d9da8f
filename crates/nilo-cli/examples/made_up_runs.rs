//! Writes the runs that the tests use into a folder: `cargo run -p nilo-cli --example made_up_runs -- FOLDER`.

#[path = "../tests/support/mod.rs"]
mod support;

use std::path::PathBuf;

fn main() {
    let root = std::env::args_os().nth(1);
    let root = PathBuf::from(root.expect("usage: made_up_runs FOLDER"));
    support::training_run(&root, "base", 4.0);
    support::training_run(&root, "better", 3.0);
    support::resumed_run(&root);
    support::hostile_run(&root);
    support::wide_run(&root);
}
