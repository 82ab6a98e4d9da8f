//! What `nilo verify`, `nilo rm` and `nilo prune` take.

use clap::Args;

use crate::complete_runs::run_names;

use super::values::duration;
use super::{OutputFormat, RUN_HELP, TextOrJson};
use crate::folder::RunsDir;

#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 nothing is damaged, 1 something is, 2 a run or one of its files could not be checked \
(it is not there, may not be read, or comes from a later version).\n\n\
A run that lost rows for lack of space is incomplete, not damaged: what was stored is whole."
)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) place: RunsDir,

    #[arg(value_name = "RUN", add = run_names(), help = RUN_HELP)]
    pub(crate) run: Option<String>,

    /// Check every run of the folder
    #[arg(long, conflicts_with = "run")]
    pub(crate) all: bool,

    /// Output format
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Only folders of runs are deleted; links are neither deleted nor followed. Nothing is deleted when one of the names is wrong.\n\n\
Examples:\n  nilo rm last\n  nilo rm base 20261115-0755"
)]
pub(crate) struct RmArgs {
    #[command(flatten)]
    pub(crate) place: RunsDir,

    /// Runs, as for `nilo show`
    #[arg(value_name = "RUN", add = run_names(), required = true)]
    pub(crate) runs: Vec<String>,

    /// Also delete a run that is still being recorded
    #[arg(long, short)]
    pub(crate) force: bool,

    /// Output format
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("which").required(true).multiple(true).args(["keep", "older_than"]),
    after_help = "Runs that are still being recorded are never deleted.\n\n\
Examples:\n  nilo prune --keep 20\n  nilo prune --older-than 30d --dry-run"
)]
pub(crate) struct PruneArgs {
    #[command(flatten)]
    pub(crate) place: RunsDir,

    /// Keep the newest this many
    #[arg(long, value_name = "N")]
    pub(crate) keep: Option<usize>,

    /// Delete only what is older than this, such as 30d
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) older_than: Option<u64>,

    /// Only say what would be deleted
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,

    /// Output format
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}
