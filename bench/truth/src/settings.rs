//! The command line of the harness.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Compares recorded memory with the exact set of distinct pages.
#[derive(Debug, Parser)]
#[command(version)]
pub struct TruthArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: TruthCommand,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum TruthCommand {
    /// Record jobs and compare; needs root.
    Measure(Measure),
    /// Be one of the jobs; the harness starts this below `nilo run`.
    Job(JobArgs),
}

/// How to measure.
#[derive(Debug, Clone, Args)]
pub struct Measure {
    /// The nilo command to judge.
    #[arg(long)]
    pub nilo: PathBuf,
    /// Jobs to run, in this order.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [JobKind::Epochs, JobKind::Forks, JobKind::SharedFile, JobKind::SharedMemory, JobKind::ShortWorkers, JobKind::LateCopies, JobKind::GrowingWorkers, JobKind::DoubleMaps, JobKind::Random])]
    pub jobs: Vec<JobKind>,
    /// Seeds of the random jobs.
    #[arg(long, value_delimiter = ',', default_values_t = [1])]
    pub seeds: Vec<u64>,
    /// Length of the random job.
    #[arg(long, default_value_t = 30)]
    pub seconds: u64,
    /// Processes of the fork jobs.
    #[arg(long, default_value_t = 300)]
    pub forks: u32,
    /// Exit with status 1 when a goal is missed at stable moments.
    #[arg(long)]
    pub check: bool,
    /// Write each moment to this CSV file.
    #[arg(long)]
    pub moments: Option<PathBuf>,
    /// Write the page of results.
    #[arg(long)]
    pub markdown: Option<PathBuf>,
    /// A command to measure instead of the jobs.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// The job to be.
#[derive(Debug, Clone, Args)]
pub struct JobArgs {
    /// Which.
    #[arg(value_enum)]
    pub kind: JobKind,
    /// Seed of the random job.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Length of the random job.
    #[arg(long, default_value_t = 30)]
    pub seconds: u64,
    /// Processes of the fork jobs.
    #[arg(long, default_value_t = 300)]
    pub forks: u32,
    /// A folder for files that processes share.
    #[arg(long)]
    pub folder: PathBuf,
    /// Descriptor of the memory in which a random job counts its processes, kept across `exec`.
    #[arg(long)]
    pub census: Option<i32>,
    /// Monotonic time at which a random job ends, kept across `exec`.
    #[arg(long)]
    pub end_nanos: Option<u64>,
}

/// The trees that are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum JobKind {
    /// A parent with 400 MB that forks six workers for each of three epochs, as a DataLoader does.
    Epochs,
    /// A small parent that forks many children which write some of their inherited memory.
    Forks,
    /// Two processes that map one 400 MB file, which a stranger maps as well.
    SharedFile,
    /// A parent whose 24 workers of each of two epochs read 160 MB of shared memory, beside a busy loop for each core.
    SharedMemory,
    /// A parent with 300 MB whose workers rewrite 30 MB each, and live for one to three samples.
    ShortWorkers,
    /// A parent with 300 MB whose workers rewrite 25 to 45 MB each, two seconds after they were forked and 0.6 s before they end.
    LateCopies,
    /// A parent with 100 MB in huge pages that forks 300 workers, each of which takes 1 MB in small ones.
    GrowingWorkers,
    /// A process that has mapped a file and a memory descriptor twice, and workers that read all of it.
    DoubleMaps,
    /// Everything in random order: fork, exit, exec, write, free, files, shared memory, huge pages, threads.
    Random,
    /// The same for a quarter of the time, beside a busy loop for each core.
    Busy,
    /// The command after `--`.
    #[value(skip)]
    Command,
}

impl JobKind {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            JobKind::Epochs => "epochs",
            JobKind::Forks => "forks",
            JobKind::SharedFile => "shared-file",
            JobKind::SharedMemory => "shared-memory",
            JobKind::ShortWorkers => "short-workers",
            JobKind::LateCopies => "late-copies",
            JobKind::GrowingWorkers => "growing-workers",
            JobKind::DoubleMaps => "double-maps",
            JobKind::Random => "random",
            JobKind::Busy => "busy",
            JobKind::Command => "command",
        }
    }
}
