//! The `nilo` command: parse, settle the settings, call a command, print the error once.

use std::process::ExitCode;

fn main() -> ExitCode {
    nilo_cli::main(std::env::args_os())
}
