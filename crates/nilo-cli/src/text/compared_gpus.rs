//! The GPUs of several runs, side by side.

use std::io::Write;

use nilo_analysis::Comparison;
use nilo_sample::units::format_bytes;

use crate::screen::Screen;
use crate::text::number::{format_change, format_share};
use crate::text::one_line::one_line;
use crate::text::table::{left, right, write_table};

const NAME_CHARS: usize = 40;

/// Writes a row for each run that was on a GPU; nothing where none was.
pub(crate) fn write_compared_gpus(
    out: &mut dyn Write,
    screen: Screen,
    comparison: &Comparison,
) -> std::io::Result<()> {
    let bytes = |bytes: Option<u64>| bytes.map_or("-".to_owned(), |b| format_bytes(b as f64));
    let runs = comparison.runs.iter().enumerate();
    let rows = runs.filter_map(|(index, run)| {
        let gpus = run.gpus.as_ref()?;
        let unless_first = |text: String| if index == 0 { String::new() } else { text };
        Some(vec![
            format!("  {}", one_line(&run.label, NAME_CHARS)),
            gpus.count.to_string(),
            bytes(gpus.peak_job_bytes),
            unless_first(format_change(gpus.peak_job_change_ratio)),
            bytes(gpus.peak_used_bytes),
            unless_first(format_change(gpus.peak_used_change_ratio)),
            format_share(gpus.mean_utilization),
        ])
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "GPU memory (driver; fullest GPU):")?;
    let columns = [
        left("  NAME"),
        right("GPUS").drops(3),
        right("JOB PEAK"),
        right("CHANGE").drops(1),
        right("PEAK USED").drops(4),
        right("CHANGE").drops(5),
        right("BUSY").drops(2),
    ];
    write_table(out, screen, &columns, &rows).map(drop)
}
