//! `nilo-truth-bench`: compares what `nilo run` records with the exact number of distinct pages that the job holds.
//!
//! The same binary is the job (`nilo-truth-bench job …`) and the judge.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use nilo_truth_bench::settings::{TruthArgs, TruthCommand};

fn main() -> ExitCode {
    let settings = TruthArgs::parse();
    let outcome = match settings.verb {
        TruthCommand::Job(job) => nilo_truth_bench::jobs::perform(&job),
        TruthCommand::Measure(measure) => {
            nilo_truth_bench::measure::run(&measure, &mut io::stdout().lock())
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Nothing more can be done if stderr is closed.
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::from(2)
        }
    }
}
