//! What a recording knows of its training, for the rules of advice: figures of its summary, and what the program told of itself.
//!
//! Nothing is judged here a second time: a leak is that of the verdicts, copied pages and `/dev/shm` are those of the findings.

mod data_waits;
mod evaluation_peaks;
mod out_of_memory;
mod told;

use nilo_advice::Facts;
use nilo_sample::Recording;

use crate::assessment::RanOut;
use crate::bottleneck::Bottleneck;
use crate::findings::{copied_pages, shared_memory_use};
use crate::metrics::MetricSummary;
use crate::phases::PhaseSummary;
use crate::summary::MemorySummary;
use crate::throughput::ThroughputSummary;
use crate::torch_memory::TorchMemorySummary;
use crate::tracking::{ResourceVerdict, advised_leak, was_leak_looked_for};
use data_waits::share_that_waits;
use evaluation_peaks::evaluation_peaks;
pub(crate) use told::optimizations;

/// Figures of a summary that facts come from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SummaryFigures<'a> {
    pub(crate) memory: &'a MemorySummary,
    pub(crate) verdicts: &'a [ResourceVerdict],
    pub(crate) ran_out: Option<&'a RanOut>,
    pub(crate) torch_memory: &'a [TorchMemorySummary],
    pub(crate) metrics: &'a [MetricSummary],
    pub(crate) phases: &'a [PhaseSummary],
    pub(crate) bottleneck: Option<&'a Bottleneck>,
    pub(crate) throughput: Option<&'a ThroughputSummary>,
}

/// Everything that is known. Of memory that the recorder measures itself, its word counts; otherwise that of the program.
pub(crate) fn facts_of(recording: &Recording, figures: SummaryFigures<'_>) -> Facts {
    let mut facts = told::facts(recording);
    add_host(&mut facts, figures);
    facts.out_of_memory = out_of_memory::facts(figures.ran_out);
    add_loader(&mut facts, recording, figures);
    add_torch(&mut facts, recording, figures);
    add_collector(&mut facts, figures);
    if let Some(size) = metric(figures, "batch/size").and_then(|metric| metric.last) {
        let size = (size.value >= 1.0).then_some(size.value as u64);
        fill(&mut facts.batch.micro_batch, size);
    }
    facts
}

/// What was not told.
fn fill<T>(fact: &mut Option<T>, measured: Option<T>) {
    if fact.is_none() {
        *fact = measured;
    }
}

fn add_host(facts: &mut Facts, figures: SummaryFigures<'_>) {
    let bytes = |value: Option<u64>| value.map(|bytes| bytes as f64);
    let leak = advised_leak(figures.verdicts);
    let host = &mut facts.host;
    host.peak_bytes = bytes(figures.memory.peak_bytes).or(host.peak_bytes);
    let limit_bytes = figures.memory.memory_limit_bytes();
    host.limit_bytes = bytes(limit_bytes).or(host.limit_bytes);
    host.limit_used_bytes = bytes(limit_bytes.and(figures.memory.limit_used_bytes));
    host.leak_bytes_per_second = match &leak {
        Some(leak) => Some(leak.bytes_per_second),
        None => was_leak_looked_for(figures.verdicts).then_some(0.0),
    };
    host.leak_resource = leak.as_ref().map(|leak| leak.resource.to_string());
    host.leak_established = leak.as_ref().map(|leak| leak.is_established);
    host.leak_in_shared_memory = leak.as_ref().map(|leak| leak.is_in_shared_memory);
    host.leak_may_be_loading = leak.as_ref().map(|leak| leak.may_be_loading);
    let forecast = leak.and_then(|leak| leak.limit_forecast);
    host.leak_limit_bytes = forecast.map(|forecast| forecast.limit_bytes);
    host.leak_limit_seconds = forecast.and_then(|forecast| forecast.seconds);
    host.leak_limit_confidence = forecast.map(|forecast| forecast.confidence);
}

fn add_loader(facts: &mut Facts, recording: &Recording, figures: SummaryFigures<'_>) {
    let loader = &mut facts.loader;
    fill(
        &mut loader.copied_bytes,
        copied_pages(recording).map(|copied| copied.most_at_once_bytes),
    );
    if let Some(shm) = shared_memory_use(recording) {
        fill(&mut loader.shm_size_bytes, Some(shm.total_bytes));
        fill(&mut loader.shm_peak_bytes, Some(shm.peak_bytes));
    }
    fill(
        &mut loader.wait_ratio,
        share_that_waits(figures.phases, figures.bottleneck),
    );
}

fn add_torch(facts: &mut Facts, recording: &Recording, figures: SummaryFigures<'_>) {
    let devices = figures.torch_memory;
    let fullest = devices
        .iter()
        .max_by_key(|device| device.peak_reserved_bytes);
    let Some(fullest) = fullest else { return };
    let bytes = |value: Option<u64>| value.map(|bytes| bytes as f64);
    let torch = &mut facts.torch;
    fill(&mut torch.device_bytes, bytes(fullest.device_total_bytes));
    // The two belong together: one that was told and one that was recorded may be of different devices.
    if torch.peak_allocated_bytes.is_none() && torch.peak_reserved_bytes.is_none() {
        torch.peak_allocated_bytes = bytes(fullest.peak_allocated_bytes);
        torch.peak_reserved_bytes = bytes(fullest.peak_reserved_bytes);
    }
    if torch.rank_peak_bytes.is_empty() {
        torch.rank_peak_bytes = rank_peaks(devices);
    }
    if torch.train_peak_bytes.is_none() && torch.evaluation_peak_bytes.is_none() {
        let peaks = evaluation_peaks(recording, &fullest.writer, fullest.device);
        torch.train_peak_bytes = peaks.map(|peaks| peaks.train_bytes);
        torch.evaluation_peak_bytes = peaks.map(|peaks| peaks.evaluation_bytes);
    }
    let steps = figures.throughput.and_then(|counted| counted.batches);
    fill(&mut torch.steps, steps.map(|batches| batches.total as u64));
}

/// The fullest device of each rank, where there are several ranks.
fn rank_peaks(devices: &[TorchMemorySummary]) -> Vec<f64> {
    let mut peaks = std::collections::BTreeMap::new();
    for device in devices {
        let (Some(rank), Some(bytes)) = (device.rank, device.peak_allocated_bytes) else {
            continue;
        };
        let peak = peaks.entry(rank).or_insert(0);
        *peak = bytes.max(*peak);
    }
    match peaks.len() {
        0 | 1 => Vec::new(),
        _ => peaks.into_values().map(|bytes| bytes as f64).collect(),
    }
}

fn add_collector(facts: &mut Facts, figures: SummaryFigures<'_>) {
    let gc = &mut facts.gc;
    let longest = metric(figures, "gc/pause_max_ms").and_then(|metric| metric.max);
    fill(
        &mut gc.longest_pause_seconds,
        longest.map(|at| at.value / 1e3),
    );
    let total = metric(figures, "gc/total_ms");
    if let Some((first, last)) = total.and_then(|metric| metric.first.zip(metric.last))
        && last.secs > first.secs
        && gc.total_seconds.is_none()
        && gc.wall_seconds.is_none()
    {
        gc.total_seconds = Some((last.value - first.value) / 1e3);
        gc.wall_seconds = Some(last.secs - first.secs);
    }
    let is_step = |phase: &&PhaseSummary| phase.parent.is_none() && phase.name == "step";
    let timed = figures
        .phases
        .iter()
        .find(is_step)
        .and_then(|step| step.p50_secs);
    let counted = || figures.throughput?.batches?.mean_per_sec.map(f64::recip);
    fill(&mut gc.step_seconds, timed.or_else(counted));
}

fn metric<'a>(figures: SummaryFigures<'a>, name: &str) -> Option<&'a MetricSummary> {
    figures.metrics.iter().find(|metric| metric.name == name)
}

#[cfg(test)]
#[path = "facts_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "leak_facts_tests.rs"]
mod leak_tests;
