//! What `nilo plot` and `nilo export` take.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::values::{number, recorded_text};
use crate::complete_runs::run_names;

use super::RUN_HELP;
use crate::folder::RunsDir;

#[derive(Debug, Args)]
#[command(
    after_help = "If one run is drawn and it logged metrics, its loss (or else its first metric) is drawn below the memory; \
--metric chooses others, and `--metric none` draws memory only. Several runs are drawn over time, with the metrics \
that --metric names.\n\n\
Examples:\n  nilo plot last -o memory.svg\n  nilo plot last --metric loss --metric reward -x step -o run.png\n  \
nilo plot base bigger -o compare.png"
)]
pub(crate) struct PlotArgs {
    #[command(flatten)]
    pub(crate) place: RunsDir,

    #[arg(value_name = "RUN", add = run_names(), value_parser = recorded_text(), help = RUN_HELP)]
    pub(crate) runs: Vec<String>,

    /// File to write, .svg or .png; - is standard output [default: <run>.svg]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Format [default: from the extension of --output, .svg or .png; svg without --output]
    #[arg(long, value_enum)]
    pub(crate) format: Option<PlotFormat>,

    /// Draw this metric below the memory; may be given several times
    #[arg(long = "metric", value_name = "NAME", value_parser = recorded_text())]
    pub(crate) metrics: Vec<String>,

    /// X axis: time since the start of the run, or training steps (of one run)
    #[arg(short, long = "x-axis", value_enum, default_value_t = XAxisArg::Time, value_name = "AXIS")]
    pub(crate) x_axis: XAxisArg,

    /// Title [default: the run's name or command]
    #[arg(long, value_parser = recorded_text())]
    pub(crate) title: Option<String>,

    /// Width in pixels
    #[arg(long, default_value_t = 960, value_parser = number::<u32, 320, 8000>)]
    pub(crate) width: u32,

    /// Height in pixels, not counting the metric panels
    #[arg(long, default_value_t = 540, value_parser = number::<u32, 200, 8000>)]
    pub(crate) height: u32,

    /// Light text on a dark background
    #[arg(long)]
    pub(crate) dark: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum XAxisArg {
    Time,
    Step,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlotFormat {
    Svg,
    Png,
}

impl PlotFormat {
    pub(crate) fn extension(self) -> &'static str {
        match self {
            PlotFormat::Svg => "svg",
            PlotFormat::Png => "png",
        }
    }
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
    after_help = "CSV starts with the columns timestamp_seconds,memory_mb,cpu_percent; one MB is 2^20 bytes. \
Metrics, phases and throughput are in --long, JSON and Parquet, with step and, for distributed runs, rank.\n\n\
TensorBoard gets a folder with metrics, phases, throughput and memory as scalars. It stores them as 32-bit floats \
(seven digits) and keeps only the latest value of a step that was trained twice; the other formats keep everything.\n\n\
Examples:\n  nilo export last -o run.csv\n  nilo export last --format parquet -o run.parquet\n  \
nilo export last --format tensorboard -o logs/last && tensorboard --logdir logs"
)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) place: RunsDir,

    #[arg(value_name = "RUN", add = run_names(), value_parser = recorded_text(), help = RUN_HELP)]
    pub(crate) run: Option<String>,

    /// Format [default: from the extension of --output, .csv, .json, .parquet or .pq; csv without one]
    #[arg(long, value_enum)]
    pub(crate) format: Option<ExportFormat>,

    /// File to write, or a folder for tensorboard; - is standard output, the default
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Write CSV with one line per value of every table and metric, in order of time within each
    #[arg(long)]
    pub(crate) long: bool,
}
