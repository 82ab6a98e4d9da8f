//! What `nilo oom` and `nilo leak` take: a run, a file that another tool wrote, or something that runs.

use std::path::PathBuf;

use clap::Args;
use nilo_analysis::assessment::OOM_WARNING_PERCENT;
use nilo_import::ByteUnit;
use nilo_sample::units::{MIB, parse_bytes};

use crate::complete_runs::run_names;

use super::values::{mebibytes, percent, recorded_text};
use super::{LiveArgs, RUN_HELP, TextOrJson};
use crate::folder::RunsDir;

/// What only makes sense of something that runs.
///
/// An option that `requires` the file conflicts with these and with a run, too: clap requires nothing that conflicts with what is given.
const LIVE_ONLY: [&str; 5] = ["pid", "name_pattern", "devices", "duration", "record"];

/// What to diagnose.
#[derive(Debug, Args)]
pub(crate) struct DiagnosisInput {
    #[command(flatten)]
    pub(crate) place: RunsDir,

    #[arg(value_name = "RUN", add = run_names(), value_parser = recorded_text(), help = RUN_HELP, conflicts_with_all = LIVE_ONLY)]
    pub(crate) run: Option<String>,

    /// Analyse this file instead of a run: CSV with a header, or output of psrecord, mprof or nvidia-smi
    #[arg(long, value_name = "FILE", conflicts_with = "run", conflicts_with_all = LIVE_ONLY)]
    pub(crate) csv: Option<PathBuf>,

    /// Column to analyse; may be given several times [default: every memory column]
    #[arg(long = "column", value_name = "NAME", requires = "csv", conflicts_with = "run", conflicts_with_all = LIVE_ONLY)]
    pub(crate) columns: Vec<String>,

    /// Unit of the columns: bytes, kb, mb, gb or tb, all binary [default: from the column names]
    #[arg(long, value_name = "UNIT", requires = "csv", conflicts_with = "run", conflicts_with_all = LIVE_ONLY)]
    pub(crate) unit: Option<ByteUnit>,

    /// Memory limit to assume, such as 24GiB; of a run, for its job's memory [default: that of the run, or from a column of the file]
    #[arg(long, value_name = "SIZE", conflicts_with_all = LIVE_ONLY, value_parser = limit)]
    pub(crate) limit: Option<u64>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Prints a warning for each resource that is likely to run out within ten minutes (high risk) or two (critical), \
or whose usage is above the threshold (high) or 95 % (critical), and one line for every other. \
A time that is not likely yet is printed with its confidence and does not raise the risk.\n\n\
The default is the last run. With --pid or --name it monitors running processes for three seconds, or for --duration. \
With --monitor, or --devices alone, it monitors until Ctrl+C or for --duration, and prints a warning when one begins or gets worse and a line when it is over. \
--monitor without a process monitors the host, the cgroup it is started in and the GPUs; --devices alone only those GPUs. \
--monitor with a process keeps what it measures as a run, as `nilo watch` does, unless --no-record is given.\n\n\
Exit status: 0 no warning at the end (with --monitor: at any time), 1 a warning, 2 an error.\n\n\
Examples:\n  nilo oom\n  nilo oom base --threshold 90\n  nilo oom --threshold 85 --monitor\n  nilo oom --devices 0 --threshold 90\n  \
nilo oom --csv trace.csv --column reserved --column allocated --limit 24GiB\n  nilo oom --csv nvidia-smi.csv --format json"
)]
pub(crate) struct OomArgs {
    #[command(flatten)]
    pub(crate) judged: DiagnosisInput,

    #[command(flatten)]
    pub(crate) live: LiveArgs,

    /// Keep monitoring, and warn when memory runs short
    #[arg(long, conflicts_with_all = ["run", "csv", "columns", "unit", "limit"])]
    pub(crate) monitor: bool,

    /// Also warn when usage is above this percentage (at most 100), or fraction (below 1)
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value_t = OOM_WARNING_PERCENT)]
    pub(crate) threshold: f64,

    /// Output format; json is one object, or with --monitor one per line
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

impl OomArgs {
    /// Whether something that runs is meant, and not a recording.
    pub(crate) fn is_live(&self) -> bool {
        self.monitor || self.live.are_meant()
    }

    /// Whether to go on until somebody ends it: asked for, or GPUs are named and neither processes nor a time.
    pub(crate) fn goes_on(&self) -> bool {
        let gpus_alone = !self.live.devices.is_empty() && !self.live.names_processes();
        self.monitor || (gpus_alone && self.live.duration.is_none())
    }
}

#[derive(Debug, Args)]
#[command(
    after_help = "A leak is sustained growth of the memory that is held at the low point of each cycle; it does not slow down \
and is never freed. Detecting one takes at least ten seconds or fifty training steps.\n\n\
The default is the last run. If nothing has been recorded yet, it monitors all your running Python programs, \
or the host and the GPUs if there are none; the same with --duration alone. \
With --pid or --name it monitors running processes for 30 seconds, or for --duration (at least ten), and names those that grow. \
What it measures of processes named by --pid or --name is kept as a run, as `nilo watch` does, unless --no-record is given. \
A program that is still loading looks like one that leaks: start once it has loaded.\n\n\
Exit status: 0 no leak, 1 a leak, 2 an error; with --check also 2 if the recording is too short to tell.\n\n\
Examples:\n  nilo leak\n  nilo leak last --check --threshold 100\n  nilo leak --check --threshold 100 --pid 4711\n  nilo leak --csv mprofile_20261115.dat\n  \
nilo leak --csv memory.csv --column rss --unit mb --format json"
)]
pub(crate) struct LeakArgs {
    #[command(flatten)]
    pub(crate) judged: DiagnosisInput,

    #[command(flatten)]
    pub(crate) live: LiveArgs,

    /// Print one line and nothing else; the exit status says whether there is a leak
    #[arg(long)]
    pub(crate) check: bool,

    /// Ignore growth below this many MiB [default: 1 % of the limit, or 5 % of the level without a limit]
    #[arg(long, value_name = "MIB", value_parser = mebibytes)]
    pub(crate) threshold: Option<f64>,

    /// Output format
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

fn limit(text: &str) -> Result<u64, String> {
    match parse_bytes(text).map_err(|_| "not a size (examples: 24GiB, 512MiB)".to_owned())? {
        0 => Err("must be more than zero".to_owned()),
        bytes @ ..MIB => Err(format!(
            "{bytes} bytes is less than any program needs; write the unit, such as 24GiB"
        )),
        bytes => Ok(bytes),
    }
}
