//! What `nilo oom` and `nilo leak` take: a run, or a file that another tool wrote.

use std::path::PathBuf;

use clap::Args;
use nilo_import::ByteUnit;
use nilo_sample::units::parse_bytes;

use super::{Place, RUN_HELP, TextOrJson};

/// What is judged.
#[derive(Debug, Args)]
pub(crate) struct Judged {
    #[command(flatten)]
    pub(crate) place: Place,

    #[arg(value_name = "RUN", help = RUN_HELP)]
    pub(crate) run: Option<String>,

    /// Judge this file instead: CSV with a header, or what psrecord, mprof or nvidia-smi wrote
    #[arg(long, value_name = "FILE", conflicts_with = "run")]
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
Exit status: 0 nothing to warn of at the end, 1 a warning, 2 could not.\n\n\
Examples:\n  nilo oom\n  nilo oom base --threshold 90\n  nilo oom --csv trace.csv --column reserved --column allocated --limit 24GiB\n  \
nilo oom --csv nvidia-smi.csv --format json"
)]
pub(crate) struct OomArgs {
    #[command(flatten)]
    pub(crate) judged: Judged,

    /// Also warn of everything that is fuller than this, above 0 and up to 100
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 85.0,
        allow_negative_numbers = true
    )]
    pub(crate) threshold: f64,

    /// Form of the output
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A leak is growth of what is still held at the lowest point of each cycle, which lasts, does not slow down \
and is not given back. Ten seconds or fifty training steps are the least that a verdict takes.\n\n\
Exit status: 0 no leak, 1 a leak, 2 could not.\n\n\
Examples:\n  nilo leak\n  nilo leak last --check --threshold 100\n  nilo leak --csv mprofile_20261115.dat\n  \
nilo leak --csv memory.csv --column rss --unit mb --format json"
)]
pub(crate) struct LeakArgs {
    #[command(flatten)]
    pub(crate) judged: Judged,

    /// Print one line and nothing else; the exit status says whether there is a leak
    #[arg(long)]
    pub(crate) check: bool,

    /// Leave out growth of fewer MiB than this [default: 1 % of the limit, or 5 % of the level where no limit is known]
    #[arg(long, value_name = "MB", allow_negative_numbers = true)]
    pub(crate) threshold: Option<f64>,

    /// Form of the output
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

fn limit(text: &str) -> Result<u64, String> {
    match parse_bytes(text).map_err(|error| error.to_string())? {
        0 => Err("must be more than zero".to_owned()),
        bytes => Ok(bytes),
    }
}
