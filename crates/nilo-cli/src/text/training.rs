//! What the program itself logged, in words: metrics, phases, throughput, GPU memory by PyTorch's account.

use std::io::Write;

use nilo_analysis::Summary;
use nilo_analysis::metrics::{CURVE_POINTS, MetricSummary, ValueAt, metric_rank};
use nilo_analysis::phases::PhaseSummary;
use nilo_plot::short_number;
use nilo_sample::printable::printable;
use nilo_sample::units::format_bytes;

use crate::screen::Screen;
use crate::text::number::{format_optional, format_secs, format_share};
use crate::text::one_line::one_line;
use crate::text::run_commands::CommandOfRun;
use crate::text::table::{left, right, whole, write_table};

/// How many metrics are listed unless all are asked for.
pub(crate) const SOME_METRICS: usize = 20;

/// How many phases and devices are listed likewise.
const SOME_ROWS: usize = 20;

/// Names longer than this are cut.
const NAME_CHARS: usize = 40;

/// Where the peaks of phases stand among the columns, in runs that have them.
const PEAK_COLUMN: usize = 6;

/// Values of settings likewise.
const VALUE_CHARS: usize = 60;

/// Sentences with a name in them.
const SENTENCE_CHARS: usize = 200;

/// Whether there is anything to say here.
pub(crate) fn has_training(summary: &Summary) -> bool {
    !summary.metrics.is_empty()
        || !summary.config.is_empty()
        || !summary.phases.is_empty()
        || summary.throughput.is_some()
        || !summary.torch_memory.is_empty()
}

/// Writes a section for each kind that was recorded; nothing for a run without any.
pub(crate) fn write_training(
    out: &mut dyn Write,
    screen: Screen,
    summary: &Summary,
    most_metrics: usize,
    command: CommandOfRun<'_>,
) -> std::io::Result<()> {
    let most_rows = most_metrics.max(SOME_ROWS);
    write_settings(out, summary, most_rows)?;
    write_metrics(out, screen, summary, most_metrics)?;
    write_rest(out, summary.metrics.len(), most_metrics, command)?;
    write_earlier_steps(out, summary, command)?;
    write_phases(out, screen, summary, most_rows)?;
    write_rest(out, summary.phases.len(), most_rows, command)?;
    write_phase_remarks(out, summary)?;
    write_throughput(out, screen, summary)?;
    write_torch_memory(out, screen, summary, most_rows)?;
    write_rest(out, summary.torch_memory.len(), most_rows, command)
}

fn write_settings(out: &mut dyn Write, summary: &Summary, most: usize) -> std::io::Result<()> {
    if summary.config.is_empty() {
        return Ok(());
    }
    writeln!(out, "Settings:")?;
    for (name, value) in summary.config.iter().take(most) {
        let (name, value) = (
            one_line(name, NAME_CHARS),
            one_line(&nilo_sample::setting_text(value), VALUE_CHARS),
        );
        writeln!(out, "  {name} = {value}")?;
    }
    if summary.config.len() > most {
        let rest = summary.config.len() - most;
        writeln!(out, "  and {rest} more; see `--all` or `--format json`")?;
    }
    Ok(())
}

fn write_metrics(
    out: &mut dyn Write,
    screen: Screen,
    summary: &Summary,
    most: usize,
) -> std::io::Result<()> {
    if summary.metrics.is_empty() {
        return Ok(());
    }
    writeln!(out, "Metrics:")?;
    let columns = [
        left("  NAME"),
        right("LAST"),
        right("STEP").drops(2),
        right("MIN").drops(3),
        right("MAX").drops(4),
        right("MEAN").drops(5),
        right("COUNT").drops(6),
        whole("CURVE").drops(7),
        left("").drops(1),
    ];
    let value = |at: Option<ValueAt>| format_optional(at.map(|at| at.value));
    let mut metrics: Vec<&MetricSummary> = summary.metrics.iter().collect();
    // Within a rank the order of logging stays.
    metrics.sort_by_key(|metric| metric_rank(&metric.name));
    let rows = metrics.into_iter().take(most).map(|metric| {
        let step = metric.last.and_then(|last| last.step);
        vec![
            format!("  {}", one_line(&metric.name, NAME_CHARS)),
            value(metric.last),
            step.map_or("-".to_owned(), |step| step.to_string()),
            value(metric.min),
            value(metric.max),
            format_optional(metric.mean),
            metric.count.to_string(),
            nilo_plot::trend(&metric.curve, CURVE_POINTS),
            remarks(metric),
        ]
    });
    write_table(out, screen, &columns, &rows.collect::<Vec<_>>())?;
    Ok(())
}

fn write_earlier_steps(
    out: &mut dyn Write,
    summary: &Summary,
    command: CommandOfRun<'_>,
) -> std::io::Result<()> {
    let resumes = summary.resumes.as_ref();
    match resumes.filter(|_| !summary.metrics.is_empty()) {
        Some(earlier) => writeln!(
            out,
            "  earlier steps are in {}; `{}` draws them too",
            printable(earlier),
            command("plot -x step")
        ),
        None => Ok(()),
    }
}

/// What must not be overlooked in a metric.
fn remarks(metric: &MetricSummary) -> String {
    let mut remarks = Vec::new();
    if metric.nan_count > 0 {
        remarks.push(format!("{} NaN", metric.nan_count));
    }
    let negative = metric.negative_infinite_count;
    let positive = metric.infinite_count.saturating_sub(negative);
    let infinite = [(positive, "inf"), (negative, "-inf")];
    let some = infinite.into_iter().filter(|(count, _)| *count > 0);
    remarks.extend(some.map(|(count, sign)| format!("{count} {sign}")));
    if metric.step_restarts > 0 {
        remarks.push(match metric.step_restarts {
            1 => "steps restart once".to_owned(),
            times => format!("steps restart {times} times"),
        });
    }
    remarks.extend(several_processes(metric.processes));
    if let Some(ranks) = metric.ranks {
        remarks.push(match (ranks.last_min, ranks.last_max) {
            (Some(low), Some(high)) => format!(
                "{} ranks, last {} to {}",
                ranks.count,
                format_optional(Some(low)),
                format_optional(Some(high))
            ),
            _ => format!("{} ranks", ranks.count),
        });
    }
    remarks.join(", ")
}

fn write_phases(
    out: &mut dyn Write,
    screen: Screen,
    summary: &Summary,
    most: usize,
) -> std::io::Result<()> {
    if summary.phases.is_empty() {
        return Ok(());
    }
    writeln!(out, "Phases:")?;
    let has_peaks = summary
        .phases
        .iter()
        .any(|phase| phase.peak_at_least_bytes.is_some());
    let mut columns = vec![
        left("  NAME"),
        right("COUNT").drops(2),
        right("MEAN"),
        right("P95").drops(4),
        right("MAX").drops(3),
        right("SHARE").drops(1),
        left("").drops(5),
    ];
    if has_peaks {
        columns.insert(PEAK_COLUMN, right("GPU PEAK").drops(1));
    }
    let rows = summary.phases.iter().take(most).map(|phase| {
        // An inner phase stands under its outer one and needs only its own part of the name.
        let outer = phase.parent.as_ref().map_or(0, |outer| outer.len() + 1);
        let name = phase.name.get(outer..).unwrap_or(&phase.name);
        let indent = "  ".repeat(phase.depth.min(8) as usize + 1);
        let mut cells = vec![
            format!("{indent}{}", one_line(name, NAME_CHARS)),
            phase.count.to_string(),
            format_secs(phase.mean_secs),
            format_secs(phase.p95_secs),
            format_secs(phase.max_secs),
            format_share(phase.wall_share_ratio),
            phase_remarks(phase),
        ];
        if has_peaks {
            cells.insert(PEAK_COLUMN, phase_peak(phase));
        }
        cells
    });
    write_table(out, screen, &columns, &rows.collect::<Vec<_>>())?;
    Ok(())
}

fn write_phase_remarks(out: &mut dyn Write, summary: &Summary) -> std::io::Result<()> {
    let is_over = |phase: &PhaseSummary| phase.wall_share_ratio.is_some_and(|share| share > 1.005);
    if summary.phases.iter().any(is_over) {
        writeln!(
            out,
            "  a share above 100 %: threads or tasks ran the phase at the same time"
        )?;
    }
    write_bottleneck(out, summary)
}

/// The most GPU memory in tensors while it ran; where it is not known, what it was at least.
fn phase_peak(phase: &PhaseSummary) -> String {
    match phase.peak_at_least_bytes {
        None => String::new(),
        Some(bytes) if phase.peak_at_most_bytes == Some(bytes) => format_bytes(bytes as f64),
        Some(bytes) => format!("at least {}", format_bytes(bytes as f64)),
    }
}

fn phase_remarks(phase: &PhaseSummary) -> String {
    let mut remarks = Vec::new();
    if phase.represented_count > phase.count {
        remarks.push(format!(
            "timed in {} of {} steps",
            phase.count, phase.represented_count
        ));
    }
    if phase.unusable_count > 0 {
        remarks.push(format!(
            "{} without a usable duration",
            phase.unusable_count
        ));
    }
    remarks.extend(several_processes(phase.processes));
    remarks.extend(phase_ranks(phase));
    remarks.join(", ")
}

/// What several processes of a run logged under one name is told as one: workers of a pool, or a program started twice.
fn several_processes(processes: u64) -> Option<String> {
    (processes > 1).then(|| format!("from {processes} processes"))
}

/// `2 ranks, mean 4.1 ms to 4.3 ms`, and how often each timed it where that differs.
fn phase_ranks(phase: &PhaseSummary) -> Option<String> {
    let means = || phase.ranks.iter().filter_map(|own| own.mean_secs);
    let counts = || phase.ranks.iter().map(|own| own.represented_count);
    let mut text = format!("{} ranks", phase.ranks.len());
    if let (Some(low), Some(high)) = (means().reduce(f64::min), means().reduce(f64::max)) {
        let (low, high) = (format_secs(Some(low)), format_secs(Some(high)));
        text += &format!(", mean {low} to {high}");
    }
    let (fewest, most) = (counts().min()?, counts().max()?);
    if fewest < most {
        text += &format!(", {fewest} to {most} times");
    }
    Some(text)
}

fn write_bottleneck(out: &mut dyn Write, summary: &Summary) -> std::io::Result<()> {
    let Some(bottleneck) = &summary.bottleneck else {
        return Ok(());
    };
    writeln!(out, "  {}", one_line(&bottleneck.text, SENTENCE_CHARS))?;
    for advice in &bottleneck.advice {
        writeln!(out, "    - {advice}")?;
    }
    Ok(())
}

fn write_throughput(out: &mut dyn Write, screen: Screen, summary: &Summary) -> std::io::Result<()> {
    let Some(throughput) = &summary.throughput else {
        return Ok(());
    };
    writeln!(out, "Throughput:")?;
    let recent = match throughput.recent_secs {
        secs if secs > 0.0 => format!("LAST {}", format_secs(Some(secs))),
        _ => "LAST".to_owned(),
    };
    let columns = [
        left("  "),
        right("TOTAL").drops(2),
        right("MEAN"),
        right(recent.as_str()).drops(1),
    ];
    let rate = |rate: Option<f64>| match rate {
        Some(rate) => format!("{}/s", short_number(rate)),
        None => "-".to_owned(),
    };
    let rows = throughput.counters().map(|(name, counter)| {
        vec![
            format!("  {name}"),
            short_number(counter.total),
            rate(counter.mean_per_sec),
            rate(counter.recent_per_sec),
        ]
    });
    write_table(out, screen, &columns, &rows.collect::<Vec<_>>())?;
    let mut counters = throughput.counters();
    if counters.any(|(_, counter)| counter.timed < counter.total) {
        writeln!(
            out,
            "  MEAN excludes the first batch: its start was not recorded"
        )?;
    }
    Ok(())
}

fn write_torch_memory(
    out: &mut dyn Write,
    screen: Screen,
    summary: &Summary,
    most: usize,
) -> std::io::Result<()> {
    if summary.torch_memory.is_empty() {
        return Ok(());
    }
    writeln!(out, "GPU memory (PyTorch):")?;
    let columns = [
        left("  DEVICE"),
        right("PEAK ALLOCATED"),
        right("PEAK RESERVED").drops(1),
        right("TOTAL").drops(2),
        left("PROCESS").drops(3),
    ];
    let bytes = |bytes: Option<u64>| bytes.map_or("-".to_owned(), |b| format_bytes(b as f64));
    let rows = summary.torch_memory.iter().take(most).map(|device| {
        vec![
            format!("  cuda:{}", device.device),
            bytes(device.peak_allocated_bytes),
            bytes(device.peak_reserved_bytes),
            bytes(device.device_total_bytes),
            one_line(&device.writer, NAME_CHARS),
        ]
    });
    write_table(out, screen, &columns, &rows.collect::<Vec<_>>())?;
    Ok(())
}

fn write_rest(
    out: &mut dyn Write,
    there_are: usize,
    shown: usize,
    command: CommandOfRun<'_>,
) -> std::io::Result<()> {
    match there_are.saturating_sub(shown) {
        0 => Ok(()),
        rest => {
            let all = command("show --all");
            writeln!(out, "  and {rest} more; see `{all}` or `--format json`")
        }
    }
}
