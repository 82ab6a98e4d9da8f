//! The GPUs in words: what was used on each, how much of it by the job, how busy it was.

use std::io::Write;

use nilo_analysis::Summary;
use nilo_analysis::gpus::GpuSummary;
use nilo_sample::units::format_bytes;

use crate::screen::Screen;
use crate::text::number::format_share;
use crate::text::one_line::one_line;
use crate::text::table::{left, right, write_table};

/// Names longer than this are cut.
const NAME_CHARS: usize = 40;

/// Writes a line for each GPU that the job held memory on, or for each recorded one if that is not known of any.
pub(crate) fn write_gpus(
    out: &mut dyn Write,
    screen: Screen,
    summary: &Summary,
) -> std::io::Result<()> {
    let some_are_the_jobs = summary.gpus.iter().any(GpuSummary::is_the_jobs);
    let shown = summary
        .gpus
        .iter()
        .filter(|gpu| gpu.is_the_jobs() || !some_are_the_jobs);
    let bytes = |bytes: Option<u64>| bytes.map_or("-".to_owned(), |b| format_bytes(b as f64));
    let rows: Vec<Vec<String>> = shown
        .map(|gpu| {
            vec![
                format!("  {}", gpu.index),
                bytes(gpu.peak_job_bytes),
                bytes(gpu.peak_used_bytes),
                bytes(gpu.mean_used_bytes),
                bytes(gpu.total_bytes),
                format_share(gpu.mean_utilization),
                one_line(gpu.name.as_deref().unwrap_or("-"), NAME_CHARS),
            ]
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "GPU memory (driver):")?;
    let columns = [
        left("  GPU"),
        right("PEAK OF JOB"),
        right("PEAK USED").drops(1),
        right("MEAN USED").drops(4),
        right("DEVICE HAS").drops(3),
        right("BUSY").drops(2),
        left("NAME").drops(5),
    ];
    write_table(out, screen, &columns, &rows).map(drop)
}
