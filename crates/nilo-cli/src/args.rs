//! Everything that can be typed: a flat list of verbs and their flags.

mod bpe;
mod live;
mod outlook;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use nilo_sample::units::{NANOS_PER_SEC, parse_duration, to_secs};

pub(crate) use bpe::{
    BpeArgs, BpeCountArgs, BpeDecodeArgs, BpeEncodeArgs, BpeTrainArgs, BpeVerb, IdsFormat, Means,
    OwnRecording, Texts, TieBreakArg,
};
pub(crate) use live::{LiveArgs, MonitorArgs, ProfileArgs};
pub(crate) use outlook::{Judged, LeakArgs, OomArgs};

/// The flood gauge for training jobs: how much memory a job takes, who takes it, and how it ended.
#[derive(Debug, Parser)]
#[command(
    name = "nilo",
    version,
    propagate_version = false,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = "Exit status: that of the command for `nilo run` (128+signal when killed); \
otherwise 0 nothing found, 1 something found, 2 could not do it.\n\n\
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
    /// Attach to processes that already run and record them
    Watch(WatchArgs),
    /// List processes that could be watched
    Ps(PsArgs),
    /// Set a mark in the run that this is called from
    Mark(MarkArgs),
    /// List recorded runs
    Runs(RunsArgs),
    /// Show what a run took, who took it and how it ended
    Show(ShowArgs),
    /// Compare runs with the first of them
    Compare(CompareArgs),
    /// Say how much memory to ask a scheduler for, from recorded runs of a job
    Request(RequestArgs),
    /// Say whether memory runs out, when, and how sure that is
    Oom(OomArgs),
    /// Find memory that grows without end
    Leak(LeakArgs),
    /// Measure GPUs, the host and processes for a while and write a report
    Profile(ProfileArgs),
    /// Look on while something runs: levels, warnings, leaks, and a report at the end
    Monitor(MonitorArgs),
    /// Train a tokenizer (byte-level BPE) within a stated memory, encode and decode with it
    Bpe(BpeArgs),
    /// Draw the memory and the metrics of one run, or of several over each other
    Plot(PlotArgs),
    /// Write a run as CSV, JSON, Parquet or for TensorBoard
    Export(ExportArgs),
    /// Check the files of a run
    Verify(VerifyArgs),
    /// Delete old runs
    Prune(PruneArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print the manual page, or write all of them into a folder
    Man(ManArgs),
}

/// Where runs are kept.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// Folder that holds the runs [default: ./.nilo]
    #[arg(long, env = "NILO_DIR", value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// How to sample.
#[derive(Debug, Args)]
pub(crate) struct Sampling {
    /// Time between samples: seconds, or with a unit such as 50ms; 1 ms to 1 h [default: 0.1; 1 for watch]
    #[arg(long, short, env = "NILO_INTERVAL", value_name = "TIME", value_parser = interval, allow_hyphen_values = true)]
    pub(crate) interval: Option<u64>,

    /// Also write time, memory and CPU of each sample to this CSV file
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) memory_log: Option<PathBuf>,

    /// Write the summary as JSON to this file at the end
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// A tag of the run; may be given several times
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = tag)]
    pub(crate) tags: Vec<(String, String)>,

    /// Print neither the live line nor the summary
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// When to show the live line
    #[arg(long, value_enum, default_value_t = Live::Auto, value_name = "WHEN")]
    pub(crate) live: Live,

    /// Where readings come from: native is /proc, portable is for systems without it
    #[arg(long, value_enum, default_value_t = Source::Native, env = "NILO_SOURCE", value_name = "SOURCE")]
    pub(crate) source: Source,
}

const ALERTS: &str = "Alerts";

/// Whom to tell when memory runs short.
#[derive(Debug, Args)]
pub(crate) struct AlertArgs {
    /// Run this shell command for each alert, which it gets as JSON on its standard input
    #[arg(long, help_heading = ALERTS, value_name = "CMD")]
    pub(crate) on_alert: Option<String>,

    /// Post each alert as JSON to this address
    #[arg(
        long,
        help_heading = ALERTS,
        env = "NILO_ALERT_WEBHOOK",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub(crate) alert_webhook: Option<String>,

    /// Send this signal, such as USR1, to the job's root process with each alert that is raised
    #[arg(long, help_heading = ALERTS, value_name = "NAME")]
    pub(crate) alert_signal: Option<String>,

    /// Do not look for anything to alert of
    #[arg(long, help_heading = ALERTS, conflicts_with_all = ["on_alert", "alert_signal"])]
    pub(crate) no_alerts: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Live {
    /// When standard error is a terminal
    Auto,
    /// Also into pipes and files, one line a second
    Always,
    /// Not at all
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Source {
    Native,
    Portable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Text,
    Json,
    Csv,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The command sees NILO_RUN_DIR, so `nilo mark` works from inside it.\n\n\
Examples:\n  nilo run -- python train.py --epochs 3\n  nilo run --interval 0.01 --memory-log mem.csv -- ./job.sh\n  \
nilo run --name base --tag lr=3e-4 -- torchrun --nproc-per-node 2 train.py"
)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) place: Place,

    #[command(flatten)]
    pub(crate) sampling: Sampling,

    /// Name of the run
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Go on until every process of the tree has ended, daemons included
    #[arg(long)]
    pub(crate) wait_all: bool,

    #[command(flatten)]
    pub(crate) alerts: AlertArgs,

    /// The command and its arguments, after --
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true,
        value_name = "COMMAND"
    )]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("whom").required(true).multiple(false).args(["pid", "name_pattern"]),
    after_help = "Examples:\n  nilo watch --pid 4711\n  nilo watch --name train.py --duration 5m\n  \
nilo watch --name 'python*worker*' --all --interval 1"
)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    pub(crate) place: Place,

    /// Process to watch, with all its descendants; may be given several times
    #[arg(long, short, value_name = "PID")]
    pub(crate) pid: Vec<u32>,

    /// Watch the process whose name or command line contains this; * and ? stand for anything
    #[arg(long = "name", short, value_name = "PATTERN", id = "name_pattern")]
    pub(crate) name_pattern: Option<String>,

    /// Watch every process that the pattern matches, instead of refusing when there are several
    #[arg(long)]
    pub(crate) all: bool,

    /// Stop after this long: seconds, or with a unit such as 5m
    #[arg(long, short, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) duration: Option<u64>,

    /// Name of the recorded run
    #[arg(long, value_name = "NAME")]
    pub(crate) run_name: Option<String>,

    #[command(flatten)]
    pub(crate) sampling: Sampling,

    #[command(flatten)]
    pub(crate) alerts: AlertArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PsArgs {
    /// Only Python programs
    #[arg(long)]
    pub(crate) python: bool,

    /// Every process of every user, not only your own larger ones
    #[arg(long, short)]
    pub(crate) all: bool,

    /// Form of the output
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(crate) format: Output,
}

#[derive(Debug, Args)]
#[command(after_help = "Example, inside a job started by `nilo run`:\n  nilo mark \"epoch 3\"")]
pub(crate) struct MarkArgs {
    /// What to write at this moment
    #[arg(value_name = "TEXT")]
    pub(crate) text: String,

    /// Folder of the run [default: the one this is called from]
    #[arg(long, env = "NILO_RUN_DIR", value_name = "RUN_DIR")]
    pub(crate) run_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RunsArgs {
    #[command(flatten)]
    pub(crate) place: Place,

    /// Only runs with this tag
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = tag)]
    pub(crate) tags: Vec<(String, String)>,

    /// Form of the output
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(crate) format: Output,
}

/// Which run is meant.
const RUN_HELP: &str = "Run: its id or the beginning of it, its name, a folder, `last`, or `last~1` for the one before [default: last]";

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) place: Place,

    #[arg(value_name = "RUN", help = RUN_HELP)]
    pub(crate) run: Option<String>,

    /// Form of the output
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(crate) format: Output,

    /// Show every process and every metric, not only the biggest and the first
    #[arg(long, short)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    pub(crate) place: Place,

    /// Runs; the first is the baseline
    #[arg(value_name = "RUN", num_args = 2.., required = true)]
    pub(crate) runs: Vec<String>,

    /// Form of the output
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(crate) format: Output,

    /// Compare every metric that the runs have in common, not only the first
    #[arg(long, short)]
    pub(crate) all: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TextOrJson {
    Text,
    Json,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Each run is one node. Runs belong to one job when program, script and options are the same; \
paths, seeds, learning rates, output folders and names do not count, batch sizes do.\n\n\
One run gives low confidence, three medium, eight that hardly differ high. A run that was killed for lack of memory \
shows only that it needed more: what follows from it is a guess.\n\n\
Examples:\n  nilo request\n  nilo request --all --cpus 8 --time 12:00:00\n  nilo request base base-2 base-3 --format json\n  \
sacct -P -o JobID,JobName,State,ReqMem,MaxRSS,Elapsed,ExitCode,NNodes -j 4711 | nilo request --sacct -"
)]
pub(crate) struct RequestArgs {
    #[command(flatten)]
    pub(crate) place: Place,

    /// Runs of the job, as for `nilo show` [default: last]
    #[arg(value_name = "RUN")]
    pub(crate) runs: Vec<String>,

    /// Also every run of this name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Also every run with this tag; may be given several times
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = tag)]
    pub(crate) tags: Vec<(String, String)>,

    /// Also every other run of the same job
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

    /// Form of the output
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A run whose program logged metrics gets its loss (or its first metric) below the memory; \
--metric says which, and `--metric none` leaves them out.\n\n\
Examples:\n  nilo plot last -o memory.svg\n  nilo plot last --metric loss --metric reward -x step -o run.png\n  \
nilo plot base bigger -o compare.png"
)]
pub(crate) struct PlotArgs {
    #[command(flatten)]
    pub(crate) place: Place,

    #[arg(value_name = "RUN", help = RUN_HELP)]
    pub(crate) runs: Vec<String>,

    /// File to write, .svg or .png [default: <run>.svg]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Draw this metric below the memory; may be given several times
    #[arg(long = "metric", value_name = "NAME")]
    pub(crate) metrics: Vec<String>,

    /// What lies across: time since the run began, or training steps
    #[arg(short, long = "x-axis", value_enum, default_value_t = XAxis::Time, value_name = "AXIS")]
    pub(crate) x_axis: XAxis,

    /// Title [default: the run's name or command]
    #[arg(long)]
    pub(crate) title: Option<String>,

    /// Width in pixels
    #[arg(long, default_value_t = 960, value_parser = clap::value_parser!(u32).range(320..=8000))]
    pub(crate) width: u32,

    /// Height in pixels, without the panels of metrics
    #[arg(long, default_value_t = 540, value_parser = clap::value_parser!(u32).range(200..=8000))]
    pub(crate) height: u32,

    /// Light text on a dark ground
    #[arg(long)]
    pub(crate) dark: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum XAxis {
    Time,
    Step,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    Csv,
    Json,
    Parquet,
    #[value(name = "tensorboard")]
    TensorBoard,
}

#[derive(Debug, Args)]
#[command(
    after_help = "CSV begins with timestamp_seconds,memory_mb,cpu_percent; an mb is 2^20 bytes. \
Metrics, phases and throughput are in --long, JSON and Parquet, with their steps.\n\n\
TensorBoard gets a folder with metrics, phases, throughput and memory as scalars. It stores them as 32-bit floats \
(seven digits), and of steps that were trained twice only the newest; the other formats have everything.\n\n\
Examples:\n  nilo export last -o run.csv\n  nilo export last --format parquet -o run.parquet\n  \
nilo export last --format tensorboard -o logs/last && tensorboard --logdir logs"
)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) place: Place,

    #[arg(value_name = "RUN", help = RUN_HELP)]
    pub(crate) run: Option<String>,

    /// Format [default: by the file's ending, else csv]
    #[arg(long, value_enum)]
    pub(crate) format: Option<ExportFormat>,

    /// File to write, for tensorboard a folder [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// CSV with one line for each value of every table
    #[arg(long)]
    pub(crate) long: bool,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) place: Place,

    #[arg(value_name = "RUN", help = RUN_HELP)]
    pub(crate) run: Option<String>,

    /// Check every run of the folder
    #[arg(long, conflicts_with = "run")]
    pub(crate) all: bool,

    /// Form of the output
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

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Write one page for each verb into this folder instead
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
}

/// The shortest interval: below it the reading itself is what one would see.
const SHORTEST_NANOS: u64 = 1_000_000;
const LONGEST_NANOS: u64 = 3_600_000_000_000;

pub(crate) fn interval(text: &str) -> Result<u64, String> {
    if text.trim_start().starts_with('-') {
        return Err("an interval cannot be negative; it lies between 1 ms and 1 h".to_owned());
    }
    let nanos = parse_duration(text).map_err(|error| error.to_string())?;
    if (SHORTEST_NANOS..=LONGEST_NANOS).contains(&nanos) {
        Ok(nanos)
    } else {
        Err(format!("{} s is not between 1 ms and 1 h", to_secs(nanos)))
    }
}

fn duration(text: &str) -> Result<u64, String> {
    match parse_duration(text).map_err(|error| error.to_string())? {
        0 => Err("must be longer than zero".to_owned()),
        nanos => Ok(nanos),
    }
}

/// `12:00:00`, `2-00:00:00` or a duration with its unit. A number alone is refused: to Slurm it is minutes, to us seconds.
fn planned_time(text: &str) -> Result<u64, String> {
    let wrong = || "write it as HH:MM:SS, D-HH:MM:SS or with a unit such as 90m or 12h".to_owned();
    if !text.contains(':') {
        let has_unit = text.ends_with(|c: char| c.is_ascii_alphabetic());
        return if has_unit {
            duration(text)
        } else {
            Err(wrong())
        };
    }
    let (days, clock) = text.split_once('-').unwrap_or(("0", text));
    let number = |text: &str| match text.len() {
        1..=5 => text.parse::<u64>().map_err(|_| wrong()),
        _ => Err(wrong()),
    };
    let parts: Vec<u64> = clock.split(':').map(number).collect::<Result<_, _>>()?;
    let [hours, minutes, seconds] = parts[..] else {
        return Err(wrong());
    };
    match ((number(days)? * 24 + hours) * 60 + minutes) * 60 + seconds {
        0 => Err("must be longer than zero".to_owned()),
        secs => Ok(secs * NANOS_PER_SEC),
    }
}

fn tag(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.to_owned()))
        }
        _ => Err("write it as key=value".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn intervals_that_cannot_work_are_refused() {
        for text in ["0", "-1", "0.0001", "2h", "x", ""] {
            assert!(interval(text).is_err(), "{text}");
        }
        assert_eq!(interval("0.001"), Ok(1_000_000));
        assert_eq!(interval("5m"), Ok(300_000_000_000));
    }

    #[test]
    fn planned_times_are_read_as_schedulers_write_them() {
        for (text, secs) in [
            ("00:10:00", 600),
            ("12:00:00", 43_200),
            ("2-00:00:30", 172_830),
            ("90m", 5400),
            ("1.5h", 5400),
        ] {
            assert_eq!(planned_time(text), Ok(secs * NANOS_PER_SEC), "{text}");
        }
        for text in [
            "",
            "90",
            "10:00",
            "a:b:c",
            "1:2:3:4",
            "0:0:0",
            "-1:00:00",
            "999999:00:00",
            "x-1:0:0",
        ] {
            assert!(planned_time(text).is_err(), "{text}");
        }
    }
}
