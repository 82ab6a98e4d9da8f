//! The GPUs in words: what was used on each, how much of it by the job, how busy it was, what its sensors said.

use std::io::Write;

use nilo_analysis::Summary;
use nilo_analysis::gpus::GpuSummary;
use nilo_sample::RunMode;
use nilo_sample::units::format_bytes;

use crate::screen::Screen;
use crate::text::gpu_sensors::{is_troubled, sensors_of_run};
use crate::text::number::format_share;
use crate::text::one_line::one_line;
use crate::text::table::{left, right, write_table};

/// Names longer than this are cut.
const NAME_CHARS: usize = 40;

/// Writes a line for each GPU that the job held memory on, or for each recorded one if that is not known of any.
/// What its sensors said follows where everything is wanted, or where a GPU was in trouble.
pub(crate) fn write_gpus(
    out: &mut dyn Write,
    screen: Screen,
    summary: &Summary,
    everything: bool,
) -> std::io::Result<()> {
    let some_are_the_jobs = summary.gpus.iter().any(GpuSummary::is_the_jobs);
    let shown = summary
        .gpus
        .iter()
        .filter(|gpu| gpu.is_the_jobs() || !some_are_the_jobs);
    let sensors = shown.clone().filter_map(|gpu| {
        let sensors = gpu.sensors.as_ref()?;
        (everything || is_troubled(sensors)).then(|| (gpu.index, sensors_of_run(sensors)))
    });
    // A look at the machine has no job.
    let has_job = summary.mode != RunMode::Machine;
    let bytes = |bytes: Option<u64>| bytes.map_or("-".to_owned(), |b| format_bytes(b as f64));
    let rows: Vec<Vec<String>> = shown
        .map(|gpu| {
            let mut row = vec![
                format!("  {}", gpu.index),
                bytes(gpu.peak_used_bytes),
                bytes(gpu.mean_used_bytes),
                bytes(gpu.total_bytes),
                format_share(gpu.mean_utilization),
                name_of(gpu),
            ];
            if has_job {
                row.insert(1, bytes(gpu.peak_job_bytes));
            }
            row
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "GPU memory (driver):")?;
    let mut columns = vec![
        left("  GPU"),
        right("PEAK USED").drops(1),
        right("MEAN USED").drops(4),
        right("TOTAL").drops(3),
        right("BUSY").drops(2),
        left("NAME").drops(5),
    ];
    if has_job {
        columns.insert(1, right("JOB PEAK"));
    }
    write_table(out, screen, &columns, &rows)?;
    for (index, words) in sensors.filter(|(_, words)| !words.is_empty()) {
        writeln!(out, "  GPU {index}: {words}")?;
    }
    Ok(())
}

fn name_of(gpu: &GpuSummary) -> String {
    let name = one_line(gpu.name.as_deref().unwrap_or("-"), NAME_CHARS);
    match gpu.part_of {
        Some(whole) => format!("{name} (part of GPU {whole})"),
        None => name,
    }
}
