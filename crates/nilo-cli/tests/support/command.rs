//! The command, run on made-up runs. Not in `mod.rs`: an example uses that too, and has no command.

#![allow(clippy::unwrap_used, unreachable_pub)]

use std::path::Path;
use std::process::{Command, Output};

/// Runs `nilo` in a folder whose runs are below `runs`.
pub fn nilo(root: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nilo"))
        .args(arguments)
        .current_dir(root)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("TZ", "UTC")
        .env("NILO_DIR", root.join("runs"))
        .output()
        .unwrap()
}

/// What a command wrote and how it ended, with the temporary folder replaced.
pub fn transcript(root: &Path, arguments: &[&str]) -> String {
    let output = nilo(root, arguments);
    let text = format!(
        "$ nilo {}\nexit status: {}\n--- stdout\n{}--- stderr\n{}",
        arguments.join(" "),
        output.status.code().unwrap(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    text.replace(&root.display().to_string(), "HERE")
}
