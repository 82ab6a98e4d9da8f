//! Everything that can be typed: the verbs, and what several of them share; one file in `args/` for each group of verbs.

mod bpe;
mod diagnose;
mod fit;
mod gpu;
mod help;
mod live;
mod look;
mod optimize;
mod picture;
mod record;
mod request;
mod snapshot;
mod store;
mod trust;
mod values;

use clap::{Parser, Subcommand, ValueEnum};

pub(crate) use bpe::{
    BpeArgs, BpeCountArgs, BpeDecodeArgs, BpeEncodeArgs, BpeTrainArgs, BpeVerb, IdsFormat,
    MemoryBudget, Texts, TieBreakArg,
};
pub(crate) use diagnose::{DiagnosisInput, LeakArgs, OomArgs};
pub(crate) use fit::{FitArgs, Variation, gpu_memory};
pub(crate) use gpu::GpuArgs;
pub(crate) use help::{CompletionsArgs, ManArgs};
pub(crate) use live::{LiveArgs, MonitorArgs, ProfileArgs};
pub(crate) use look::{CompareArgs, RunsArgs, ShowArgs};
pub(crate) use optimize::{OptimizeArgs, OptimizeModeArg};
pub(crate) use picture::{ExportArgs, ExportFormat, PlotArgs, PlotFormat, XAxisArg};
pub(crate) use record::{
    AlertArgs, LiveMode, MarkArgs, PsArgs, RunArgs, SamplingArgs, WEBHOOK_VARIABLE, WatchArgs,
};
pub(crate) use request::RequestArgs;
pub(crate) use snapshot::{
    FlameFormat, SnapshotArgs, SnapshotDiffArgs, SnapshotFlameArgs, SnapshotGpu, SnapshotHtmlArgs,
    SnapshotLeaksArgs, SnapshotSummaryArgs, SnapshotVerb, SnapshotWhatIfArgs, SnapshotWhyArgs,
    TraceAnswerArgs,
};
pub(crate) use store::{PruneArgs, RmArgs, VerifyArgs};
pub(crate) use trust::TrustArgs;
pub(crate) use values::interval;

/// The memory gauge for training jobs: how much memory a job uses, which process uses it, and how the job ended.
#[derive(Debug, Parser)]
#[command(
    name = "nilo",
    version,
    propagate_version = false,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = "Exit status: `nilo run` returns the status of its command (128+signal if it was killed). \
Other commands return 0 if nothing was found, 1 if something was found, 2 on errors.\n\n\
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
    /// List processes that can be watched
    Ps(PsArgs),
    /// Add a mark with a text to the current run
    Mark(MarkArgs),
    /// List recorded runs
    Runs(RunsArgs),
    /// Show the memory use of a run, its processes and how it ended
    Show(ShowArgs),
    /// Compare runs with a baseline run
    Compare(CompareArgs),
    /// Recommend how much memory to request from a scheduler, based on recorded runs
    Request(RequestArgs),
    /// Recommend memory optimizations for a run, or for a command that is recorded first
    Optimize(OptimizeArgs),
    /// Predict whether and when memory will run out
    Oom(OomArgs),
    /// Find memory leaks
    Leak(LeakArgs),
    /// Explain a PyTorch GPU memory snapshot: peaks, fragmentation, failed allocations, other allocator settings
    Snapshot(SnapshotArgs),
    /// Estimate the GPU memory of a model before it runs, and find what makes it fit
    Fit(FitArgs),
    /// Check a GPU: memory in use, measured throughput, and which known models fit
    Gpu(GpuArgs),
    /// Measure GPUs, the host and processes for a while and write a report
    Profile(ProfileArgs),
    /// Monitor a running job: memory use, warnings, leaks, and a report at the end
    Monitor(MonitorArgs),
    /// Train a byte-level BPE tokenizer within a memory budget; encode and decode text
    Bpe(BpeArgs),
    /// Plot memory and metrics of one run, or of several runs for comparison
    Plot(PlotArgs),
    /// Export a run as CSV, JSON, Parquet or TensorBoard events
    Export(ExportArgs),
    /// Check the files of a run for damage
    Verify(VerifyArgs),
    /// Delete runs
    Rm(RmArgs),
    /// Delete old runs
    Prune(PruneArgs),
    /// Approve the settings file of a project so that all its settings take effect
    Trust(TrustArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print the manual page, or write all manual pages into a folder
    Man(ManArgs),
}

/// Which run is meant.
const RUN_HELP: &str = "Run: an id or its first characters, a name, a folder, `last`, or `last~1` for the one before [default: last]";

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
