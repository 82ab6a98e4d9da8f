//! `nilo fit --check`: an estimate beside a recorded run.

use nilo_analysis::{Summary, summarize};
use nilo_answer::fit::FitAnswer;
use nilo_answer::fit::check::{CheckedFigure, FitCheckAnswer};
use nilo_model::gpus::{GpuKind, find_gpu};
use nilo_sample::printable::printable;
use nilo_sample::units::format_bytes;
use std::io::Write;

use crate::args::TextOrJson;
use crate::failure::{Failure, verdict_status};
use crate::folder::{RunsDir, existing_root, find_run, load};
use crate::screen::Screen;
use crate::settings::Settings;
use crate::text::json::write_json;
use crate::text::table::{left, right, write_table};

/// A run in figures.
pub(super) fn summary_of(
    asked: &str,
    place: &RunsDir,
    settings: &Settings,
) -> Result<Summary, Failure> {
    let folder = find_run(&existing_root(place, settings)?, Some(asked))?;
    let (recording, ending) = load(&folder)?;
    Ok(summarize(&recording, &ending))
}

/// The GPU of a run, where the catalogue has it.
pub(super) fn gpu_of(summary: &Summary) -> Option<GpuKind> {
    let busiest = summary.gpus.iter().max_by_key(|gpu| gpu.peak_job_bytes)?;
    find_gpu(busiest.name.as_deref()?).ok()
}

/// Status 1 where something recorded lies outside of the range of its estimate.
pub(super) fn run(
    summary: &Summary,
    estimate: &FitAnswer,
    format: TextOrJson,
) -> Result<u8, Failure> {
    let Some(answer) = FitCheckAnswer::of(summary, estimate) else {
        return Err(Failure::new("the run has no GPU memory to compare with").hint(
            "record one with `nilo run -- python train.py` on a machine with a GPU; PyTorch's figures are recorded without a change to the program",
        ));
    };
    let status = u8::from(answer.furthest.is_some());
    verdict_status(status, print(&answer, format))
}

fn print(answer: &FitCheckAnswer, format: TextOrJson) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    if format == TextOrJson::Json {
        return write_json(&mut out, answer);
    }
    writeln!(
        out,
        "{} beside the run {}",
        printable(&answer.model),
        printable(&answer.run)
    )?;
    writeln!(out)?;
    let row = |figure: &CheckedFigure| {
        let size = |bytes: u64| format_bytes(bytes as f64);
        let range = figure.estimated_bytes;
        vec![
            figure.name.to_owned(),
            size(range.expected),
            format!("{} to {}", size(range.low), size(range.high)),
            size(figure.recorded_bytes),
            format!("{:+.2} %", figure.error_percent),
        ]
    };
    let rows: Vec<Vec<String>> = answer.figures.iter().map(row).collect();
    let columns = [
        left("FIGURE"),
        right("ESTIMATED"),
        right("RANGE").drops(1),
        right("RECORDED"),
        right("ERROR"),
    ];
    write_table(&mut out, Screen::stdout(), &columns, &rows)?;
    writeln!(out)?;
    match answer.furthest {
        None => writeln!(
            out,
            "All that was recorded lies within the range of its estimate."
        ),
        Some(name) => writeln!(
            out,
            "Outside of the range, and furthest off: {name}. Are batch, length, types and checkpoints those of the run?"
        ),
    }
}
