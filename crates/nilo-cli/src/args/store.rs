//! What `nilo verify`, `nilo rm` and `nilo prune` take.

use clap::Args;

use crate::complete_runs::run_names;

use super::values::{age, number, recorded_text};
use super::{RUN_HELP, TextOrJson};
use crate::folder::RunsDir;

#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 no damage, 1 damage found, 2 a run or one of its files could not be checked \
(not found, not readable, or written by a later version).\n\n\
A run that lost rows because the disk was full is incomplete, not damaged: what was stored is intact."
)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) place: RunsDir,

    #[arg(value_name = "RUN", add = run_names(), value_parser = recorded_text(), help = RUN_HELP)]
    pub(crate) run: Option<String>,

    /// Check all runs in the folder
    #[arg(long, conflicts_with = "run")]
    pub(crate) all: bool,

    /// Output format
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Only run folders are deleted; symbolic links are neither deleted nor followed. If one of the names is wrong, nothing is deleted.\n\n\
Examples:\n  nilo rm last\n  nilo rm base 20261115-0755"
)]
pub(crate) struct RmArgs {
    #[command(flatten)]
    pub(crate) place: RunsDir,

    /// Runs, as for `nilo show`
    #[arg(value_name = "RUN", add = run_names(), value_parser = recorded_text(), required = true)]
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

    /// Keep the newest N runs
    #[arg(long, value_name = "N", value_parser = number::<usize, 0, { u64::MAX }>)]
    pub(crate) keep: Option<usize>,

    /// Delete only runs older than this, such as 30d
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub(crate) older_than: Option<u64>,

    /// Only print what would be deleted
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,

    /// Output format
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}
