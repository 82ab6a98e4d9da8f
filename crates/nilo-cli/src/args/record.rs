//! What `nilo run`, `watch`, `ps` and `mark` take: which processes to record, how often, and where alerts go.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use nilo_recorder::Privacy;

use super::OutputFormat;
use super::values::{duration, interval, pid, recorded_text, run_name, tag};
use crate::folder::RunsDir;

/// The variable that stands in for `--alert-webhook`.
pub(crate) const WEBHOOK_VARIABLE: &str = "NILO_ALERT_WEBHOOK";

/// How to sample.
#[derive(Debug, Args)]
pub(crate) struct SamplingArgs {
    /// Time between samples: seconds, or with a unit such as 50ms; 1 ms to 1 h [default: 0.1; 1 for watch]
    #[arg(long, short, env = "NILO_INTERVAL", value_name = "TIME", value_parser = interval, allow_hyphen_values = true)]
    pub(crate) interval: Option<u64>,

    /// Also write time, memory and CPU of each sample to this CSV file
    #[arg(long, value_name = "FILE.csv", alias = "save-log")]
    pub(crate) memory_log: Option<PathBuf>,

    /// Write the summary as JSON to this file at the end
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Tag for the run; may be given several times
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = tag())]
    pub(crate) tags: Vec<(String, String)>,

    /// Print no summary and show nothing while the job runs
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// Do not redact tokens, keys and passwords in command lines and settings (also NILO_KEEP_SECRETS=1)
    #[arg(long)]
    pub(crate) keep_secrets: bool,

    /// Let other users read the run folder, as your umask allows; by default it is private (also NILO_SHARED=1)
    #[arg(long)]
    pub(crate) shared: bool,

    /// When to show memory use while the job runs
    #[arg(long, value_enum, default_value_t = LiveMode::Auto, value_name = "WHEN")]
    pub(crate) live: LiveMode,
}

impl SamplingArgs {
    /// What the recording may tell, and to whom.
    pub(crate) fn privacy(&self) -> Privacy {
        Privacy {
            keep_secrets: self.keep_secrets,
            shared: self.shared,
        }
    }
}

const ALERTS: &str = "Alerts";

/// Where alerts go.
#[derive(Debug, Args)]
pub(crate) struct AlertArgs {
    /// Run this shell command for each alert, with the alert as JSON on standard input; it is stopped 5 seconds after the job ends
    #[arg(long, help_heading = ALERTS, value_name = "CMD", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) on_alert: Option<String>,

    /// Post each alert as JSON to this URL
    #[arg(
        long,
        help_heading = ALERTS,
        env = WEBHOOK_VARIABLE,
        hide_env_values = true,
        value_name = "URL"
    )]
    pub(crate) alert_webhook: Option<String>,

    /// Send this signal, such as USR1, to the job's root process when an alert is raised
    #[arg(long, help_heading = ALERTS, value_name = "NAME")]
    pub(crate) alert_signal: Option<String>,

    /// Disable alerts
    #[arg(long, help_heading = ALERTS, conflicts_with_all = ["on_alert", "alert_signal"])]
    pub(crate) no_alerts: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LiveMode {
    /// On a terminal: `watch` prints a status line; `run` sets the window title while the command prints nothing
    Auto,
    /// Also when output is a pipe or a file: one line per second
    Always,
    /// Never
    Never,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The command sees NILO_RUN_DIR, so `nilo mark` works from inside it.\n\
The exit status is the command's. When a signal such as INT or TERM ends the command, nilo is terminated by the same signal; \
after a crash (SEGV, ABRT, ...) or KILL it exits with 128 + signal.\n\n\
Examples:\n  nilo run -- python train.py --epochs 3\n  nilo run --interval 0.01 --memory-log mem.csv -- ./job.sh\n  \
nilo run --name base --tag lr=3e-4 -- torchrun --nproc-per-node 2 train.py"
)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) place: RunsDir,

    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,

    /// Name of the run
    #[arg(long, value_name = "NAME", value_parser = run_name())]
    pub(crate) name: Option<String>,

    /// Wait until every process of the job has ended, daemons included
    ///
    /// While the command runs, INT and TERM go to it as usual, and the processes it leaves behind are still waited for.
    /// After that, INT, TERM, HUP or QUIT ends the wait: what still runs is left alone and listed in the summary, and nilo is terminated by that signal.
    #[arg(long)]
    pub(crate) wait_all: bool,

    /// Disable the Python hooks, which record unhandled exceptions and PyTorch's GPU memory (also NILO_HOOKS=0)
    #[arg(long)]
    pub(crate) no_hooks: bool,

    #[command(flatten)]
    pub(crate) alerts: AlertArgs,

    /// The command and its arguments, after --
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("whom").required(true).multiple(false).args(["pid", "name_pattern"]),
    after_help = "Examples:\n  nilo watch --pid 4711 4712\n  nilo watch --name train.py --duration 5m\n  \
nilo watch --name 'python*worker*' --all --interval 1"
)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    pub(crate) place: RunsDir,

    /// Processes to watch, with all their descendants
    #[arg(
        long, short, value_name = "PID", num_args = 1.., value_delimiter = ',',
        value_parser = pid
    )]
    pub(crate) pid: Vec<u32>,

    /// Watch the process whose name or command line contains this; * and ? are wildcards
    #[arg(
        long = "name",
        alias = "process-name",
        short,
        value_name = "PATTERN",
        id = "name_pattern"
    )]
    pub(crate) name_pattern: Option<String>,

    /// Watch every process that matches; without this, several matches are an error
    #[arg(long)]
    pub(crate) all: bool,

    /// Stop after this long: seconds, or with a unit such as 5m
    #[arg(long, short, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) duration: Option<u64>,

    /// Name of the recorded run
    #[arg(long, value_name = "NAME", value_parser = run_name())]
    pub(crate) run_name: Option<String>,

    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,

    #[command(flatten)]
    pub(crate) alerts: AlertArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "With --gpu, each row has CPU, host memory and the GPU memory that the process holds, including its CUDA context. \
Values that the driver does not report are shown as `-`.\n\n\
Exit status: 0 listed, 2 error, such as --gpu without a GPU.\n\n\
Examples:\n  nilo ps --python\n  nilo ps --gpu --all"
)]
pub(crate) struct PsArgs {
    /// Processes that hold GPU memory, one row for each process and GPU
    #[arg(long)]
    pub(crate) gpu: bool,

    /// Only Python programs
    #[arg(long)]
    pub(crate) python: bool,

    /// All processes of all users, not only the 25 largest of your own
    #[arg(long, short)]
    pub(crate) all: bool,

    /// Output format
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    pub(crate) format: OutputFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "Example, inside a job started by `nilo run`:\n  nilo mark \"epoch 3\"")]
pub(crate) struct MarkArgs {
    /// Text of the mark
    #[arg(value_name = "TEXT", value_parser = recorded_text())]
    pub(crate) text: String,

    /// Folder of the run [default: the current run]
    #[arg(long, env = "NILO_RUN_DIR", value_name = "RUN_DIR")]
    pub(crate) run_dir: Option<PathBuf>,
}
