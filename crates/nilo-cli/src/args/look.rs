//! What `nilo runs`, `show` and `compare` take.

use clap::Args;

use crate::complete_runs::run_names;

use super::values::{recorded_text, tag};
use super::{OutputFormat, RUN_HELP};
use crate::folder::RunsDir;

#[derive(Debug, Args)]
pub(crate) struct RunsArgs {
    #[command(flatten)]
    pub(crate) place: RunsDir,

    /// Only runs with this tag
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = tag())]
    pub(crate) tags: Vec<(String, String)>,

    /// Output format
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) place: RunsDir,

    #[arg(value_name = "RUN", add = run_names(), value_parser = recorded_text(), help = RUN_HELP)]
    pub(crate) run: Option<String>,

    /// Output format
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    pub(crate) format: OutputFormat,

    /// Show all processes and metrics, not only the largest processes and the first metrics
    #[arg(long, short)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    pub(crate) place: RunsDir,

    /// Runs to compare; the first is the baseline
    #[arg(value_name = "RUN", add = run_names(), value_parser = recorded_text(), num_args = 2.., required = true)]
    pub(crate) runs: Vec<String>,

    /// Output format
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    pub(crate) format: OutputFormat,

    /// Compare every metric that the runs have in common, not only the first
    #[arg(long, short)]
    pub(crate) all: bool,
}
