//! Several runs side by side, the first being the baseline.

use std::collections::BTreeSet;

use nilo_sample::{RunDescription, RunStatus};
use schemars::JsonSchema;
use serde::Serialize;

use crate::compare_gpus::{ComparedGpus, compare_gpus};
use crate::compare_training::{
    ComparedFigure, compare_metrics, compare_phases, compare_throughput,
};
use crate::summary::Summary;

/// The value of [`Comparison::schema`].
pub const COMPARE_SCHEMA: &str = "nilo.compare/1";

/// Runs compared with the first.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct Comparison {
    /// `nilo.compare/1`.
    #[schemars(extend("const" = COMPARE_SCHEMA))]
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
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct ComparedRun {
    /// Run id.
    pub run: String,
    /// The user's name, or the command, or the id where there is neither; runs of one name have their start with it.
    pub label: String,
    /// The run that it continues, which has its earlier steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumes: Option<String>,
    /// How it ended.
    pub status: RunStatus,
    /// Whether files of the recording are damaged, so that figures may be missing or too small; `nilo verify` tells more.
    pub damaged: bool,
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// How it ended in a word or two: `exited 3`.
    #[serde(skip)]
    pub ending: String,
    /// From start to end.
    pub duration_secs: f64,
    /// Peak memory.
    pub peak_bytes: Option<u64>,
    /// Mean memory.
    pub mean_bytes: Option<u64>,
    /// CPU time.
    pub cpu_secs: Option<f64>,
    /// Its GPUs; absent where it was on none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<ComparedGpus>,
    /// Peak against the first run's: 0.1 is ten percent more.
    pub peak_change_ratio: Option<f64>,
    /// Mean against the first run's.
    pub mean_change_ratio: Option<f64>,
    /// Duration against the first run's.
    pub duration_change_ratio: Option<f64>,
}

/// A setting that is not the same in all runs.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
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

/// A run that needs a label.
#[derive(Debug, Clone, Copy)]
pub struct LabelledRun<'a> {
    /// Its id.
    pub id: &'a str,
    /// The user's name for it.
    pub name: Option<&'a str>,
    /// The command line.
    pub command: &'a [String],
}

impl<'a> From<&'a Summary> for LabelledRun<'a> {
    fn from(summary: &'a Summary) -> LabelledRun<'a> {
        LabelledRun {
            id: &summary.run,
            name: summary.name.as_deref(),
            command: &summary.command,
        }
    }
}

impl<'a> From<&'a RunDescription> for LabelledRun<'a> {
    fn from(description: &'a RunDescription) -> LabelledRun<'a> {
        LabelledRun {
            id: description.id.as_str(),
            name: description.name.as_deref(),
            command: &description.command,
        }
    }
}

/// What to call each of several runs: its name, or its command without one. Those that share it have the time of their start
/// before it, as their ids begin with; where a label is cut, the beginning is what tells them apart.
pub fn run_labels(runs: &[LabelledRun<'_>]) -> Vec<String> {
    let own = |run: &LabelledRun<'_>| match run.name {
        Some(name) => name.to_owned(),
        // A look at the machine has no command.
        None if run.command.is_empty() => run.id.to_owned(),
        None => run.command.join(" "),
    };
    let own: Vec<String> = runs.iter().map(own).collect();
    let of = |index: usize| {
        let same = |other: &usize| *other != index && own[*other] == own[index];
        let twins: Vec<&str> = (0..own.len())
            .filter(same)
            .map(|other| runs[other].id)
            .collect();
        match twins.is_empty() {
            true => own[index].clone(),
            false => format!("{} {}", start_of(runs[index].id, &twins), own[index]),
        }
    };
    (0..own.len()).map(of).collect()
}

/// `075530-417` of `20261115-075530-417-name`; with the date where it differs, and all of the id where nothing else does.
fn start_of<'a>(id: &'a str, twins: &[&str]) -> &'a str {
    const DATE: usize = "20261115-".len();
    const START: usize = "20261115-075530-417".len();
    let part = |id: &'a str, from: usize, to: usize| id.get(from..to);
    let differs = |from: usize, to: usize| {
        let own = id.get(from..to);
        own.is_some()
            && twins
                .iter()
                .all(|twin| *twin == id || twin.get(from..to) != own)
    };
    let same_day = twins.iter().all(|twin| twin.get(..DATE) == id.get(..DATE));
    match same_day {
        true if differs(DATE, START) => part(id, DATE, START).unwrap_or(id),
        false if differs(0, START) => part(id, 0, START).unwrap_or(id),
        _ => id,
    }
}

/// Compares runs with the first of them.
pub fn compare(summaries: &[Summary]) -> Comparison {
    let change = |value: Option<f64>, base: Option<f64>| match (value, base) {
        (Some(value), Some(base)) if base > 0.0 => Some(value / base - 1.0),
        _ => None,
    };
    let base = summaries.first();
    let labels = run_labels(&summaries.iter().map(LabelledRun::from).collect::<Vec<_>>());
    let gpus = compare_gpus(summaries);
    let labelled = summaries.iter().zip(labels).zip(gpus);
    let runs = labelled.map(|((summary, label), gpus)| {
        let memory = &summary.memory;
        let of = |pick: fn(&Summary) -> Option<f64>| change(pick(summary), base.and_then(pick));
        ComparedRun {
            run: summary.run.clone(),
            label,
            resumes: summary.resumes.clone(),
            status: summary.status,
            damaged: !summary.recorder.damage.is_empty(),
            exit_code: summary.exit_code,
            signal: summary.signal,
            ending: summary.short_ending(),
            duration_secs: summary.duration_secs,
            peak_bytes: memory.peak_bytes,
            mean_bytes: memory.mean_bytes,
            cpu_secs: summary.cpu.total_secs,
            gpus,
            peak_change_ratio: of(|s| s.memory.peak_bytes.map(|v| v as f64)),
            mean_change_ratio: of(|s| s.memory.mean_bytes.map(|v| v as f64)),
            duration_change_ratio: of(|s| Some(s.duration_secs)),
        }
    });
    Comparison {
        schema: COMPARE_SCHEMA,
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
    use crate::ending::{EndingEvidence, judge_ending};
    use crate::summary::summarize;
    use nilo_sample::ABSENT;
    use nilo_sample::fixture;

    fn run(peak: f64) -> Summary {
        let mut recording = fixture::recording();
        recording.tables = vec![fixture::tree(&[
            (0, peak, ABSENT, 0.0),
            (1000, peak, ABSENT, 0.0),
        ])];
        let ending = judge_ending(
            &recording,
            &EndingEvidence {
                exit_code: Some(0),
                ..EndingEvidence::default()
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
    fn runs_of_one_name_are_told_apart_by_their_start() {
        let named = |id: &str, name: Option<&str>| {
            let mut summary = run(1.0);
            summary.run = id.to_owned();
            summary.name = name.map(str::to_owned);
            summary.command = vec!["python".to_owned(), "t.py".to_owned()];
            summary
        };
        let labels = |ids: &[(&str, Option<&str>)]| {
            let runs: Vec<Summary> = ids.iter().map(|(id, name)| named(id, *name)).collect();
            run_labels(&runs.iter().map(LabelledRun::from).collect::<Vec<_>>())
        };
        let (first, second) = ("20261115-075530-417-base", "20261115-081200-002-base");
        let base = Some("base");
        assert_eq!(
            labels(&[(first, base), (second, base), (second, Some("other"))]),
            ["075530-417 base", "081200-002 base", "other"]
        );
        assert_eq!(
            labels(&[(first, base), ("20261116-075530-417-base", base)]),
            ["20261115-075530-417 base", "20261116-075530-417 base"]
        );
        let again = "20261115-075530-417-base-1";
        assert_eq!(
            labels(&[(first, base), (again, base)]),
            [format!("{first} base"), format!("{again} base")]
        );
        assert_eq!(
            labels(&[(first, None), (second, None)]),
            ["075530-417 python t.py", "081200-002 python t.py"]
        );
        // The same run twice is the same twice.
        assert_eq!(
            labels(&[(first, base), (first, base)])[0],
            "075530-417 base"
        );
    }

    #[test]
    fn exit_codes_are_kept() {
        let mut failed = run(1.0);
        (failed.status, failed.exit_code) = (RunStatus::Exited, Some(3));
        let compared = &compare(&[run(1.0), failed]).runs[1];
        assert_eq!(
            (compared.exit_code, compared.ending.as_str()),
            (Some(3), "exited 3")
        );
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
