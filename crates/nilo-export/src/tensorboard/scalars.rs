//! Which numbers TensorBoard gets, and under which tags.
//!
//! | tag | is |
//! |---|---|
//! | the metric's name | what the program logged |
//! | `phase/<name>_seconds` | each duration of a phase |
//! | `throughput/<counter>_per_second` | the rate between two readings |
//! | `memory/tree_gib`, `memory/swap_gib`, `memory/cgroup_working_set_gib`, `memory/host_available_gib` | levels |
//! | `memory/gpu<n>_used_gib`, `memory/gpu<n>_job_gib` | the driver's account: the whole GPU, and the job's part |
//! | `memory/cuda<n>_allocated_gib`, `memory/cuda<n>_reserved_gib` | PyTorch's account |
//!
//! What a second tracker of a process counts has a tag of its own: `throughput/tokens_per_second/tracker-1`.
//! Where several processes count the same thing, the tag ends in the process: `throughput/tokens_per_second/python-4711`.

use std::collections::HashMap;
use std::io::{BufWriter, Write};

use nilo_analysis::owned_cgroup::owned_cgroup_table;
use nilo_analysis::{MetricPoint, StepClock, metrics, step_at};
use nilo_sample::units::{GIB, NANOS_PER_SEC, to_secs};
use nilo_sample::{RecordedTable, Recording, Subject};

use super::event::{ScalarEncoder, encode_file_version};
use super::record::write_record;
use crate::ExportError;

/// Writes the events of a recording, tag by tag.
pub fn write_tensorboard(recording: &Recording, output: impl Write) -> Result<(), ExportError> {
    let started_secs = recording.description.started_unix_nanos as f64 / NANOS_PER_SEC as f64;
    let mut scalars = Scalars {
        output: BufWriter::new(output),
        encoder: ScalarEncoder::default(),
        started_secs,
        clock: StepClock::of(recording),
    };
    write_record(&mut scalars.output, &encode_file_version(started_secs))?;
    write_metrics(recording, &mut scalars)?;
    let writers = count_writers(recording);
    let own_cgroup = owned_cgroup_table(recording);
    for table in &recording.tables {
        let is_own_cgroup = own_cgroup.is_some_and(|own| std::ptr::eq(own, table));
        write_table(table, is_own_cgroup, &writers, &mut scalars)?;
    }
    scalars.output.flush()?;
    Ok(())
}

/// Scalars on their way into a file.
struct Scalars<W: Write> {
    output: BufWriter<W>,
    encoder: ScalarEncoder,
    started_secs: f64,
    clock: StepClock,
}

impl<W: Write> Scalars<W> {
    fn write(
        &mut self,
        tag: &str,
        time_nanos: u64,
        step: Option<i64>,
        value: f64,
    ) -> Result<(), ExportError> {
        let step = step
            .or_else(|| self.clock.step(time_nanos))
            .unwrap_or((time_nanos / NANOS_PER_SEC) as i64);
        let wall_secs = self.started_secs + to_secs(time_nanos);
        let event = self.encoder.encode(wall_secs, step, tag, value as f32);
        write_record(&mut self.output, event)?;
        Ok(())
    }
}

fn write_metrics<W: Write>(
    recording: &Recording,
    scalars: &mut Scalars<W>,
) -> Result<(), ExportError> {
    for metric in metrics(recording) {
        let history = metric.history();
        let stepped = history.by_step().into_iter().map(|(_, point)| point);
        let is_unstepped = |point: &&MetricPoint| point.step.is_none();
        let unstepped = history.points.iter().filter(is_unstepped).copied();
        for point in stepped.chain(unstepped) {
            scalars.write(&metric.name, point.time_nanos, point.step, point.value)?;
        }
    }
    Ok(())
}

/// How many tables there are about a subject: one for each process that wrote about it.
fn count_writers(recording: &Recording) -> HashMap<&Subject, usize> {
    let mut writers = HashMap::new();
    for table in recording.tables.iter().filter(|t| !t.times.is_empty()) {
        *writers.entry(&table.spec.subject).or_default() += 1;
    }
    writers
}

fn write_table<W: Write>(
    table: &RecordedTable,
    is_own_cgroup: bool,
    writers: &HashMap<&Subject, usize>,
    scalars: &mut Scalars<W>,
) -> Result<(), ExportError> {
    let subject = &table.spec.subject;
    let of_process = match writers.get(subject) {
        Some(2..) => format!("/{}", table.writer),
        _ => String::new(),
    };
    let mut level = |column: &str, tag: String| {
        write_column(table, column, &(tag + &of_process), GIB as f64, scalars)
    };
    match subject {
        Subject::Tree => {
            level("memory_bytes", "memory/tree_gib".to_owned())?;
            level("swap_bytes", "memory/swap_gib".to_owned())
        }
        Subject::Host => level("available_bytes", "memory/host_available_gib".to_owned()),
        // Of the cgroups on the way to the root only the job's own is about the job.
        Subject::Cgroup { .. } if is_own_cgroup => level(
            "working_set_bytes",
            "memory/cgroup_working_set_gib".to_owned(),
        ),
        Subject::TorchMemory { device, .. } => {
            level(
                "allocated_bytes",
                format!("memory/cuda{device}_allocated_gib"),
            )?;
            level(
                "reserved_bytes",
                format!("memory/cuda{device}_reserved_gib"),
            )
        }
        Subject::Gpu { index } => {
            level("used_bytes", format!("memory/gpu{index}_used_gib"))?;
            level("job_bytes", format!("memory/gpu{index}_job_gib"))
        }
        Subject::Phase { name } => {
            let tag = format!("phase/{name}_seconds{of_process}");
            write_column(table, "duration_nanos", &tag, NANOS_PER_SEC as f64, scalars)
        }
        Subject::Throughput { tracker } => {
            let of_tracker = match tracker {
                0 => String::new(),
                tracker => format!("/tracker-{tracker}"),
            };
            for column in ["batches", "samples", "tokens"] {
                let tag = format!("throughput/{column}_per_second{of_tracker}{of_process}");
                write_rate(table, column, &tag, scalars)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// A column in units of `unit`; what was not measured is left out.
fn write_column<W: Write>(
    table: &RecordedTable,
    column: &str,
    tag: &str,
    unit: f64,
    scalars: &mut Scalars<W>,
) -> Result<(), ExportError> {
    let Some(series) = table.series(column) else {
        return Ok(());
    };
    for (row, (time_nanos, value)) in series.times.iter().zip(series.values).enumerate() {
        if !nilo_sample::is_absent(*value) {
            scalars.write(tag, *time_nanos, step_at(table, row), value / unit)?;
        }
    }
    Ok(())
}

/// The rate of a counter between consecutive readings; none where it was begun anew.
fn write_rate<W: Write>(
    table: &RecordedTable,
    column: &str,
    tag: &str,
    scalars: &mut Scalars<W>,
) -> Result<(), ExportError> {
    let Some(series) = table.series(column) else {
        return Ok(());
    };
    let mut before: Option<(u64, f64)> = None;
    for (row, (time_nanos, value)) in series.times.iter().zip(series.values).enumerate() {
        if !value.is_finite() {
            continue;
        }
        if let Some((time_before, value_before)) = before {
            let secs = to_secs(time_nanos.saturating_sub(time_before));
            // Readings of the same moment wait for the next one.
            if secs <= 0.0 {
                continue;
            }
            if *value >= value_before {
                let rate = (value - value_before) / secs;
                scalars.write(tag, *time_nanos, step_at(table, row), rate)?;
            }
        }
        before = Some((*time_nanos, *value));
    }
    Ok(())
}
