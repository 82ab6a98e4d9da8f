//! What `nilo request` takes.

use std::path::PathBuf;

use clap::Args;

use crate::complete_runs::run_names;

use super::TextOrJson;
use super::values::{planned_time, tag};
use crate::folder::RunsDir;

#[derive(Debug, Args)]
#[command(
    after_help = "Each run is one node. Runs belong to one job when program, script and options are the same; \
paths, seeds, learning rates, output folders and names do not count, batch sizes do.\n\n\
One run gives low confidence, three medium, eight that hardly differ high. A run that was killed for lack of memory \
shows only that it needed more: what follows from it is a guess.\n\n\
Examples:\n  nilo request\n  nilo request --all --cpus 8 --time 12:00:00\n  nilo request base base-2 base-3 --format json\n  \
sacct -P -o JobID,JobName,State,ReqMem,MaxRSS,Elapsed,ExitCode,NNodes,AllocTRES,TRESUsageInMax -j $SLURM_JOB_ID | nilo request --sacct -"
)]
pub(crate) struct RequestArgs {
    #[command(flatten)]
    pub(crate) place: RunsDir,

    /// Runs of the job, as for `nilo show` [default: the last, of this Slurm job if SLURM_JOB_ID is set]
    #[arg(value_name = "RUN", add = run_names())]
    pub(crate) runs: Vec<String>,

    /// Also every run of this name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Also every run with this tag; may be given several times
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = tag)]
    pub(crate) tags: Vec<(String, String)>,

    /// Also every other run of the same job; with --mix, of every job
    #[arg(long, short)]
    pub(crate) all: bool,

    /// How long the next run will take: 12:00:00, 2-00:00:00 or with a unit such as 90m
    #[arg(long, value_name = "TIME", value_parser = planned_time)]
    pub(crate) time: Option<u64>,

    /// CPUs on a node, for --mem-per-cpu
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) cpus: Option<u32>,

    /// GPUs on a node, for --mem-per-gpu [default: as many as a run used]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) gpus: Option<u32>,

    /// Take runs of different jobs as one
    #[arg(long)]
    pub(crate) mix: bool,

    /// Explain what `sacct -P` says of these runs; - reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) sacct: Option<PathBuf>,

    /// Output format
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}
