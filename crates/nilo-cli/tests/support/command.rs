//! The command, run on made-up runs. Not in `mod.rs`: an example uses that too, and has no command.

// Each program that includes this file uses another part of it.
#![allow(dead_code, clippy::unwrap_used, unreachable_pub)]

use std::path::Path;
use std::process::{Command, Output};

/// `nilo` in a folder, with nothing of our own environment.
pub fn command(here: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nilo"));
    command.args(arguments).current_dir(here).env_clear();
    command.env("PATH", "/usr/bin:/bin").env("TZ", "UTC");
    command
}

/// Runs `nilo` in a folder whose runs are below `runs`.
pub fn nilo(root: &Path, arguments: &[&str]) -> Output {
    let mut command = command(root, arguments);
    command.env("NILO_DIR", root.join("runs")).output().unwrap()
}

/// Runs `nilo` in a folder whose runs are where it looks for them itself, with this fallback folder instead of everybody's.
pub fn nilo_by_itself(here: &Path, arguments: &[&str]) -> Output {
    let mut command = command(here, arguments);
    command.env("TMPDIR", here).output().unwrap()
}

/// What a command wrote and how it ended.
pub fn transcript_of(arguments: &[&str], output: &Output) -> String {
    format!(
        "$ nilo {}\nexit status: {}\n--- stdout\n{}--- stderr\n{}",
        arguments.join(" "),
        output.status.code().unwrap(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    )
}

/// The transcript of `nilo`, with the temporary folder replaced.
pub fn transcript(root: &Path, arguments: &[&str]) -> String {
    let text = transcript_of(arguments, &nilo(root, arguments));
    text.replace(&root.display().to_string(), "HERE")
}
