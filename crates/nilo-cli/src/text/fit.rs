//! The memory of a model in words.

use std::io::Write;

use nilo_answer::fit::FitAnswer;
use nilo_answer::fit::answer::{BytesRange, FitGpu, FitMethod, FitSettings, FitVerdict, FitWay};
use nilo_sample::printable::printable;
use nilo_sample::units::format_bytes;

use super::snapshot::places::grouped;
use crate::screen::Screen;
use crate::text::table::{left, right, write_table};

/// Ways beyond these save little.
const MOST_WAYS: usize = 14;

/// Writes the estimate, its parts, GPUs, and ways to make it fit.
pub(crate) fn write_fit(
    out: &mut dyn Write,
    screen: Screen,
    answer: &FitAnswer,
) -> std::io::Result<()> {
    let model = &answer.model;
    writeln!(
        out,
        "{}: {} parameters{}",
        printable(&model.name),
        grouped(model.parameters),
        match model.trained_parameters {
            0 => String::new(),
            trained if trained == model.parameters => String::new(),
            trained => format!(", {} trained", grouped(trained)),
        }
    )?;
    for kind in &model.checkpoint_types {
        writeln!(
            out,
            "  checkpoint: {} in {} ({} weights)",
            format_bytes(kind.bytes as f64),
            printable(&kind.name),
            grouped(kind.parameters)
        )?;
    }
    match answer.method {
        FitMethod::Header => writeln!(out, "{}, from the weights alone", answer.settings.work)?,
        FitMethod::ClosedForm => writeln!(out, "{}", settings_in_words(&answer.settings))?,
    }
    writeln!(out)?;
    let row = |name: &str, range: BytesRange| {
        vec![
            name.to_owned(),
            size(range.expected),
            format!("{} to {}", size(range.low), size(range.high)),
        ]
    };
    let rows = [
        row("process (nvidia-smi)", answer.process_bytes),
        row("reserved by PyTorch", answer.reserved_bytes),
        row("allocated by tensors", answer.allocated_bytes),
    ];
    write_table(
        out,
        screen,
        &[left("MEMORY"), right("EXPECTED"), right("RANGE").drops(1)],
        &rows,
    )?;
    writeln!(out)?;
    write_parts(out, screen, answer)?;
    write_gpus(out, screen, &answer.gpus)?;
    write_ways(out, screen, answer)?;
    for note in &answer.notes {
        writeln!(out, "note: {}", printable(note))?;
    }
    Ok(())
}

fn write_parts(out: &mut dyn Write, screen: Screen, answer: &FitAnswer) -> std::io::Result<()> {
    let head = match answer.method {
        FitMethod::Header => "PART".to_owned(),
        FitMethod::ClosedForm => format!("PART AT THE PEAK ({})", answer.phase.to_uppercase()),
    };
    let total = answer.process_bytes.expected.max(1) as f64;
    let rows: Vec<Vec<String>> = answer
        .parts
        .iter()
        .map(|part| {
            vec![
                part.name.to_owned(),
                size(part.bytes),
                format!("{:.1} %", 100.0 * part.bytes as f64 / total),
            ]
        })
        .collect();
    write_table(
        out,
        screen,
        &[left(&head), right("SIZE"), right("SHARE").drops(1)],
        &rows,
    )?;
    writeln!(out)
}

fn write_gpus(out: &mut dyn Write, screen: Screen, gpus: &[FitGpu]) -> std::io::Result<()> {
    if gpus.is_empty() {
        return Ok(());
    }
    let has_batches = gpus.iter().any(|gpu| gpu.largest_batch.is_some());
    let mut columns = vec![left("GPU"), right("MEMORY"), left("VERDICT")];
    if has_batches {
        columns.push(right("LARGEST BATCH"));
    }
    let row = |gpu: &FitGpu| {
        let mut row = vec![
            printable(&gpu.name),
            size(gpu.memory_bytes),
            verdict_in_words(gpu.verdict).to_owned(),
        ];
        if has_batches {
            row.push(match (gpu.largest_batch, gpu.largest_batch_expected) {
                (Some(surely), Some(expected)) if surely < expected => {
                    format!("{} (perhaps {})", grouped(surely), grouped(expected))
                }
                (Some(surely), _) => grouped(surely),
                (None, _) => "unknown".to_owned(),
            });
        }
        row
    };
    let rows: Vec<Vec<String>> = gpus.iter().map(row).collect();
    write_table(out, screen, &columns, &rows)?;
    writeln!(out)
}

fn write_ways(out: &mut dyn Write, screen: Screen, answer: &FitAnswer) -> std::io::Result<()> {
    let Some(gpu) = answer.gpus.first().filter(|_| !answer.ways.is_empty()) else {
        return Ok(());
    };
    let head = match gpu.verdict {
        FitVerdict::Fits => "WAY TO SAVE MEMORY".to_owned(),
        _ => format!("WAY TO FIT {}", printable(&gpu.name).to_uppercase()),
    };
    let row = |way: &FitWay| {
        vec![
            way.change.clone(),
            format!("-{}", size(way.saved_bytes)),
            size(way.process_bytes.expected),
            time_in_words(way.time_percent),
            way.cost.to_owned(),
            verdict_in_words(way.verdict).to_owned(),
        ]
    };
    let ways: Vec<Vec<String>> = answer.ways.iter().take(MOST_WAYS).map(row).collect();
    let columns = [
        left(&head),
        right("SAVES"),
        right("TAKES").drops(2),
        right("TIME").drops(3),
        left("COST").drops(4),
        left("VERDICT").drops(1),
    ];
    write_table(out, screen, &columns, &ways)?;
    if let Some(together) = &answer.together {
        writeln!(out)?;
        writeln!(
            out,
            "Together, these make it fit: {} ({}, {}).",
            size(together.process_bytes.expected),
            together.cost,
            match together.time_percent {
                Some(percent) if percent >= 0.5 => format!("+{percent:.0} % time"),
                Some(_) => "about the same time".to_owned(),
                None => "time unknown".to_owned(),
            }
        )?;
        for (change, setting) in together.change.split(" + ").zip(&together.settings) {
            writeln!(out, "  {change}: {setting}")?;
        }
    } else if gpu.verdict != FitVerdict::Fits
        && answer
            .ways
            .iter()
            .all(|way| way.verdict != FitVerdict::Fits)
    {
        writeln!(out)?;
        writeln!(
            out,
            "None of these makes it fit, not even together: a smaller batch, shorter sequences, a larger GPU, more GPUs or a smaller model is needed."
        )?;
    }
    writeln!(out)
}

/// The settings as one line.
pub(crate) fn settings_in_words(settings: &FitSettings) -> String {
    let mut words = vec![match settings.work {
        "generation" => format!("generation of {} tokens", grouped(settings.new_tokens)),
        work => work.to_owned(),
    }];
    words.push(format!(
        "batch {} x {} tokens",
        grouped(settings.batch),
        grouped(settings.tokens)
    ));
    words.push(match settings.autocast {
        Some(cast) => format!("{} weights, autocast to {cast}", settings.dtype),
        None => settings.dtype.to_owned(),
    });
    if let Some(optimizer) = settings.optimizer {
        words.push(optimizer.to_owned());
    }
    match settings.checkpoint_every {
        0 => (),
        1 => words.push("every block checkpointed".to_owned()),
        every => words.push(format!("one of {every} blocks checkpointed")),
    }
    if settings.accumulation > 1 {
        words.push(format!("{} batches accumulated", settings.accumulation));
    }
    if settings.attention != "sdpa" {
        words.push(format!("{} attention", settings.attention));
    }
    if settings.loss_chunks > 1 {
        words.push(format!("loss in {} chunks", settings.loss_chunks));
    }
    if let Some(rank) = settings.lora_rank {
        words.push(format!("LoRA of rank {rank}"));
    }
    if let (Some(layers), Some(dtype)) = (settings.lora_layers, settings.lora_dtype) {
        words.push(format!("adapters on {layers} layers in {dtype}"));
    }
    if let Some(bits) = settings.quantized_bits {
        words.push(format!("{bits}-bit weights"));
    }
    if settings.ranks > 1 {
        words.push(format!("{} ranks ({})", settings.ranks, settings.sharding));
    }
    for (count, name) in [
        (settings.tensor_parallel, "GPUs share each matrix"),
        (settings.pipeline_parallel, "GPUs share the layers"),
    ] {
        if count > 1 {
            words.push(format!("{count} {name}"));
        }
    }
    if settings.offload_optimizer {
        words.push("optimizer state on the host".to_owned());
    }
    if settings.expandable_segments {
        words.push("expandable segments".to_owned());
    }
    words.join(", ")
}

/// Whether it fits, in words.
pub(crate) fn verdict_in_words(verdict: FitVerdict) -> &'static str {
    match verdict {
        FitVerdict::Fits => "fits",
        FitVerdict::MayNotFit => "may not fit",
        FitVerdict::DoesNotFit => "does not fit",
    }
}

fn time_in_words(percent: Option<f64>) -> String {
    match percent {
        None => "-".to_owned(),
        Some(percent) if percent < 0.5 => "same".to_owned(),
        Some(percent) => format!("+{percent:.0} %"),
    }
}

fn size(bytes: u64) -> String {
    format_bytes(bytes as f64)
}

/// Counts of weights as people say them.
pub(crate) fn parameters_in_words(count: u64) -> String {
    match count {
        0..1_000_000 => grouped(count),
        1_000_000..1_000_000_000 => format!("{:.1} M", count as f64 / 1e6),
        _ => format!("{:.2} B", count as f64 / 1e9),
    }
}
