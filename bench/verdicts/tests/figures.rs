//! The verdicts stay as good as the page of the benchmark says: a few drawn traces of every shape, and every recording of a real job.
//!
//! The seeds belong to neither tuning nor reporting. Few traces scatter, so the bounds leave room; what they catch is a rule that broke.

use nilo_verdict_bench::contest::{PredictorResult, contest};
use nilo_verdict_bench::ours::predictors;
use nilo_verdict_bench::recorded::{committed_folders, read_folder};
use nilo_verdict_bench::shapes::{SHAPES, draw};
use nilo_verdict_bench::trace::Trace;
use nilo_verdict_bench::workloads::{WORKLOADS, simulate};

const SEEDS: std::ops::Range<u64> = 500_000..500_005;
const JOB_SEEDS: std::ops::Range<u64> = 500_000..500_010;

fn ours(traces: impl Iterator<Item = Trace>) -> PredictorResult {
    let mut makers = predictors();
    makers.truncate(1);
    contest(&makers, traces).remove(0)
}

#[test]
fn drawn_traces_are_judged_as_well_as_the_page_says() {
    let traces = (1..=SHAPES).flat_map(|shape| SEEDS.map(move |seed| draw(shape, seed)));
    let total = ours(traces).total;
    let at_least = |what: &str, figure: Option<f64>, bound: f64| {
        let figure = figure.unwrap_or(f64::NAN);
        assert!(figure >= bound, "{what}: {figure:.3}, not {bound}");
    };
    at_least("recall", total.recall_of_predictable(), 0.9);
    at_least("precision", total.precision(), 0.8);
    at_least(
        "calm",
        total.false_alarms_an_hour().map(|rate| -rate),
        -0.15,
    );
    at_least("times", total.median_log2_error().map(|error| -error), -0.4);
    at_least("coverage", total.coverage(), 0.65);
    at_least("leaks found", total.leaks.recall(), 0.9);
    at_least("leaks that are some", total.leaks.precision(), 0.9);
}

#[test]
fn simulated_jobs_are_judged_as_well_as_the_page_says() {
    let jobs = (1..=WORKLOADS).flat_map(|kind| JOB_SEEDS.map(move |seed| simulate(kind, seed)));
    let total = ours(jobs).total;
    let coverage = total.coverage().unwrap_or(f64::NAN);
    assert!((0.7..0.95).contains(&coverage), "coverage: {coverage:.3}");
    let recall = total.recall().unwrap_or(f64::NAN);
    assert!(recall >= 0.8, "recall: {recall:.3}");
    let precision = total.precision().unwrap_or(f64::NAN);
    assert!(precision >= 0.6, "precision: {precision:.3}");
}

#[test]
fn every_recording_of_a_real_job_is_judged_right() {
    let folders = committed_folders();
    let traces = folders
        .iter()
        .flat_map(|folder| read_folder(folder).unwrap());
    let entry = ours(traces);
    for score in &entry.scores {
        assert_eq!(score.false_episodes, 0, "{score:?}");
    }
    let total = &entry.total;
    assert_eq!(total.recall(), Some(1.0));
    assert_eq!(
        (total.leaks.recall(), total.leaks.precision()),
        (Some(1.0), Some(1.0))
    );
}
