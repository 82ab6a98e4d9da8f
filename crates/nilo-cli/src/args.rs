//! Everything that can be typed: the verbs, and what several of them share; one file in `args/` for each group of verbs.

mod bpe;
mod diagnose;
mod help;
mod live;
mod look;
mod picture;
mod record;
mod request;
mod store;
mod trust;
mod values;

use clap::{Parser, Subcommand, ValueEnum};

pub(crate) use bpe::{
    BpeArgs, BpeCountArgs, BpeDecodeArgs, BpeEncodeArgs, BpeTrainArgs, BpeVerb, IdsFormat,
    MemoryBudget, Texts, TieBreakArg,
};
pub(crate) use diagnose::{DiagnosisInput, LeakArgs, OomArgs};
pub(crate) use help::{CompletionsArgs, ManArgs};
pub(crate) use live::{LiveArgs, MonitorArgs, ProfileArgs};
pub(crate) use look::{CompareArgs, RunsArgs, ShowArgs};
pub(crate) use picture::{ExportArgs, ExportFormat, PlotArgs, XAxisArg};
pub(crate) use record::{AlertArgs, LiveMode, MarkArgs, PsArgs, RunArgs, SamplingArgs, WatchArgs};
pub(crate) use request::RequestArgs;
pub(crate) use store::{PruneArgs, RmArgs, VerifyArgs};
pub(crate) use trust::TrustArgs;
pub(crate) use values::interval;

/// The flood gauge for training jobs: how much memory a job takes, who takes it, and how it ended.
#[derive(Debug, Parser)]
#[command(
    name = "nilo",
    version,
    propagate_version = false,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = "Exit status: that of the command for `nilo run` (128+signal when killed); \
otherwise 0 nothing found, 1 something found, 2 could not do it.\n\n\
Examples:\n  nilo run -- python train.py\n  nilo watch --pid 4711\n  nilo show\n  nilo plot last -o memory.svg"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run a command and record the memory of its whole process tree
    Run(RunArgs),
    /// Attach to running processes and record them
    Watch(WatchArgs),
    /// List processes that could be watched
    Ps(PsArgs),
    /// Set a mark in the run that this is called from
    Mark(MarkArgs),
    /// List recorded runs
    Runs(RunsArgs),
    /// Show the memory use of a run, its processes and how it ended
    Show(ShowArgs),
    /// Compare runs with the first of them
    Compare(CompareArgs),
    /// Say how much memory to ask a scheduler for, from recorded runs of a job
    Request(RequestArgs),
    /// Predict whether and when memory runs out
    Oom(OomArgs),
    /// Find memory leaks
    Leak(LeakArgs),
    /// Measure GPUs, the host and processes for a while and write a report
    Profile(ProfileArgs),
    /// Look on while something runs: levels, warnings, leaks, and a report at the end
    Monitor(MonitorArgs),
    /// Train a tokenizer (byte-level BPE) within a stated memory, encode and decode with it
    Bpe(BpeArgs),
    /// Draw the memory and the metrics of one run, or of several over each other
    Plot(PlotArgs),
    /// Write a run as CSV, JSON, Parquet or for TensorBoard
    Export(ExportArgs),
    /// Check the files of a run
    Verify(VerifyArgs),
    /// Delete runs
    Rm(RmArgs),
    /// Delete old runs
    Prune(PruneArgs),
    /// Approve the settings file of a project, so that all of it takes effect
    Trust(TrustArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print the manual page, or write all of them into a folder
    Man(ManArgs),
}

/// Which run is meant.
const RUN_HELP: &str = "Run: its id or the beginning of it, its name, a folder, `last`, or `last~1` for the one before [default: last]";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    Text,
    Json,
    Csv,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TextOrJson {
    Text,
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
