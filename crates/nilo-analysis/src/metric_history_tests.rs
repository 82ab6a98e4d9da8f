use super::*;
use nilo_sample::fixture;
use nilo_sample::{ABSENT, TableSpec};
use proptest::prelude::*;

/// A table of one metric from (time, step, value).
fn logged(writer: &str, name: &str, rows: &[(u64, i64, f64)]) -> RecordedTable {
    let mut table = fixture::table(TableSpec::metrics("metrics", [name]));
    table.writer = writer.to_owned();
    for (time, step, value) in rows {
        fixture::tick_values(&mut table, *time, &[*value]);
        table.steps.push(*step);
    }
    table
}

fn history_of(tables: Vec<RecordedTable>) -> MetricHistory {
    let mut recording = fixture::recording();
    recording.tables = tables;
    let found = metrics(&recording);
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].history()
}

fn values(points: &[MetricPoint]) -> Vec<f64> {
    points.iter().map(|point| point.value).collect()
}

#[test]
fn a_metric_is_the_union_of_its_columns() {
    let mut both = fixture::table(TableSpec::metrics("metrics", ["lr", "loss", "loss"]));
    fixture::tick_values(&mut both, 3, &[0.1, 5.0, ABSENT]);
    fixture::tick_values(&mut both, 5, &[0.1, ABSENT, 6.0]);
    let mut recording = fixture::recording();
    recording.tables = vec![logged("recorder-1", "loss", &[(4, NO_STEP, 1.0)]), both];
    let found = metrics(&recording);
    let names: Vec<&str> = found.iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(names, ["loss", "lr"]);
    let history = found[0].history();
    assert_eq!(values(&history.points), [5.0, 1.0, 6.0]);
    assert!(history.points.iter().all(|point| point.step.is_none()));
}

#[test]
fn equal_names_of_two_groups_stay_apart() {
    let table = |group: &str, value: f64| {
        let mut table = fixture::table(TableSpec::metrics(group, ["loss", group]));
        fixture::tick_values(&mut table, 1, &[value, value]);
        table
    };
    let mut recording = fixture::recording();
    recording.tables = vec![table("metrics", 1.0), table("tracker-2", 2.0)];
    let found: Vec<(String, Vec<f64>)> = metrics(&recording)
        .iter()
        .map(|metric| (metric.name.clone(), values(&metric.history().points)))
        .collect();
    let expected = [
        ("loss", 1.0),
        ("metrics", 1.0),
        ("tracker-2/loss", 2.0),
        ("tracker-2", 2.0),
    ];
    assert_eq!(
        found,
        expected.map(|(name, value)| (name.to_owned(), vec![value]))
    );
}

#[test]
fn the_first_tracker_has_the_plain_name_until_log_has_it() {
    let names = |groups: &[&str]| -> Vec<String> {
        let specs: Vec<TableSpec> = groups
            .iter()
            .map(|group| TableSpec::metrics(group, ["loss"]))
            .collect();
        let called = metric_names(&specs);
        groups
            .iter()
            .map(|group| called[&(*group, "loss")].clone())
            .collect()
    };
    assert_eq!(names(&["tracker-1"]), ["loss"]);
    assert_eq!(
        names(&["tracker-2", "tracker-1"]),
        ["tracker-2/loss", "loss"]
    );
    let all = names(&["tracker-1", "metrics", "tracker-2"]);
    assert_eq!(all, ["tracker-1/loss", "loss", "tracker-2/loss"]);
    assert_eq!(names(&["exp", "tracker-3"]), ["exp/loss", "tracker-3/loss"]);
}

#[test]
fn steps_that_go_back_hide_nothing() {
    let table = logged(
        "python-1",
        "loss",
        &[(0, 1, 1.0), (1, 2, 2.0), (2, 2, 2.5), (3, 1, 3.0)],
    );
    let history = history_of(vec![table]);
    assert_eq!(history.step_restarts, 1);
    assert_eq!(values(&history.points), [1.0, 2.0, 2.5, 3.0]);
    let laps: Vec<u32> = history.points.iter().map(|point| point.lap).collect();
    assert_eq!(laps, [0, 0, 0, 1]);
    let steps: Vec<i64> = history.by_step().iter().map(|(step, _)| *step).collect();
    assert_eq!(steps, [1, 1, 2, 2]);
}

#[test]
fn a_process_after_another_hides_nothing() {
    let history = history_of(vec![
        logged("python-1", "loss", &[(0, 0, 9.0), (1, 10, 8.0)]),
        logged("python-2", "loss", &[(10, 0, 80.0), (11, 10, 70.0)]),
    ]);
    assert_eq!(values(&history.points), [9.0, 8.0, 80.0, 70.0]);
    assert_eq!(history.step_restarts, 0);
}

#[test]
fn points_know_their_rank() {
    let rank = |writer, rank| {
        let mut table = logged(writer, "loss", &[(0, 1, 1.0), (100, 2, 2.0)]);
        table.spec.rank = Some(rank);
        table
    };
    let history = history_of(vec![rank("python-1", 0), rank("python-2", 1)]);
    let ranks: Vec<Option<u32>> = history.points.iter().map(|point| point.rank).collect();
    assert_eq!(ranks, [Some(0), Some(1), Some(0), Some(1)]);
    let split = history.split_ranks();
    assert!(split.shown.iter().all(|point| point.rank == Some(0)));
    assert!(split.others.iter().all(|point| point.rank == Some(1)));
    assert_eq!((split.shown.len(), split.others.len()), (2, 2));
    assert_eq!(split.ranks, Some((0, 2)));
}

#[test]
fn the_ends_of_the_number_line_are_steps_like_others() {
    let rows = [
        (0, i64::MAX, 1.0),
        (1, i64::MIN + 1, 2.0),
        (2, i64::MAX, 3.0),
        (3, NO_STEP, 4.0),
    ];
    let history = history_of(vec![logged("python-1", "loss", &rows)]);
    assert_eq!(values(&history.points), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(history.step_restarts, 1);
}

#[test]
fn a_damaged_table_is_survived() {
    let mut table = logged("python-1", "loss", &[(0, 1, 1.0), (1, 2, 2.0)]);
    table.steps.truncate(1);
    table.columns[0].truncate(1);
    assert_eq!(history_of(vec![table.clone()]).points.len(), 1);
    table.columns.clear();
    assert_eq!(history_of(vec![table]), MetricHistory::default());
}

proptest! {
    #[test]
    fn every_point_is_there_once(steps in prop::collection::vec(-20i64..20, 1..80), cut in 0usize..80) {
        let rows: Vec<(u64, i64, f64)> = steps.iter().enumerate().map(|(i, step)| (i as u64, *step, i as f64)).collect();
        let (first, second) = rows.split_at(cut.min(rows.len()));
        let history = history_of(vec![logged("python-1", "loss", first), logged("python-2", "loss", second)]);
        prop_assert_eq!(values(&history.points), rows.iter().map(|row| row.2).collect::<Vec<_>>());
        let backwards = steps.windows(2).filter(|pair| pair[1] < pair[0]).count() as u64;
        prop_assert!(history.step_restarts <= backwards);
    }
}
