use super::*;
use crate::summary::fixture;
use nilo_sample::{ABSENT, TableSpec};
use proptest::prelude::*;

/// A table of one metric from (time, step, value).
fn logged(writer: &str, name: &str, rows: &[(u64, i64, f64)]) -> RecordedTable {
    let mut table = fixture::table(TableSpec::metrics("metrics", [name]));
    table.writer = writer.to_owned();
    for (time, step, value) in rows {
        fixture::tick(&mut table, *time, &[*value]);
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
    fixture::tick(&mut both, 3, &[0.1, 5.0, ABSENT]);
    fixture::tick(&mut both, 5, &[0.1, ABSENT, 6.0]);
    let mut recording = fixture::recording();
    recording.tables = vec![logged("recorder-1", "loss", &[(4, NO_STEP, 1.0)]), both];
    let found = metrics(&recording);
    let names: Vec<&str> = found.iter().map(|metric| metric.name).collect();
    assert_eq!(names, ["loss", "lr"]);
    let history = found[0].history();
    assert_eq!(values(&history.points), [5.0, 1.0, 6.0]);
    assert!(history.points.iter().all(|point| point.step.is_none()));
}

#[test]
fn the_newest_attempt_wins_where_steps_overlap() {
    let first = logged(
        "python-1",
        "loss",
        &[(0, 0, 9.0), (1, 10, 8.0), (2, 20, 7.0), (3, 30, 6.0)],
    );
    let second = logged("python-2", "loss", &[(10, 10, 80.0), (11, 25, 70.0)]);
    let history = history_of(vec![first, second]);
    assert_eq!(history.attempts, 2);
    // Step 30 was never trained again.
    assert_eq!(values(&history.points), [9.0, 6.0, 80.0, 70.0]);
    assert_eq!(values(&history.overwritten), [8.0, 7.0]);
    let steps: Vec<i64> = history.by_step().iter().map(|(step, _)| *step).collect();
    assert_eq!(steps, [0, 10, 25, 30]);
}

#[test]
fn a_process_that_goes_back_by_itself_is_an_attempt_too() {
    let table = logged(
        "python-1",
        "loss",
        &[(0, 1, 1.0), (1, 2, 2.0), (2, 2, 2.5), (3, 1, 3.0)],
    );
    let history = history_of(vec![table]);
    assert_eq!(history.attempts, 2);
    assert_eq!(values(&history.overwritten), [1.0]);
}

#[test]
fn ranks_beside_each_other_overwrite_nothing() {
    let rank = |writer, shift| {
        logged(
            writer,
            "loss",
            &[
                (shift, 1, 1.0),
                (100 + shift, 2, 2.0),
                (200 + shift, 3, 3.0),
            ],
        )
    };
    let history = history_of(vec![rank("python-1", 0), rank("python-2", 70)]);
    assert_eq!((history.attempts, history.points.len()), (1, 6));
    assert!(history.overwritten.is_empty());
}

#[test]
fn ranks_that_log_once_each_are_still_ranks() {
    let rank = |writer, time| {
        let mut alive = fixture::table(TableSpec::throughput());
        alive.writer = String::from(writer);
        fixture::tick(&mut alive, 0, &[0.0; 4]);
        fixture::tick(&mut alive, 100, &[1.0; 4]);
        [logged(writer, "loss", &[(time, 7, 1.0)]), alive]
    };
    let history = history_of([rank("python-1", 10), rank("python-2", 20)].concat());
    assert_eq!((history.attempts, history.points.len()), (1, 2));
}

#[test]
fn a_job_that_goes_on_where_it_stopped_is_one_attempt() {
    let history = history_of(vec![
        logged("python-1", "loss", &[(0, 1, 1.0), (1, 2, 2.0)]),
        logged("python-2", "loss", &[(10, 3, 3.0)]),
    ]);
    assert_eq!((history.attempts, history.points.len()), (1, 3));
}

#[test]
fn ranks_that_are_resumed_together_are_two_attempts() {
    let mut tables = Vec::new();
    for (writer, from) in [
        ("python-1", 0),
        ("python-2", 1),
        ("python-3", 50),
        ("python-4", 51),
    ] {
        tables.push(logged(
            writer,
            "loss",
            &[(from, 1, 1.0), (from + 20, 2, 2.0)],
        ));
    }
    let history = history_of(tables);
    assert_eq!(
        (
            history.attempts,
            history.points.len(),
            history.overwritten.len()
        ),
        (2, 4, 4)
    );
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
    assert_eq!(values(&history.points), [2.0, 3.0, 4.0]);
    assert_eq!(values(&history.overwritten), [1.0]);
}

#[test]
fn a_million_points_that_all_go_back_end() {
    let rows: Vec<(u64, i64, f64)> = (0..1_000_000).map(|i| (i, -(i as i64), i as f64)).collect();
    let history = history_of(vec![logged("python-1", "loss", &rows)]);
    assert_eq!(
        (history.attempts, history.points.len()),
        (1_000_000, 1_000_000)
    );
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
    fn every_point_is_kept_once_and_the_newest_stretch_whole(steps in prop::collection::vec(-20i64..20, 1..80), cut in 0usize..80) {
        let rows: Vec<(u64, i64, f64)> = steps.iter().enumerate().map(|(i, step)| (i as u64, *step, i as f64)).collect();
        let (first, second) = rows.split_at(cut.min(rows.len()));
        let history = history_of(vec![logged("python-1", "loss", first), logged("python-2", "loss", second)]);
        let mut all = values(&history.points);
        all.extend(values(&history.overwritten));
        all.sort_by(f64::total_cmp);
        prop_assert_eq!(all, rows.iter().map(|row| row.2).collect::<Vec<_>>());
        let backwards = steps.windows(2).filter(|pair| pair[1] < pair[0]).count();
        prop_assert!(history.attempts >= 1 && history.attempts <= backwards + 2);
        let last = rows.len() as f64 - 1.0;
        prop_assert!(values(&history.points).contains(&last));
    }
}
