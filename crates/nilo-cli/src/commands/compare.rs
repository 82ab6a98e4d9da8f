//! `nilo compare`: runs beside each other.

use std::io::Write;

use nilo_analysis::{compare, summarize};
use nilo_sample::units::{format_bytes, format_duration};

use crate::args::{CompareArgs, Output};
use crate::failure::Failure;
use crate::folder::{find_run, load, runs_root};
use crate::settings::Settings;
use crate::text::table::{Lean, write_table};

pub(crate) fn run(args: CompareArgs, settings: &Settings) -> Result<u8, Failure> {
    let root = runs_root(&args.place, settings);
    let mut summaries = Vec::new();
    for asked in &args.runs {
        let (recording, ending) = load(&find_run(&root, Some(asked))?)?;
        summaries.push(summarize(&recording, &ending));
    }
    let comparison = compare(&summaries);
    let mut out = std::io::stdout().lock();
    if args.format == Output::Json {
        serde_json::to_writer_pretty(&mut out, &comparison).map_err(std::io::Error::from)?;
        out.write_all(b"\n")?;
        return Ok(0);
    }
    let bytes =
        |value: Option<u64>| value.map_or("-".to_owned(), |value| format_bytes(value as f64));
    let change = |ratio: Option<f64>| match ratio {
        Some(ratio) if args.format == Output::Csv => format!("{ratio}"),
        Some(ratio) => format!("{:+.1} %", 100.0 * ratio),
        None => String::new(),
    };
    let rows = comparison.runs.iter().enumerate().map(|(index, run)| {
        let unless_first = |text: String| if index == 0 { String::new() } else { text };
        vec![
            run.run.clone(),
            run.status.to_owned(),
            format_duration((run.duration_secs * 1e9) as u64),
            unless_first(change(run.duration_change_ratio)),
            bytes(run.peak_bytes),
            unless_first(change(run.peak_change_ratio)),
            bytes(run.mean_bytes),
            unless_first(change(run.mean_change_ratio)),
            format!("{:.2} s", run.cpu_secs),
            run.label
                .chars()
                .take(60)
                .collect::<String>()
                .replace(char::is_control, " "),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if args.format == Output::Csv {
        writeln!(
            out,
            "run,status,duration_secs,peak_bytes,mean_bytes,cpu_secs"
        )?;
        for run in &comparison.runs {
            let number =
                |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
            let (peak, mean) = (number(run.peak_bytes), number(run.mean_bytes));
            writeln!(
                out,
                "{},{},{:.3},{peak},{mean},{:.3}",
                run.run, run.status, run.duration_secs, run.cpu_secs
            )?;
        }
        return Ok(0);
    }
    let columns = [
        ("RUN", Lean::Left),
        ("STATUS", Lean::Left),
        ("DURATION", Lean::Right),
        ("CHANGE", Lean::Right),
        ("PEAK", Lean::Right),
        ("CHANGE", Lean::Right),
        ("MEAN", Lean::Right),
        ("CHANGE", Lean::Right),
        ("CPU", Lean::Right),
        ("COMMAND", Lean::Left),
    ];
    write_table(&mut out, &columns, &rows)?;
    Ok(0)
}
