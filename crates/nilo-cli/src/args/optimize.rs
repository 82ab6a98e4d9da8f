//! What `nilo optimize` takes.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::complete_runs::run_names;

use super::values::{interval, recorded_text, run_name};
use super::{RUN_HELP, TextOrJson};
use crate::folder::RunsDir;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OptimizeModeArg {
    /// All recommendations, what was tried with its measured effect, and what was not measured
    Full,
    /// The model, batches, the data loader, GPU memory and garbage collection
    Training,
    /// The three best recommendations
    Quick,
}

#[derive(Debug, Args)]
#[command(
    after_help = "With a command it is recorded first, as by `nilo run`, and the exit status is the command's; the recommendations follow its output. \
Recommendations come from rules over measured values; a rule whose inputs were not measured is skipped. Savings are estimates, unless the run itself \
measured them before and after (nilometer.optimize). Programs that use the Python package provide more data about their model, loader and buffers.\n\n\
The configuration is JSON; `nilo optimize --template` prints one with every setting. Memory is compared with max_memory_usage_gb \
if the file sets it.\n\n\
Exit status: 0 success, 2 an error; with a command, that of the command.\n\n\
Examples:\n  nilo optimize\n  nilo optimize base --mode training\n  nilo optimize --mode quick -- python train.py\n  \
nilo optimize --template > memory.json\n  nilo optimize --config memory.json --report report.md"
)]
pub(crate) struct OptimizeArgs {
    #[command(flatten)]
    pub(crate) place: RunsDir,

    #[arg(value_name = "RUN", add = run_names(), value_parser = recorded_text(), help = RUN_HELP, conflicts_with = "command")]
    pub(crate) run: Option<String>,

    /// What to report
    #[arg(long, value_enum, default_value_t = OptimizeModeArg::Full)]
    pub(crate) mode: OptimizeModeArg,

    /// JSON file with budgets and thresholds to judge by
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Also write a report: Markdown to FILE.md, JSON to FILE.json
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,

    /// Print a configuration with every setting and its default
    #[arg(long, conflicts_with_all = ["run", "command", "config", "report"])]
    pub(crate) template: bool,

    /// Output format; json is refused with a command, whose output goes to standard output: use --report FILE.json
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,

    /// Name of the recorded run
    #[arg(long, value_name = "NAME", value_parser = run_name(), requires = "command")]
    pub(crate) name: Option<String>,

    /// Time between samples of the command: seconds, or with a unit such as 50ms [default: 0.1]
    #[arg(long, short, env = "NILO_INTERVAL", value_name = "TIME", value_parser = interval, allow_hyphen_values = true)]
    pub(crate) interval: Option<u64>,

    /// Disable the Python hooks, as for `nilo run`
    #[arg(long, requires = "command")]
    pub(crate) no_hooks: bool,

    /// A command to record first, and its arguments, after --
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}
