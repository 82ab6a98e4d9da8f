//! A GPU and the models that fit it, in words.

use std::io::Write;

use nilo_answer::fit::answer::FitVerdict;
use nilo_answer::gpu::GpuAnswer;
use nilo_answer::gpu::compatibility::{CompatibilityRow, GpuCompatibility, ModelUse};
use nilo_answer::gpu::devices::{GpuMemoryNow, ListedGpu};
use nilo_answer::gpu::throughput::GpuThroughput;
use nilo_sample::printable::printable;
use nilo_sample::units::format_bytes;

use super::fit::parameters_in_words;
use crate::screen::Screen;
use crate::text::one_line::one_line;
use crate::text::table::{
    TextColumn, left, right, whole, write_coloured_table, write_left_out, write_table,
};

/// Command lines longer than this are cut.
const COMMAND_CHARS: usize = 80;
/// The bytes of a weight in 16 bits.
const WEIGHT_BYTES: u64 = 2;
/// The place of the status in a row of the compatibility table.
const STATUS_COLUMN: usize = 3;

/// Writes all five parts.
pub(crate) fn write_gpu_check(
    out: &mut dyn Write,
    screen: Screen,
    answer: &GpuAnswer,
) -> std::io::Result<()> {
    write_devices(out, screen, answer)?;
    write_memory(out, screen, answer)?;
    write_requirements(out, screen, answer)?;
    write_throughput(out, screen, answer)?;
    writeln!(out, "Model compatibility:")?;
    match &answer.compatibility[..] {
        [one] => write_compatibility(out, screen, one)?,
        several => write_common_gpus(out, screen, several)?,
    }
    for note in &answer.notes {
        writeln!(out, "note: {}", printable(note))?;
    }
    Ok(())
}

fn write_devices(out: &mut dyn Write, screen: Screen, answer: &GpuAnswer) -> std::io::Result<()> {
    if let Some(reason) = &answer.no_gpu_info {
        return writeln!(
            out,
            "GPUs, memory in use and throughput: not shown, {}\n",
            printable(reason)
        );
    }
    writeln!(out, "GPUs:")?;
    let columns = [
        right("GPU"),
        left("NAME"),
        right("MEMORY"),
        right("CAPABILITY").drops(2),
        left("DRIVER").drops(1),
    ];
    let row = |gpu: &ListedGpu| {
        let text = |text: &Option<String>| printable(text.as_deref().unwrap_or("-"));
        vec![
            gpu.index.to_string(),
            printable(&gpu.name),
            size(gpu.total_bytes),
            text(&gpu.compute_capability),
            text(&gpu.driver_version),
        ]
    };
    let rows: Vec<Vec<String>> = answer.gpu_info.iter().map(row).collect();
    write_table(out, screen, &columns, &rows)?;
    writeln!(out)
}

fn write_memory(out: &mut dyn Write, screen: Screen, answer: &GpuAnswer) -> std::io::Result<()> {
    let name = device_in_words(answer);
    match (&answer.memory, &answer.no_memory) {
        (Some(memory), _) => {
            writeln!(out, "Memory of {name}:")?;
            write_memory_in_use(out, screen, memory)?;
        }
        // The first part has said why.
        (None, _) if answer.no_gpu_info.is_some() => return Ok(()),
        (None, reason) => {
            let reason = reason.as_deref().unwrap_or("not known");
            writeln!(out, "Memory of {name}: not known: {}", printable(reason))?;
        }
    }
    writeln!(out)
}

fn write_memory_in_use(
    out: &mut dyn Write,
    screen: Screen,
    memory: &GpuMemoryNow,
) -> std::io::Result<()> {
    let columns = [
        right("TOTAL").drops(2),
        right("USED"),
        right("FREE"),
        right("BUSY").drops(1),
    ];
    let busy = memory.utilization_percent;
    let row = vec![
        size(memory.total_bytes),
        size(memory.used_bytes),
        size(memory.free_bytes),
        busy.map_or("-".to_owned(), |percent| format!("{percent} %")),
    ];
    write_table(out, screen, &columns, &[row])?;
    let Some(processes) = &memory.processes else {
        return writeln!(out, "The driver does not tell which processes hold it.");
    };
    if processes.is_empty() {
        return Ok(());
    }
    let columns = [right("PID"), right("GPU MEMORY"), left("COMMAND").drops(1)];
    let rows: Vec<Vec<String>> = processes
        .iter()
        .map(|process| {
            let command = process.command.as_deref();
            vec![
                process.pid.map_or("-".to_owned(), |pid| pid.to_string()),
                size(process.used_bytes),
                command.map_or("-".to_owned(), |text| one_line(text, COMMAND_CHARS)),
            ]
        })
        .collect();
    write_table(out, screen, &columns, &rows).map(drop)
}

fn write_requirements(
    out: &mut dyn Write,
    screen: Screen,
    answer: &GpuAnswer,
) -> std::io::Result<()> {
    writeln!(
        out,
        "Model memory requirements (a process, batch 1 x 512 tokens, estimated):"
    )?;
    let columns = [
        left("MODEL"),
        right("PARAMETERS").drops(1),
        right("INFERENCE (FP16)"),
        right("TRAINING (FP16+ADAM)"),
    ];
    let rows: Vec<Vec<String>> = answer
        .model_requirements
        .iter()
        .map(|model| {
            vec![
                model.slug.clone(),
                parameters_in_words(model.parameters),
                size(Some(model.inference_bytes.expected)),
                size(Some(model.training_bytes.expected)),
            ]
        })
        .collect();
    write_table(out, screen, &columns, &rows)?;
    let mixtures = answer
        .model_requirements
        .iter()
        .filter(|model| model.has_experts());
    for model in mixtures {
        writeln!(
            out,
            "{}: a token passes through {} of its {} parameters ({} of {}), but all of them must be loaded.",
            model.slug,
            parameters_in_words(model.active_parameters),
            parameters_in_words(model.parameters),
            size(Some(WEIGHT_BYTES * model.active_parameters)),
            size(Some(model.weights_bytes)),
        )?;
    }
    writeln!(out)
}

fn write_throughput(
    out: &mut dyn Write,
    screen: Screen,
    answer: &GpuAnswer,
) -> std::io::Result<()> {
    let Some(found) = &answer.throughput else {
        if answer.no_gpu_info.is_some() {
            return Ok(());
        }
        let reason = answer.no_throughput.as_deref().unwrap_or("not known");
        return writeln!(out, "Throughput: not measured: {}\n", printable(reason));
    };
    writeln!(
        out,
        "Throughput of {} ({} {}):",
        device_in_words(answer),
        found.library,
        found.library_version
    )?;
    let columns = [
        left("OPERATION"),
        right("MEASURED"),
        right("NOMINAL").drops(2),
        right("SHARE").drops(1),
    ];
    write_table(out, screen, &columns, &rates(found))?;
    writeln!(out)
}

fn rates(found: &GpuThroughput) -> Vec<Vec<String>> {
    let row = |name: String,
               rate: f64,
               nominal: Option<f64>,
               percent: Option<f64>,
               unit: f64,
               of: &str| {
        let in_unit = |rate: f64| format!("{:.1} {of}", rate / unit);
        vec![
            name,
            in_unit(rate),
            nominal.map_or("-".to_owned(), in_unit),
            percent.map_or("-".to_owned(), |percent| format!("{percent:.1} %")),
        ]
    };
    let copy = found.copy.iter().map(|copy| {
        let nominal = copy.nominal_bytes_per_sec;
        let percent = copy.of_nominal_percent;
        row(
            "copy".to_owned(),
            copy.bytes_per_sec,
            nominal,
            percent,
            1e9,
            "GB/s",
        )
    });
    let matrix = found.matrix.iter().map(|rate| {
        let nominal = rate.nominal_flops_per_sec;
        let percent = rate.of_nominal_percent;
        let name = format!("matrix product {}", rate.dtype);
        row(name, rate.flops_per_sec, nominal, percent, 1e12, "TFLOP/s")
    });
    copy.chain(matrix).collect()
}

fn write_compatibility(
    out: &mut dyn Write,
    screen: Screen,
    found: &GpuCompatibility,
) -> std::io::Result<()> {
    let gpu = printable(&found.gpu);
    let available = size(Some(found.available_gpu_memory_bytes));
    let free = found
        .free_bytes
        .map(|free| format!(", {} of it free", size(Some(free))));
    writeln!(
        out,
        "Available GPU memory: {available} ({gpu}{})",
        free.unwrap_or_default()
    )?;
    let columns = [
        left("MODEL"),
        left("USE"),
        right("REQUIRED").drops(1),
        whole("STATUS"),
    ];
    let rows: Vec<Vec<String>> = found
        .models
        .iter()
        .map(|row| {
            vec![
                row.slug.clone(),
                row.model_use.name().to_owned(),
                size(Some(row.required_bytes.expected)),
                status_in_words(row).to_owned(),
            ]
        })
        .collect();
    let severity = |row: usize, column: usize| {
        let status = found.models.get(row)?.status;
        (column == STATUS_COLUMN).then_some(match status {
            FitVerdict::Fits => "ok",
            FitVerdict::MayNotFit => "warning",
            FitVerdict::DoesNotFit => "error",
        })
    };
    let left_out = write_coloured_table(out, screen, &columns, &rows, &severity)?;
    write_left_out(out, screen, &columns, &left_out)?;
    writeln!(out)?;
    writeln!(out, "Verdict for {gpu} ({available}):")?;
    for sentence in &found.verdict {
        writeln!(out, "  {sentence}")?;
    }
    let advice = found.models.iter().filter_map(|row| row.advice.as_ref());
    if advice.into_iter().any(|advice| advice.way.is_some()) {
        writeln!(
            out,
            "`nilo fit MODEL --gpu NAME` lists every way for a batch of yours, and how to set it."
        )?;
    }
    Ok(())
}

/// Whether it fits; what fits the GPU may have no room beside what is in use.
fn status_in_words(row: &CompatibilityRow) -> &'static str {
    match (row.status, row.status_now) {
        (FitVerdict::Fits, Some(FitVerdict::DoesNotFit)) => "fits, but not now",
        (FitVerdict::Fits, Some(FitVerdict::MayNotFit)) => "fits, perhaps not now",
        (FitVerdict::Fits, _) => "fits",
        (FitVerdict::MayNotFit, _) => "may not fit",
        (FitVerdict::DoesNotFit, _) => "too large",
    }
}

fn write_common_gpus(
    out: &mut dyn Write,
    screen: Screen,
    gpus: &[GpuCompatibility],
) -> std::io::Result<()> {
    let heads: Vec<String> = gpus.iter().map(|found| found.gpu.to_uppercase()).collect();
    let mut columns: Vec<TextColumn<'_>> = vec![left("MODEL")];
    for (place, head) in heads.iter().enumerate() {
        columns.push(whole(head).drops(place as u8 + 1));
    }
    let Some(first) = gpus.first() else {
        return Ok(());
    };
    let row = |at: usize| {
        let cells = gpus
            .iter()
            .map(|found| pair_in_words(&found.models[at..at + 2]));
        std::iter::once(first.models[at].slug.clone())
            .chain(cells.map(str::to_owned))
            .collect()
    };
    let rows: Vec<Vec<String>> = (0..first.models.len()).step_by(2).map(row).collect();
    let left_out = write_table(out, screen, &columns, &rows)?;
    write_left_out(out, screen, &columns, &left_out)?;
    writeln!(
        out,
        "train: training and inference fit; infer: inference fits; infer?, train?: it may not fit, the estimate is too near; -: neither. \
`nilo gpu --gpu NAME` tells what would make a model fit."
    )
}

/// Inference and training of one model.
fn pair_in_words(rows: &[CompatibilityRow]) -> &'static str {
    let status = |model_use: ModelUse| {
        let of_use = rows.iter().find(|row| row.model_use == model_use);
        of_use.map_or(FitVerdict::DoesNotFit, |row| row.status)
    };
    match (status(ModelUse::Inference), status(ModelUse::Training)) {
        (_, FitVerdict::Fits) => "train",
        (_, FitVerdict::MayNotFit) => "train?",
        (FitVerdict::Fits, _) => "infer",
        (FitVerdict::MayNotFit, _) => "infer?",
        _ => "-",
    }
}

/// `GPU 0 (Tesla T4)`.
fn device_in_words(answer: &GpuAnswer) -> String {
    let Some(device) = answer.device else {
        return "the GPU".to_owned();
    };
    let listed = answer.gpu_info.iter().find(|gpu| gpu.index == device);
    match listed {
        Some(gpu) => format!("GPU {device} ({})", printable(&gpu.name)),
        None => format!("GPU {device}"),
    }
}

fn size(bytes: Option<u64>) -> String {
    bytes.map_or("-".to_owned(), |bytes| format_bytes(bytes as f64))
}
