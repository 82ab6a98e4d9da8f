//! Several runs side by side, the first being the baseline.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::compare_training::{
    ComparedFigure, compare_metrics, compare_phases, compare_throughput,
};
use crate::summary::Summary;

/// Runs compared with the first.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// `nilo.compare/1`.
    pub schema: &'static str,
    /// One entry for each run, in the order given.
    pub runs: Vec<ComparedRun>,
    /// Settings in which the runs differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<ComparedSetting>,
    /// Metrics that at least two runs have.
    pub metrics: Vec<ComparedFigure>,
    /// Phases likewise.
    pub phases: Vec<ComparedFigure>,
    /// Throughput likewise.
    pub throughput: Vec<ComparedFigure>,
}

/// One run of a comparison.
#[derive(Debug, Clone, Serialize)]
pub struct ComparedRun {
    /// Run id.
    pub run: String,
    /// The user's name, or the command.
    pub label: String,
    /// How it ended.
    pub status: &'static str,
    /// From start to end.
    pub duration_secs: f64,
    /// Peak memory.
    pub peak_bytes: Option<u64>,
    /// Mean memory.
    pub mean_bytes: Option<u64>,
    /// CPU time.
    pub cpu_secs: f64,
    /// Peak against the first run's: 0.1 is ten percent more.
    pub peak_change_ratio: Option<f64>,
    /// Mean against the first run's.
    pub mean_change_ratio: Option<f64>,
    /// Duration against the first run's.
    pub duration_change_ratio: Option<f64>,
}

/// A setting that is not the same in all runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ComparedSetting {
    /// Its name.
    pub name: String,
    /// Its value in each run; `None` where the run does not have it.
    pub values: Vec<Option<serde_json::Value>>,
}

/// The settings that differ, by name.
fn compare_settings(summaries: &[Summary]) -> Vec<ComparedSetting> {
    let names: BTreeSet<&String> = summaries.iter().flat_map(|run| run.config.keys()).collect();
    let settings = names.into_iter().map(|name| ComparedSetting {
        name: name.clone(),
        values: summaries
            .iter()
            .map(|run| run.config.get(name).cloned())
            .collect(),
    });
    settings
        .filter(|setting| {
            setting
                .values
                .iter()
                .any(|value| *value != setting.values[0])
        })
        .collect()
}

/// Compares runs with the first of them.
pub fn compare(summaries: &[Summary]) -> Comparison {
    let change = |value: Option<f64>, base: Option<f64>| match (value, base) {
        (Some(value), Some(base)) if base > 0.0 => Some(value / base - 1.0),
        _ => None,
    };
    let base = summaries.first();
    let runs = summaries.iter().map(|summary| {
        let memory = &summary.memory;
        let of = |pick: fn(&Summary) -> Option<f64>| change(pick(summary), base.and_then(pick));
        ComparedRun {
            run: summary.run.clone(),
            label: summary
                .name
                .clone()
                .unwrap_or_else(|| summary.command.join(" ")),
            status: summary.status,
            duration_secs: summary.duration_secs,
            peak_bytes: memory.peak_bytes,
            mean_bytes: memory.mean_bytes,
            cpu_secs: summary.cpu.total_secs,
            peak_change_ratio: of(|s| s.memory.peak_bytes.map(|v| v as f64)),
            mean_change_ratio: of(|s| s.memory.mean_bytes.map(|v| v as f64)),
            duration_change_ratio: of(|s| Some(s.duration_secs)),
        }
    });
    Comparison {
        schema: "nilo.compare/1",
        runs: runs.collect(),
        settings: compare_settings(summaries),
        metrics: compare_metrics(summaries),
        phases: compare_phases(summaries),
        throughput: compare_throughput(summaries),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ending::{Aftermath, judge_ending};
    use crate::summary::{fixture, summarize};
    use nilo_sample::ABSENT;

    fn run(peak: f64) -> Summary {
        let mut recording = fixture::recording();
        recording.tables = vec![fixture::tree(&[
            (0, peak, ABSENT, 0.0),
            (1000, peak, ABSENT, 0.0),
        ])];
        let ending = judge_ending(
            &recording,
            &Aftermath {
                exit_code: Some(0),
                ..Aftermath::default()
            },
        );
        summarize(&recording, &ending)
    }

    #[test]
    fn settings_are_compared_where_they_differ() {
        let with = |pairs: &[(&str, &str)]| {
            let mut summary = run(1.0);
            let owned = |(name, value): &(&str, &str)| (name.to_string(), (*value).into());
            summary.config = pairs.iter().map(owned).collect();
            summary
        };
        let found = compare(&[
            with(&[("lr", "0.1"), ("seed", "1")]),
            with(&[("lr", "0.2"), ("seed", "1"), ("new", "x")]),
        ]);
        let names: Vec<&str> = found.settings.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["lr", "new"]);
        assert_eq!(found.settings[1].values, [None, Some("x".into())]);
    }

    #[test]
    fn changes_are_against_the_first_run() {
        let comparison = compare(&[run(100.0), run(150.0), run(0.0)]);
        let ratios: Vec<Option<f64>> = comparison
            .runs
            .iter()
            .map(|run| run.peak_change_ratio)
            .collect();
        assert_eq!(ratios, [Some(0.0), Some(0.5), Some(-1.0)]);
    }

    #[test]
    fn a_baseline_of_zero_gives_no_ratio() {
        assert_eq!(
            compare(&[run(0.0), run(5.0)]).runs[1].peak_change_ratio,
            None
        );
    }
}
