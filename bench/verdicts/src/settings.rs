//! The command line.

use std::path::PathBuf;

use clap::Parser;

use crate::seeds::Seeds;
use crate::shapes::SHAPES;

/// Score forecasts of running out of memory and findings of leaks
///
/// Traces of 24 shapes are drawn from seeds, and traces of real processes are read; every predictor sees each of them
/// point by point and is scored by what became of it.
#[derive(Debug, Clone, Parser)]
#[command(
    version,
    after_help = "Examples:\n  nilo-verdict-bench\n  nilo-verdict-bench --shape 10 --details\n  nilo-verdict-bench --seeds reporting --markdown docs/benchmarks/verdicts.md"
)]
pub struct Settings {
    /// Which traces: tuning, reporting, or FROM-TO
    #[arg(long, default_value = "tuning", value_name = "SEEDS")]
    pub seeds: Seeds,

    /// Traces of each shape; a range of seeds is taken whole
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub traces_per_shape: u64,

    /// Only this shape
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

impl Settings {
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
