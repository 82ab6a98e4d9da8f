//! What `nilo verify` and `nilo prune` take.

use clap::Args;

use super::values::duration;
use super::{Output, Place, RUN_HELP};

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) place: Place,

    #[arg(value_name = "RUN", help = RUN_HELP)]
    pub(crate) run: Option<String>,

    /// Check every run of the folder
    #[arg(long, conflicts_with = "run")]
    pub(crate) all: bool,

    /// Output format
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(crate) format: Output,
}

#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("which").required(true).multiple(true).args(["keep", "older_than"]),
    after_help = "Runs that are still being recorded are never deleted.\n\n\
Examples:\n  nilo prune --keep 20\n  nilo prune --older-than 30d --dry-run"
)]
pub(crate) struct PruneArgs {
    #[command(flatten)]
    pub(crate) place: Place,

    /// Keep the newest this many
    #[arg(long, value_name = "N")]
    pub(crate) keep: Option<usize>,

    /// Delete only what is older than this, such as 30d
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) older_than: Option<u64>,

    /// Only say what would be deleted
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
}
