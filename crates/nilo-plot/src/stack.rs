//! Whose memory it is: the processes of the tree as layers under its curve.
//!
//! The sum of RSS counts shared pages once for each process; the tree's memory counts them once.
//! So a layer is what the process adds to the tree: shared pages belong to the oldest process that has them.
//! In older recordings it is RSS less what the last PSS measurement showed to be counted elsewhere.
//! Where the layers exceed the tree's curve they are scaled down to it, and the chart says so.
//! They are never scaled up: what no process holds (page cache, shared memory, the kernel's) stays a layer without a name.

use std::collections::HashMap;

use nilo_analysis::process_peaks::{ProcessPeaks, process_peaks};
use nilo_analysis::process_programs::ProcessPrograms;
use nilo_sample::{Event, ProcessId, RecordedTable, Recording, SeriesView, Subject};

use crate::curve::{CurvePoint, is_plausible};

/// A process that never held this share of the peak has no colour of its own: it could not be seen.
const SMALL_SHARE: f64 = 0.005;
/// A difference of this share of the peak is worth a word.
const NOTABLE_SHARE: f64 = 0.02;

/// One colour of the stack.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) name: String,
    /// The most that it added to the tree, as `nilo show` has it; `None` for several processes together.
    pub(crate) peak_bytes: Option<f64>,
    pub(crate) kind: LayerKind,
    /// Its height at each point of the curve.
    pub(crate) heights: Vec<f64>,
}

/// What a layer stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LayerKind {
    /// One process.
    Process,
    /// Processes too small for a colour of their own.
    Others,
}

/// The layers, the process that fills most of the picture first, which is drawn at the bottom: others come and go above it.
#[derive(Debug, Default)]
pub(crate) struct Stack {
    pub(crate) layers: Vec<Layer>,
    /// The layers would have exceeded the curve visibly.
    pub(crate) scaled: bool,
    /// A visible part of the curve belongs to no process.
    pub(crate) unattributed: bool,
}

/// A process with all that was recorded of it.
struct StackedProcess<'a> {
    id: ProcessId,
    name: Option<&'a str>,
    peak_bytes: f64,
    /// Memory times time, which says how well it can be seen.
    area: f64,
    ended_nanos: u64,
    tables: Vec<&'a RecordedTable>,
    detail: Option<&'a RecordedTable>,
}

/// Stacks the processes at the times of the curve's points.
pub(crate) fn stack(recording: &Recording, curve: &[CurvePoint], max_processes: usize) -> Stack {
    let mut processes = processes(recording);
    let top = curve.iter().map(|point| point.bytes).fold(0.0, f64::max);
    let is_visible = |process: &StackedProcess<'_>| process.peak_bytes >= top * SMALL_SHARE;
    let mut heights = vec![0.0; curve.len()];
    for process in &mut processes {
        heights.fill(0.0);
        add_heights(process, curve, &mut heights);
        process.area = area(curve, &heights);
    }
    processes.sort_by(|a, b| {
        let visible = is_visible(b).cmp(&is_visible(a));
        let area = b.area.total_cmp(&a.area);
        visible.then(area).then(a.id.cmp(&b.id))
    });
    let visible = processes.partition_point(is_visible);
    let others = processes.split_off(visible.max(1).min(max_processes).min(processes.len()));
    let mut layers: Vec<Layer> = processes
        .iter()
        .map(|process| layer(process, &processes, curve))
        .collect();
    if !others.is_empty() {
        let mut heights = vec![0.0; curve.len()];
        for process in &others {
            add_heights(process, curve, &mut heights);
        }
        let plural = if others.len() == 1 { "" } else { "s" };
        layers.push(Layer {
            name: format!("{} other{plural}", others.len()),
            peak_bytes: None,
            kind: LayerKind::Others,
            heights,
        });
    }
    let mut plain_sum = vec![0.0; curve.len()];
    for process in processes.iter().chain(&others) {
        add_plain_rss(process, curve, &mut plain_sum);
    }
    fit(layers, curve, &plain_sum)
}

/// How much of the picture a layer fills: memory times time. A short spike is seen less than what stands throughout.
fn area(curve: &[CurvePoint], heights: &[f64]) -> f64 {
    let columns = curve.windows(2).zip(heights);
    let areas = columns.map(|(points, height)| {
        let nanos = points[1].time_nanos.saturating_sub(points[0].time_nanos);
        height * nanos as f64
    });
    areas.sum()
}

/// Scales the layers to the curve: down where they exceed it, up where the processes do hold all of it.
fn fit(mut layers: Vec<Layer>, curve: &[CurvePoint], plain_sum: &[f64]) -> Stack {
    let top = curve.iter().map(|point| point.bytes).fold(0.0, f64::max);
    let (mut scaled, mut unattributed) = (false, false);
    for (index, point) in curve.iter().enumerate() {
        let sum: f64 = layers.iter().map(|layer| layer.heights[index]).sum();
        scaled |= sum - point.bytes > top * NOTABLE_SHARE;
        let held = plain_sum[index] >= point.bytes * 0.999;
        unattributed |= !held && point.bytes - sum > top * NOTABLE_SHARE;
        if sum > point.bytes || (held && sum > 0.0) {
            let factor = point.bytes / sum;
            for layer in &mut layers {
                layer.heights[index] *= factor;
            }
        }
    }
    Stack {
        layers,
        scaled,
        unattributed,
    }
}

fn processes(recording: &Recording) -> Vec<StackedProcess<'_>> {
    let peaks = process_peaks(recording);
    let programs = ProcessPrograms::of(recording);
    let mut by_id: HashMap<ProcessId, StackedProcess<'_>> = HashMap::new();
    for table in &recording.tables {
        let (Subject::Process(id) | Subject::ProcessDetail(id)) = table.spec.subject else {
            continue;
        };
        // The figure and the name that `nilo show` lists it with.
        let peaks = peaks.get(&id);
        let peak_bytes = peaks.and_then(ProcessPeaks::listed_bytes);
        let process = by_id.entry(id).or_insert_with(|| StackedProcess {
            id,
            name: programs
                .at_peak(id, peaks)
                .map(|program| program.info.name.as_str()),
            peak_bytes: peak_bytes
                .filter(|bytes| is_plausible(*bytes))
                .unwrap_or(0.0),
            area: 0.0,
            ended_nanos: u64::MAX,
            tables: Vec::new(),
            detail: None,
        });
        match table.spec.subject {
            Subject::Process(_) => process.tables.push(table),
            _ => process.detail = Some(table),
        }
    }
    for timed in &recording.events {
        if let Event::ProcessEnded { id, .. } = &timed.event
            && let Some(process) = by_id.get_mut(id)
        {
            process.ended_nanos = timed.time_nanos;
        }
    }
    let drawn = by_id.into_values().filter(|p| !p.tables.is_empty());
    drawn.collect()
}

fn layer(
    process: &StackedProcess<'_>,
    shown: &[StackedProcess<'_>],
    curve: &[CurvePoint],
) -> Layer {
    let mut heights = vec![0.0; curve.len()];
    add_heights(process, curve, &mut heights);
    let pid = process.id.pid;
    let namesakes = shown.iter().filter(|other| other.name == process.name);
    let name = match process.name {
        None | Some("") => format!("pid {pid}"),
        Some(name) if namesakes.count() > 1 => format!("{pid} {name}"),
        Some(name) => name.to_owned(),
    };
    Layer {
        name,
        peak_bytes: Some(process.peak_bytes),
        kind: LayerKind::Process,
        heights,
    }
}

/// Adds plain RSS, shared pages and all.
fn add_plain_rss(process: &StackedProcess<'_>, curve: &[CurvePoint], heights: &mut [f64]) {
    for table in &process.tables {
        if let Some(rss) = table.series("rss_bytes") {
            add_series(rss, &[], process.ended_nanos, curve, heights);
        }
    }
}

/// Adds what the process added to the tree, as `nilo show` and `nilo export` have it; of a just forked one that is nothing, whatever its RSS.
/// Older recordings have RSS alone.
fn add_heights(process: &StackedProcess<'_>, curve: &[CurvePoint], heights: &mut [f64]) {
    for table in &process.tables {
        let added = table.series("memory_bytes");
        let added = added.filter(|series| series.present().next().is_some());
        if let Some(added) = added {
            add_series(added, &[], process.ended_nanos, curve, heights);
        } else if let Some(rss) = table.series("rss_bytes") {
            let shared = counted_elsewhere(process, rss);
            add_series(rss, &shared, process.ended_nanos, curve, heights);
        }
    }
}

/// Adds the value in force at each point of the curve while the process lived, less what others count of it.
fn add_series(
    series: SeriesView<'_>,
    shared: &[(u64, f64)],
    ended_nanos: u64,
    curve: &[CurvePoint],
    heights: &mut [f64],
) {
    let Some(first_nanos) = series.times.first() else {
        return;
    };
    let begin = curve.partition_point(|point| point.time_nanos < *first_nanos);
    let end = curve.partition_point(|point| point.time_nanos < ended_nanos);
    let (mut row, mut measurements) = (0, 0);
    for index in begin..end.max(begin) {
        let time_nanos = curve[index].time_nanos;
        while series.times.get(row + 1).is_some_and(|t| *t <= time_nanos) {
            row += 1;
        }
        while shared
            .get(measurements)
            .is_some_and(|(t, _)| *t <= time_nanos)
        {
            measurements += 1;
        }
        if let Some(bytes) = series.values.get(row).filter(|bytes| is_plausible(**bytes)) {
            let in_force = measurements
                .checked_sub(1)
                .and_then(|last| shared.get(last));
            let elsewhere = in_force.map_or(0.0, |(_, bytes)| *bytes);
            heights[index] += (bytes - elsewhere).max(0.0);
        }
    }
}

/// What other processes count of this one's RSS, at each measurement of PSS.
fn counted_elsewhere(process: &StackedProcess<'_>, rss: SeriesView<'_>) -> Vec<(u64, f64)> {
    let mut found = Vec::new();
    let Some(pss) = process.detail.and_then(|table| table.series("pss_bytes")) else {
        return found;
    };
    let mut last = None;
    for (time_nanos, pss_bytes) in pss.present().filter(|(_, bytes)| is_plausible(*bytes)) {
        // Later rows repeat the figure until it is measured anew.
        if last.replace(pss_bytes) == Some(pss_bytes) {
            continue;
        }
        let row = rss.times.partition_point(|t| *t <= time_nanos);
        let rss_bytes = row.checked_sub(1).and_then(|row| rss.values.get(row));
        if let Some(rss_bytes) = rss_bytes.filter(|bytes| is_plausible(**bytes)) {
            found.push((time_nanos, (rss_bytes - pss_bytes).max(0.0)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::TableSpec;
    use nilo_sample::fixture::{table, table_of};
    use nilo_sample::rows::{ProcessDetailRow, ProcessRow};

    #[test]
    fn a_layer_is_what_the_process_adds_to_the_tree() {
        let id = ProcessId {
            pid: 1,
            start_ticks: 0,
        };
        let row = |memory_bytes| ProcessRow {
            rss_bytes: 400.0,
            cpu_nanos: 0.0,
            memory_bytes,
            ..ProcessRow::ABSENT
        };
        let rows = [(0, row(10.0)), (10, row(30.0))];
        let quick = table_of(TableSpec::process(id), &rows);
        let detail = table(TableSpec::process_detail(id));
        let process = StackedProcess {
            area: 0.0,
            id,
            name: None,
            peak_bytes: 0.0,
            ended_nanos: u64::MAX,
            tables: vec![&quick],
            detail: Some(&detail),
        };
        let curve = [0, 10].map(|time_nanos| CurvePoint {
            time_nanos,
            bytes: 1000.0,
        });
        let mut heights = [0.0; 2];
        add_heights(&process, &curve, &mut heights);
        assert_eq!(heights, [10.0, 30.0]);
        let mut plain = [0.0; 2];
        add_plain_rss(&process, &curve, &mut plain);
        assert_eq!(plain, [400.0, 400.0]);
    }

    #[test]
    fn a_just_forked_child_takes_nothing_from_its_parents_layer() {
        let ids = [1, 2].map(|pid| ProcessId {
            pid,
            start_ticks: u64::from(pid),
        });
        let row = |memory_bytes| ProcessRow {
            rss_bytes: 200.0,
            cpu_nanos: 0.0,
            memory_bytes,
            ..ProcessRow::ABSENT
        };
        // It ended before anything else was read of it: there is no table of details.
        let mut recording = nilo_sample::fixture::recording();
        recording.tables = vec![
            table_of(
                TableSpec::process(ids[0]),
                &[(0, row(200.0)), (20, row(200.0))],
            ),
            table(TableSpec::process_detail(ids[0])),
            table_of(TableSpec::process(ids[1]), &[(10, row(0.0))]),
        ];
        let curve = [0, 10, 20].map(|time_nanos| CurvePoint {
            time_nanos,
            bytes: 200.0,
        });
        let drawn = stack(&recording, &curve, 8);
        assert_eq!(drawn.layers[0].heights, [200.0; 3]);
        assert!(!drawn.scaled);
    }

    #[test]
    fn a_layer_is_rss_less_what_others_count_already() {
        let id = ProcessId {
            pid: 1,
            start_ticks: 0,
        };
        // As recordings were before processes told what they add to the tree.
        let row = |rss_bytes| ProcessRow {
            rss_bytes,
            cpu_nanos: 0.0,
            ..ProcessRow::ABSENT
        };
        let rows = [(0, row(100.0)), (10, row(150.0))];
        let mut quick = table_of(TableSpec::process(id), &rows);
        quick.spec.columns.truncate(2);
        quick.columns.truncate(2);
        let row = ProcessDetailRow {
            pss_bytes: 40.0,
            ..ProcessDetailRow::ABSENT
        };
        let detail = table_of(TableSpec::process_detail(id), &[(5, row), (15, row)]);
        let process = StackedProcess {
            area: 0.0,
            id,
            name: None,
            peak_bytes: 0.0,
            ended_nanos: u64::MAX,
            tables: vec![&quick],
            detail: Some(&detail),
        };
        let curve = [0, 10, 20].map(|time_nanos| CurvePoint {
            time_nanos,
            bytes: 1000.0,
        });
        let mut heights = [0.0; 3];
        add_heights(&process, &curve, &mut heights);
        assert_eq!(heights, [100.0, 90.0, 90.0]);
    }

    #[test]
    fn a_layer_that_is_drawn_higher_keeps_the_figure_of_its_process() {
        // A part of the curve is nobody's, and is drawn with those who hold the rest.
        let layers = vec![Layer {
            name: "python".to_owned(),
            peak_bytes: Some(64.0),
            kind: LayerKind::Process,
            heights: vec![64.0],
        }];
        let curve = [CurvePoint {
            time_nanos: 0,
            bytes: 66.0,
        }];
        let fitted = fit(layers, &curve, &[66.0]).layers;
        assert_eq!(fitted[0].heights, [66.0]);
        assert_eq!(fitted[0].peak_bytes, Some(64.0));
    }
}
