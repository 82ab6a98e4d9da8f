//! `nilo-verdict-bench`: scores forecasts of running out of memory and findings of leaks.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use nilo_verdict_bench::run::run;
use nilo_verdict_bench::settings::VerdictArgs;

fn main() -> ExitCode {
    match run(&VerdictArgs::parse(), &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing more can be done if stderr is closed.
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
