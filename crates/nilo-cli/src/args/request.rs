//! What `nilo request` takes.

use std::path::PathBuf;

use clap::Args;

use crate::complete_runs::run_names;

use super::TextOrJson;
use super::values::{number, planned_time, recorded_text, tag};
use crate::folder::RunsDir;

#[derive(Debug, Args)]
#[command(
    after_help = "Each run stands for one node. Runs belong to the same job if program, script and options are the same; \
paths, seeds, learning rates, output folders and names may differ, batch sizes may not.\n\n\
Confidence is low with one run, medium with three, high with eight similar ones. A run that was killed for lack of memory \
only shows that it needed more, so a recommendation based on it is a guess.\n\n\
Examples:\n  nilo request\n  nilo request --all --cpus 8 --time 12:00:00\n  nilo request base base-2 base-3 --format json\n  \
sacct -P -o JobID,JobName,State,ReqMem,MaxRSS,Elapsed,ExitCode,NNodes,AllocTRES,TRESUsageInMax -j $SLURM_JOB_ID | nilo request --sacct -"
)]
pub(crate) struct RequestArgs {
    #[command(flatten)]
    pub(crate) place: RunsDir,

    /// Runs of the job, as for `nilo show` [default: the last, of this Slurm job if SLURM_JOB_ID is set]
    #[arg(value_name = "RUN", add = run_names(), value_parser = recorded_text())]
    pub(crate) runs: Vec<String>,

    /// Also use all runs with this name
    #[arg(long, value_name = "NAME", value_parser = recorded_text())]
    pub(crate) name: Option<String>,

    /// Also use all runs with this tag; may be given several times
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = tag())]
    pub(crate) tags: Vec<(String, String)>,

    /// Also use all other runs of the same job; with --mix, of any job
    #[arg(long, short)]
    pub(crate) all: bool,

    /// How long the next run will take: 12:00:00, 2-00:00:00 or with a unit such as 90m
    #[arg(long, value_name = "TIME", value_parser = planned_time)]
    pub(crate) time: Option<u64>,

    /// CPUs per node, for --mem-per-cpu
    #[arg(long, value_name = "N", value_parser = number::<u32, 1, 65536>)]
    pub(crate) cpus: Option<u32>,

    /// GPUs per node, for --mem-per-gpu [default: as many as the runs used]
    #[arg(long, value_name = "N", value_parser = number::<u32, 1, 1024>)]
    pub(crate) gpus: Option<u32>,

    /// Treat runs of different jobs as one job
    #[arg(long)]
    pub(crate) mix: bool,

    /// Explain the output of `sacct -P` for these runs; - is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) sacct: Option<PathBuf>,

    /// Output format
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}
