//! What `nilo oom` and `nilo leak` take: a run, a file that another tool wrote, or something that runs.

use std::path::PathBuf;

use clap::Args;
use nilo_import::ByteUnit;
use nilo_sample::units::{MIB, parse_bytes};

use super::{LiveArgs, Place, RUN_HELP, TextOrJson};

/// What only makes sense of something that runs.
const LIVE_ONLY: [&str; 4] = ["pid", "name_pattern", "devices", "duration"];

/// What is judged.
#[derive(Debug, Args)]
pub(crate) struct Judged {
    #[command(flatten)]
    pub(crate) place: Place,

    #[arg(value_name = "RUN", help = RUN_HELP, conflicts_with_all = LIVE_ONLY)]
    pub(crate) run: Option<String>,

    /// Judge this file instead: CSV with a header, or what psrecord, mprof or nvidia-smi wrote
    #[arg(long, value_name = "FILE", conflicts_with = "run", conflicts_with_all = LIVE_ONLY)]
    pub(crate) csv: Option<PathBuf>,

    /// Column of the file; may be given several times [default: every column that is memory]
    #[arg(long = "column", value_name = "NAME", requires = "csv")]
    pub(crate) columns: Vec<String>,

    /// Unit of the columns: bytes, kb, mb, gb or tb, all binary [default: as the names say]
    #[arg(long, value_name = "UNIT", requires = "csv")]
    pub(crate) unit: Option<ByteUnit>,

    /// Where the memory of the file ends, such as 24GiB [default: as a column of the file says]
    #[arg(long, value_name = "SIZE", requires = "csv", value_parser = limit)]
    pub(crate) limit: Option<u64>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A warning is printed for everything whose risk is high (likely within ten minutes) or critical (within two), \
and for everything that is fuller than the threshold; one line for everything else.\n\n\
Without a run, a file or anything else it judges the last run. With --pid or --name it looks at what runs for three seconds, or for --duration. \
With --monitor, and with --devices alone, it looks until Ctrl+C or for --duration, and prints a warning when it begins and a line when it is over. \
--monitor without a process looks at the host, the cgroup that it is started in and the GPUs; --devices alone at those GPUs. \
With --monitor and a process what is seen is kept as a run, as `nilo watch` does, unless --no-record.\n\n\
Exit status: 0 nothing to warn of at the end (with --monitor: ever), 1 a warning, 2 could not.\n\n\
Examples:\n  nilo oom\n  nilo oom base --threshold 90\n  nilo oom --threshold 85 --monitor\n  nilo oom --devices 0 --threshold 90\n  \
nilo oom --csv trace.csv --column reserved --column allocated --limit 24GiB\n  nilo oom --csv nvidia-smi.csv --format json"
)]
pub(crate) struct OomArgs {
    #[command(flatten)]
    pub(crate) judged: Judged,

    #[command(flatten)]
    pub(crate) live: LiveArgs,

    /// Go on looking, and warn when something becomes dangerous
    #[arg(long, conflicts_with_all = ["run", "csv"])]
    pub(crate) monitor: bool,

    /// Also warn of everything that is fuller than this, above 0 and up to 100
    #[arg(long, value_name = "PERCENT", default_value_t = 85.0)]
    pub(crate) threshold: f64,

    /// Form of the output; json is one object, with --monitor one a line
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
    after_help = "A leak is growth of what is still held at the lowest point of each cycle, which lasts, does not slow down \
and is not given back. Ten seconds or fifty training steps are the least that a verdict takes.\n\n\
Without anything named it judges the last run. Where nothing has been recorded yet it looks at what runs now: all your Python programs, \
or the host and the GPUs when there is none. \
With --pid or --name it looks at processes that run, for 30 seconds or for --duration (ten at least), and names who grows; \
with --duration alone it looks at what runs now. What is seen is kept as a run, as `nilo watch` does, unless --no-record. \
A program that is still loading looks like one that leaks: look when it is at work.\n\n\
Exit status: 0 no leak, 1 a leak, 2 could not.\n\n\
Examples:\n  nilo leak\n  nilo leak last --check --threshold 100\n  nilo leak --check --threshold 100 --pid 4711\n  nilo leak --csv mprofile_20261115.dat\n  \
nilo leak --csv memory.csv --column rss --unit mb --format json"
)]
pub(crate) struct LeakArgs {
    #[command(flatten)]
    pub(crate) judged: Judged,

    #[command(flatten)]
    pub(crate) live: LiveArgs,

    /// Print one line and nothing else; the exit status says whether there is a leak
    #[arg(long)]
    pub(crate) check: bool,

    /// Leave out growth of fewer MiB than this [default: 1 % of the limit, or 5 % of the level where no limit is known]
    #[arg(long, value_name = "MB")]
    pub(crate) threshold: Option<f64>,

    /// Form of the output
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

fn limit(text: &str) -> Result<u64, String> {
    match parse_bytes(text).map_err(|error| error.to_string())? {
        0 => Err("must be more than zero".to_owned()),
        bytes @ ..MIB => Err(format!(
            "{bytes} bytes are less than any program takes; write the unit, such as {bytes}GiB"
        )),
        bytes => Ok(bytes),
    }
}
