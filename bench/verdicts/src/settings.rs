//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::seeds::Seeds;
use crate::shapes::{SHAPES, draw};
use crate::trace::Trace;
use crate::workloads::{WORKLOADS, simulate};

/// Where drawn traces come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Generator {
    /// 24 shapes of curves
    Shapes,
    /// 16 kinds of simulated training jobs
    Workloads,
}

impl Generator {
    /// As it is written on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Generator::Shapes => "shapes",
            Generator::Workloads => "workloads",
        }
    }

    /// How many kinds of trace it has.
    pub fn kinds(self) -> u8 {
        match self {
            Generator::Shapes => SHAPES,
            Generator::Workloads => WORKLOADS,
        }
    }

    /// The trace of a kind for a seed.
    pub fn draw(self, kind: u8, seed: u64) -> Trace {
        match self {
            Generator::Shapes => draw(kind, seed),
            Generator::Workloads => simulate(kind, seed),
        }
    }
}

/// Score forecasts of running out of memory and findings of leaks
///
/// Traces of 24 shapes and 16 kinds of simulated jobs are drawn from seeds, and traces of real processes are read; every predictor sees each of them
/// point by point and is scored by what became of it.
#[derive(Debug, Clone, Parser)]
#[command(
    version,
    after_help = "Examples:\n  nilo-verdict-bench\n  nilo-verdict-bench --shape 10 --details\n  nilo-verdict-bench --seeds reporting --markdown docs/benchmarks/verdicts.md"
)]
pub struct VerdictArgs {
    /// Which traces: tuning, reporting, or FROM-TO
    #[arg(long, default_value = "tuning", value_name = "SEEDS")]
    pub seeds: Seeds,

    /// Traces of each shape; a range of seeds is taken whole
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub traces_per_shape: u64,

    /// Only this generator of traces [default: both]
    #[arg(long, value_name = "NAME")]
    pub generator: Option<Generator>,

    /// Only this shape, or this kind of job with --generator workloads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=i64::from(SHAPES)))]
    pub shape: Option<u8>,

    /// Only predictors with this in their name
    #[arg(long, value_name = "NAME")]
    pub only: Option<String>,

    /// Folders of recorded traces with labels.json [default: the committed ones]
    #[arg(long, value_name = "DIR")]
    pub recorded: Vec<PathBuf>,

    /// List the traces on which predictors went wrong
    #[arg(long)]
    pub details: bool,

    /// Write the page of the benchmark to this file
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,

    /// Write the traces into this folder as CSV, and score nothing
    #[arg(long, value_name = "DIR")]
    pub dump: Option<PathBuf>,
}

impl VerdictArgs {
    /// The generators that are asked for; a single shape is one of the first.
    pub fn generators(&self) -> Vec<Generator> {
        match (self.generator, self.shape) {
            (Some(generator), _) => vec![generator],
            (None, Some(_)) => vec![Generator::Shapes],
            (None, None) => vec![Generator::Shapes, Generator::Workloads],
        }
    }

    /// The arguments as one would type them again.
    pub fn words(&self) -> String {
        let seeds = match self.seeds {
            Seeds::Tuning => "tuning".to_string(),
            Seeds::Reporting => "reporting".to_string(),
            Seeds::Range(from, to) => format!("{from}-{to}"),
        };
        let mut words = vec![format!(
            "--seeds {seeds} --traces-per-shape {}",
            self.traces_per_shape
        )];
        words.extend(
            self.generator
                .map(|generator| format!("--generator {}", generator.as_str())),
        );
        words.extend(self.shape.map(|shape| format!("--shape {shape}")));
        words.extend(self.only.iter().map(|name| format!("--only '{name}'")));
        words.extend(
            self.recorded
                .iter()
                .map(|folder| format!("--recorded {}", folder.display())),
        );
        words.extend(
            self.markdown
                .iter()
                .map(|file| format!("--markdown {}", file.display())),
        );
        words.join(" ")
    }
}
