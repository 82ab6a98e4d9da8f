//! `nilo completions`: a script that makes the shell ask nilo itself what can be typed, the names of recorded runs among it.

use clap_complete::env::{CompleteEnv, Shells};

use crate::args::CompletionsArgs;
use crate::failure::Failure;

/// Set by the script when the shell asks. A name of our own: whatever else a user has set must not keep a job from running.
const VARIABLE: &str = "NILO_COMPLETE";

pub(crate) fn run(args: CompletionsArgs) -> Result<u8, Failure> {
    let name = args.shell.to_string();
    let shells = Shells::builtins();
    let Some(shell) = shells.completer(&name) else {
        return Err(Failure::new(format!("no completions for {name}")));
    };
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, "nilo", "nilo", "nilo", &mut script)?;
    std::io::Write::write_all(&mut std::io::stdout().lock(), &script)?;
    Ok(0)
}

/// Answers the shell and ends the process, where it is the shell that asks.
pub(crate) fn answer_shell(command: impl Fn() -> clap::Command) {
    CompleteEnv::with_factory(command).var(VARIABLE).complete();
}
