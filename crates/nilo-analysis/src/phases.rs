//! Phases of the training step: how long each took, and which share of the time.
//!
//! A phase that is timed in some steps only carries weights: each row stands for so many steps, and the total and share are of all of them.
//!
//! Of a distributed run the figures are those of the first rank, as with metrics, and the others stand beside it.
//!
//! A phase inside another is named `outer/inner`; the list has every phase after the one that it lies in.

use std::collections::{BTreeSet, HashMap};

use nilo_sample::units::NANOS_PER_SEC;
use nilo_sample::{RecordedTable, Recording, Subject, is_absent};
use schemars::JsonSchema;
use serde::Serialize;

use crate::spans::concurrency;
use crate::statistics::{mean_and_std, quantile};

/// A name with more slashes than this is looked at from its end only.
const MOST_LEVELS: usize = 64;

/// One phase.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct PhaseSummary {
    /// Its name in full.
    pub name: String,
    /// The phase that it lies in, if that was recorded.
    pub parent: Option<String>,
    /// How many recorded phases it lies in.
    pub depth: u64,
    /// How often it was timed.
    pub count: u64,
    /// How often it ran, with the steps between that were not timed.
    pub represented_count: u64,
    /// How many processes timed it; of a distributed run those of the first rank.
    pub processes: u64,
    /// Rows whose duration is no duration (negative, NaN, infinite); no part of the figures.
    pub unusable_count: u64,
    /// All its durations together; those that were not timed taken to be like those that were.
    pub total_secs: f64,
    /// Mean duration.
    pub mean_secs: Option<f64>,
    /// Median.
    pub p50_secs: Option<f64>,
    /// 95th percentile.
    pub p95_secs: Option<f64>,
    /// The longest.
    pub max_secs: Option<f64>,
    /// Share of the run's wall time; where several processes are in it at once, of the time of each.
    pub wall_share_ratio: Option<f64>,
    /// The most GPU memory in PyTorch's tensors while it ran, of the times that were looked at: this much at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_at_least_bytes: Option<u64>,
    /// And this much at most; the peak is known where both are the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_at_most_bytes: Option<u64>,
    /// The same for each rank of a distributed run, where several timed it; the figures above are those of the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<PhaseOfRank>,
}

/// A phase as one rank timed it.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct PhaseOfRank {
    /// Which rank.
    pub rank: u32,
    /// How often it was timed.
    pub count: u64,
    /// How often it ran, with the steps between that were not timed.
    pub represented_count: u64,
    /// All its durations together.
    pub total_secs: f64,
    /// Mean duration.
    pub mean_secs: Option<f64>,
    /// 95th percentile.
    pub p95_secs: Option<f64>,
    /// The longest.
    pub max_secs: Option<f64>,
}

/// Summarizes every phase: those that took longest first, inner ones behind their outer one.
pub fn summarize_phases(recording: &Recording, wall_nanos: u64) -> Vec<PhaseSummary> {
    let mut order: Vec<&str> = Vec::new();
    let mut tables: HashMap<&str, Vec<&RecordedTable>> = HashMap::new();
    for table in &recording.tables {
        if let Subject::Phase { name } = &table.spec.subject {
            let same = tables.entry(name).or_default();
            if same.is_empty() {
                order.push(name);
            }
            same.push(table);
        }
    }
    let summaries = order
        .iter()
        .filter_map(|name| summarize(name, tables.get(name)?, wall_nanos))
        .collect();
    nested(summaries)
}

/// The phase of the first rank, with those of all ranks where there are several.
fn summarize(name: &str, tables: &[&RecordedTable], wall_nanos: u64) -> Option<PhaseSummary> {
    let is_timed = |table: &&&RecordedTable| !table.times.is_empty();
    let timed: Vec<&RecordedTable> = tables.iter().filter(is_timed).copied().collect();
    let ranks: BTreeSet<u32> = timed.iter().filter_map(|table| table.spec.rank).collect();
    let of = |rank: Option<u32>| -> Vec<&RecordedTable> {
        let tables = timed.iter().copied();
        tables.filter(|table| table.spec.rank == rank).collect()
    };
    let mut first = of(ranks.first().copied());
    if !ranks.is_empty() {
        first.extend(of(None));
    }
    let mut summary = figures(name, &first, wall_nanos)?;
    if ranks.len() > 1 {
        let each = ranks.iter().filter_map(|rank| {
            let own = figures(name, &of(Some(*rank)), wall_nanos)?;
            Some(PhaseOfRank {
                rank: *rank,
                count: own.count,
                represented_count: own.represented_count,
                total_secs: own.total_secs,
                mean_secs: own.mean_secs,
                p95_secs: own.p95_secs,
                max_secs: own.max_secs,
            })
        });
        summary.ranks = each.collect();
    }
    Some(summary)
}

/// The figures of these tables together.
fn figures(name: &str, tables: &[&RecordedTable], wall_nanos: u64) -> Option<PhaseSummary> {
    let mut durations = Vec::new();
    // From zero on: the sum of nothing is minus zero, and prints as that.
    let (mut total_secs, mut represented) = (0.0, 0.0);
    let mut unusable_count = 0;
    let mut spans: HashMap<&str, (u64, u64)> = HashMap::new();
    for table in tables {
        let Some(series) = table.series("duration_nanos") else {
            continue;
        };
        let weights = table.series("weight");
        for (row, (end_nanos, nanos)) in series.times.iter().zip(series.values).enumerate() {
            let (end_nanos, nanos) = (*end_nanos, *nanos);
            if is_absent(nanos) {
                continue;
            }
            if !nanos.is_finite() || nanos < 0.0 {
                unusable_count += 1;
                continue;
            }
            let secs = nanos / NANOS_PER_SEC as f64;
            durations.push(secs);
            let weight = weights.and_then(|weights| weights.values.get(row).copied());
            let weight = weight.filter(|weight| weight.is_finite() && *weight >= 1.0);
            total_secs += secs * weight.unwrap_or(1.0);
            represented += weight.unwrap_or(1.0);
            let begin_nanos = end_nanos.saturating_sub(nanos as u64);
            let span = spans
                .entry(&table.writer)
                .or_insert((begin_nanos, end_nanos));
            *span = (span.0.min(begin_nanos), span.1.max(end_nanos));
        }
    }
    if durations.is_empty() && unusable_count == 0 {
        return None;
    }
    let count = durations.len() as u64;
    let mut spans: Vec<(u64, u64)> = spans.into_values().collect();
    let wall_secs = wall_nanos as f64 / NANOS_PER_SEC as f64 * concurrency(&mut spans);
    Some(PhaseSummary {
        name: name.to_owned(),
        parent: None,
        depth: 0,
        count,
        represented_count: represented as u64,
        processes: spans.len() as u64,
        unusable_count,
        total_secs,
        mean_secs: mean_and_std(&durations).0,
        p50_secs: quantile(&mut durations, 0.5),
        p95_secs: quantile(&mut durations, 0.95),
        max_secs: durations.iter().copied().reduce(f64::max),
        wall_share_ratio: (count > 0 && wall_secs > 0.0).then(|| total_secs / wall_secs),
        peak_at_least_bytes: highest_bytes(tables, "peak_at_least_bytes"),
        peak_at_most_bytes: highest_bytes(tables, "peak_at_most_bytes"),
        ranks: Vec::new(),
    })
}

/// The highest value of a column that some of the tables have.
fn highest_bytes(tables: &[&RecordedTable], column: &str) -> Option<u64> {
    let series = tables.iter().filter_map(|table| table.series(column));
    let values = series.flat_map(|series| series.values.iter().copied());
    let usable = values.filter(|bytes| bytes.is_finite() && *bytes >= 0.0);
    usable.reduce(f64::max).map(|bytes| bytes as u64)
}

/// Finds each phase's parent and puts the list in the order of a tree.
fn nested(mut phases: Vec<PhaseSummary>) -> Vec<PhaseSummary> {
    // The stable sort keeps the order of declaration among equals.
    phases.sort_by(|a, b| b.total_secs.total_cmp(&a.total_secs));
    let places: HashMap<&str, usize> = phases
        .iter()
        .enumerate()
        .map(|(place, phase)| (phase.name.as_str(), place))
        .collect();
    let parents: Vec<Option<usize>> = phases
        .iter()
        .map(|phase| {
            let name = phase.name.as_str();
            let slashes = name.rmatch_indices('/').take(MOST_LEVELS);
            slashes
                .map(|(at, _)| &name[..at])
                .find_map(|outer| places.get(outer).copied())
        })
        .collect();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); phases.len()];
    let mut open: Vec<(usize, u64)> = Vec::new();
    for (place, parent) in parents.iter().enumerate() {
        match parent {
            Some(parent) => children[*parent].push(place),
            None => open.push((place, 0)),
        }
    }
    open.reverse();
    let mut listed = Vec::with_capacity(phases.len());
    // By hand and not by recursion: names from outside may be nested ten thousand deep.
    while let Some((place, depth)) = open.pop() {
        let mut phase = phases[place].clone();
        phase.depth = depth;
        phase.parent = parents[place].map(|parent| phases[parent].name.clone());
        listed.push(phase);
        open.extend(
            children[place]
                .iter()
                .rev()
                .map(|child| (*child, depth + 1)),
        );
    }
    listed
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::TableSpec;
    use nilo_sample::fixture;
    use nilo_sample::rows::{GpuPhaseRow, PhaseRow, SampledPhaseRow};

    const SECOND: u64 = 1_000_000_000;

    /// Phases that end at these seconds and last so many.
    fn phase(writer: &str, name: &str, rows: &[(u64, f64)]) -> RecordedTable {
        let mut table = fixture::table(TableSpec::phase(name));
        table.writer = writer.to_owned();
        for (end_secs, secs) in rows {
            let duration_nanos = secs * SECOND as f64;
            fixture::tick(&mut table, end_secs * SECOND, PhaseRow { duration_nanos });
        }
        table
    }

    fn summary_of(tables: Vec<RecordedTable>) -> Vec<PhaseSummary> {
        let mut recording = fixture::recording();
        recording.tables = tables;
        summarize_phases(&recording, 10 * SECOND)
    }

    #[test]
    fn known_answers() {
        let found = summary_of(vec![phase("a", "step", &[(2, 1.0), (6, 3.0)])]);
        let step = &found[0];
        assert_eq!((step.count, step.total_secs), (2, 4.0));
        assert_eq!((step.mean_secs, step.p50_secs), (Some(2.0), Some(2.0)));
        assert_eq!(
            (step.max_secs, step.wall_share_ratio),
            (Some(3.0), Some(0.4))
        );
    }

    #[test]
    fn a_phase_timed_every_tenth_step_has_the_share_of_all_steps() {
        let mut table = fixture::table(TableSpec::sampled_phase("forward"));
        table.writer = "a".to_owned();
        for (end_secs, weight) in [(1, 1.0), (5, 10.0), (9, 10.0)] {
            let row = SampledPhaseRow {
                duration_nanos: 0.1 * SECOND as f64,
                weight,
            };
            fixture::tick(&mut table, end_secs * SECOND, row);
        }
        let found = summary_of(vec![table, phase("a", "forward", &[(2, 0.1)])]);
        let forward = &found[0];
        assert_eq!((forward.count, forward.represented_count), (4, 22));
        assert!((forward.total_secs - 2.2).abs() < 1e-9);
        assert!((forward.wall_share_ratio.unwrap() - 0.22).abs() < 1e-9);
        assert!((forward.mean_secs.unwrap() - 0.1).abs() < 1e-9);
    }

    #[test]
    fn the_peak_of_a_phase_lies_between_the_highest_bounds_of_its_times() {
        let mut table = fixture::table(TableSpec::gpu_phase("forward"));
        for (end_secs, at_least, at_most) in [(1, 80.0, 80.0), (5, 50.0, 100.0)] {
            let row = GpuPhaseRow {
                duration_nanos: 0.1 * SECOND as f64,
                weight: 2.0,
                peak_at_least_bytes: at_least,
                peak_at_most_bytes: at_most,
            };
            fixture::tick(&mut table, end_secs * SECOND, row);
        }
        let found = summary_of(vec![
            table,
            phase("", "forward", &[(2, 0.1)]),
            phase("", "data", &[(1, 0.1)]),
        ]);
        let bounds = |at: usize| (found[at].peak_at_least_bytes, found[at].peak_at_most_bytes);
        assert_eq!(bounds(0), (Some(80), Some(100)));
        assert_eq!((found[0].count, found[0].represented_count), (3, 5));
        assert_eq!(bounds(1), (None, None));
    }

    #[test]
    fn inner_phases_follow_their_outer_one() {
        let found = summary_of(vec![
            phase("a", "step/forward", &[(1, 1.0)]),
            phase("a", "load", &[(1, 9.0)]),
            phase("a", "step/backward", &[(2, 2.0)]),
            phase("a", "step/backward/hooks/all", &[(2, 0.5)]),
            phase("a", "step", &[(4, 4.0)]),
            phase("a", "lonely/part", &[(4, 0.1)]),
        ]);
        let names: Vec<(&str, u64)> = found
            .iter()
            .map(|phase| (phase.name.as_str(), phase.depth))
            .collect();
        assert_eq!(
            names,
            [
                ("load", 0),
                ("step", 0),
                ("step/backward", 1),
                ("step/backward/hooks/all", 2),
                ("step/forward", 1),
                ("lonely/part", 0),
            ]
        );
        assert_eq!(found[3].parent.as_deref(), Some("step/backward"));
        assert_eq!(found[5].parent, None);
    }

    #[test]
    fn the_first_rank_speaks_for_all_and_the_others_stand_beside_it() {
        let of_rank = |rank: u32, rows: &[(u64, f64)]| {
            let mut table = phase(&format!("python-{rank}"), "step", rows);
            table.spec.rank = Some(rank);
            table
        };
        let found = summary_of(vec![
            of_rank(1, &[(2, 2.0), (6, 4.0), (9, 3.0)]),
            of_rank(0, &[(2, 1.0), (6, 3.0)]),
            of_rank(2, &[]),
        ]);
        let step = &found[0];
        assert_eq!((step.count, step.total_secs), (2, 4.0));
        assert_eq!(step.wall_share_ratio, Some(0.4));
        let ranks: Vec<(u32, u64, Option<f64>)> = step
            .ranks
            .iter()
            .map(|own| (own.rank, own.count, own.mean_secs))
            .collect();
        assert_eq!(ranks, [(0, 2, Some(2.0)), (1, 3, Some(3.0))]);
        let alone = summary_of(vec![of_rank(3, &[(2, 1.0)])]);
        assert_eq!((alone[0].count, alone[0].ranks.len()), (1, 0));
    }

    #[test]
    fn processes_share_the_wall_and_attempts_add_up() {
        let beside = [(5, 5.0), (10, 5.0)];
        let found = summary_of(vec![
            phase("a", "step", &beside),
            phase("b", "step", &beside),
        ]);
        assert_eq!(found[0].wall_share_ratio, Some(1.0));
        let found = summary_of(vec![
            phase("a", "step", &[(4, 4.0)]),
            phase("b", "step", &[(9, 4.0)]),
        ]);
        assert_eq!(found[0].wall_share_ratio, Some(0.8));
    }

    #[test]
    fn durations_that_are_none_are_counted_apart() {
        let rows = [(1, f64::NAN), (2, -1.0), (3, f64::INFINITY), (4, 1.0)];
        let found = summary_of(vec![phase("a", "step", &rows)]);
        assert_eq!((found[0].count, found[0].unusable_count), (1, 3));
        let mut empty = phase("a", "step", &[]);
        fixture::tick(&mut empty, 1, PhaseRow::ABSENT);
        assert!(summary_of(vec![empty]).is_empty());
    }

    #[test]
    fn names_as_deep_as_they_come_are_survived() {
        let deep: Vec<String> = (1..2000).map(|n| vec!["a"; n].join("/")).collect();
        let tables = deep.iter().map(|name| phase("a", name, &[(1, 1.0)]));
        let mut tables: Vec<RecordedTable> = tables.collect();
        tables.push(phase("a", &"/".repeat(100_000), &[(1, 1.0)]));
        let found = summary_of(tables);
        assert_eq!(found.len(), 2000);
        assert_eq!(found.iter().map(|phase| phase.depth).max(), Some(1998));
    }
}
