//! `nilo compare`: runs beside each other.

use std::io::Write;

use nilo_analysis::compare_training::ComparedFigure;
use nilo_analysis::{Comparison, compare, summarize};
use nilo_export::CsvRows;
use nilo_runfile::RunFolder;
use nilo_sample::printable::printable;
use nilo_sample::units::{format_bytes, format_duration};

use crate::args::{CompareArgs, OutputFormat};
use crate::damaged_run::warn_of_damage;
use crate::failure::{Failure, warn};
use crate::folder::{existing_root, find_run, load};
use crate::screen::Screen;
use crate::settings::Settings;
use crate::text::compared::write_compared;
use crate::text::compared_gpus::write_compared_gpus;
use crate::text::json::write_json;
use crate::text::number::format_change;
use crate::text::one_line::one_line;
use crate::text::table::{left, right, write_left_out, write_table};
use crate::wrap::WrappingWriter;

pub(crate) fn run(args: CompareArgs, settings: &Settings) -> Result<u8, Failure> {
    let root = existing_root(&args.place, settings)?;
    let mut summaries = Vec::new();
    let mut folders: Vec<RunFolder> = Vec::new();
    for asked in &args.runs {
        let folder = find_run(&root, Some(asked))?;
        if let Some(index) = folders.iter().position(|known| *known == folder) {
            let first = &args.runs[index];
            warn(&format!(
                "{first:?} and {asked:?} are the same run: {}",
                folder.path().display()
            ));
        }
        let (recording, ending) = load(&folder)?;
        warn_of_damage(&recording, &folder, settings);
        folders.push(folder);
        summaries.push(summarize(&recording, &ending));
    }
    let comparison = compare(&summaries);
    let mut out = std::io::stdout().lock();
    match args.format {
        OutputFormat::Json => {
            write_json(&mut out, &comparison)?;
        }
        OutputFormat::Csv => write_csv(&mut out, &comparison)?,
        OutputFormat::Text => {
            let screen = Screen::stdout();
            let mut out = WrappingWriter::new(out, screen);
            write_runs(&mut out, &comparison)?;
            for run in &comparison.runs {
                if let Some(earlier) = &run.resumes {
                    let (run, earlier) = (printable(&run.run), printable(earlier));
                    writeln!(
                        out,
                        "{run} was resumed from {earlier}, which has its earlier steps"
                    )?;
                }
            }
            write_compared_gpus(&mut out, screen, &comparison)?;
            write_compared(&mut out, screen, &comparison, args.all)?;
        }
    }
    Ok(0)
}

fn write_runs(out: &mut dyn Write, comparison: &Comparison) -> std::io::Result<()> {
    let bytes =
        |value: Option<u64>| value.map_or("-".to_owned(), |value| format_bytes(value as f64));
    let rows = comparison.runs.iter().enumerate().map(|(index, run)| {
        let unless_first = |text: String| if index == 0 { String::new() } else { text };
        vec![
            run.run.clone(),
            run.ending.clone(),
            format_duration((run.duration_secs * 1e9) as u64),
            unless_first(format_change(run.duration_change_ratio)),
            bytes(run.peak_bytes),
            unless_first(format_change(run.peak_change_ratio)),
            bytes(run.mean_bytes),
            unless_first(format_change(run.mean_change_ratio)),
            run.cpu_secs
                .map_or("-".to_owned(), |secs| format!("{secs:.2} s")),
            one_line(&run.label, 60),
        ]
    });
    let columns = [
        left("RUN"),
        left("STATUS").drops(2),
        right("DURATION").drops(4),
        right("CHANGE").drops(6),
        right("PEAK"),
        right("CHANGE").drops(1),
        right("MEAN").drops(5),
        right("CHANGE").drops(7),
        right("CPU").drops(8),
        left("NAME").drops(3),
    ];
    let rows: Vec<Vec<String>> = rows.collect();
    let screen = Screen::stdout();
    let left_out = write_table(out, screen, &columns, &rows)?;
    write_left_out(out, screen, &columns, &left_out)
}

const GPU_COLUMNS: [&str; 4] = [
    "gpus",
    "gpu_peak_job_bytes",
    "gpu_peak_used_bytes",
    "gpu_mean_utilization",
];

/// One row for each run; figures that the programs logged are further columns, such as `metric:loss:last`.
fn write_csv(out: &mut dyn Write, comparison: &Comparison) -> std::io::Result<()> {
    let kinds = [
        ("metric", &comparison.metrics),
        ("phase", &comparison.phases),
        ("throughput", &comparison.throughput),
    ];
    let figures: Vec<(&str, &ComparedFigure)> = kinds
        .into_iter()
        .flat_map(|(kind, figures)| figures.iter().map(move |figure| (kind, figure)))
        .collect();
    let fixed = [
        "run",
        "status",
        "exit_code",
        "duration_secs",
        "peak_bytes",
        "mean_bytes",
        "cpu_secs",
    ];
    // Columns of GPUs are there where a run was on one.
    let has_gpus = comparison.runs.iter().any(|run| run.gpus.is_some());
    let gpu_columns = match has_gpus {
        true => &GPU_COLUMNS[..],
        false => &[],
    };
    let logged = figures
        .iter()
        .map(|(kind, figure)| format!("{kind}:{}:{}", figure.name, figure.figure));
    let fixed = fixed.iter().chain(gpu_columns);
    let header = fixed.map(|name| (*name).to_owned()).chain(logged);
    let mut csv = CsvRows::new(out, header)?;
    for (index, run) in comparison.runs.iter().enumerate() {
        csv.text(&run.run)?;
        csv.text(run.status.as_str())?;
        csv.number_if_known(run.exit_code)?;
        csv.number(format_args!("{:.3}", run.duration_secs))?;
        csv.number_if_known(run.peak_bytes)?;
        csv.number_if_known(run.mean_bytes)?;
        csv.number_if_known(run.cpu_secs.map(|secs| format!("{secs:.3}")))?;
        if has_gpus {
            csv.number_if_known(run.gpus.map(|gpus| gpus.count))?;
            csv.number_if_known(run.gpus.and_then(|gpus| gpus.peak_job_bytes))?;
            csv.number_if_known(run.gpus.and_then(|gpus| gpus.peak_used_bytes))?;
            let busy = run.gpus.and_then(|gpus| gpus.mean_utilization);
            csv.number_if_known(busy.map(|share| format!("{share:.4}")))?;
        }
        for (_, figure) in &figures {
            csv.number_if_known(figure.values[index])?;
        }
        csv.end_row()?;
    }
    csv.finish()
}
