//! The metrics of a run together with those of the runs that it resumes, as one curve over steps.

use std::collections::HashMap;

use nilo_sample::{ABSENT, NO_STEP, Recording, is_absent};

use crate::metric_history::{metric_group, step_at};

/// Adds the metrics of the run that this one resumes, up to the step at which each goes on here: what was trained again counts as it came out last.
///
/// Their times are the beginning of this run, so that its own memory stays where its steps are. Points without a step are left out.
pub fn add_resumed_metrics(recording: &mut Recording, earlier: Recording) {
    let goes_on_at = first_steps(recording);
    let before = earlier.description.id.to_string();
    for mut table in earlier.tables {
        let Some(group) = metric_group(&table.spec).map(str::to_owned) else {
            continue;
        };
        if table.steps.is_empty() {
            continue;
        }
        for (column, values) in table.spec.columns.iter().zip(&mut table.columns) {
            let ends_at = goes_on_at.get(&(group.clone(), column.name.clone()));
            for (value, step) in values.iter_mut().zip(&table.steps) {
                if *step == NO_STEP || ends_at.is_some_and(|end| step >= end) {
                    *value = ABSENT;
                }
            }
        }
        table.times.fill(0);
        // Its PID may have come again.
        table.writer = format!("{before}/{}", table.writer);
        recording.tables.push(table);
    }
}

/// The first step of each metric, by group and name.
fn first_steps(recording: &Recording) -> HashMap<(String, String), i64> {
    let mut first = HashMap::new();
    for table in &recording.tables {
        let Some(group) = metric_group(&table.spec) else {
            continue;
        };
        for (column, values) in table.spec.columns.iter().zip(&table.columns) {
            let steps = values
                .iter()
                .enumerate()
                .filter(|(_, value)| !is_absent(**value));
            if let Some(step) = steps.filter_map(|(row, _)| step_at(table, row)).min() {
                let known = first.entry((group.to_owned(), column.name.clone()));
                known
                    .and_modify(|least: &mut i64| *least = step.min(*least))
                    .or_insert(step);
            }
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use nilo_sample::{RecordedTable, TableSpec};

    use super::*;
    use crate::metrics;
    use nilo_sample::fixture::recording;

    fn logged(names: &[&str], steps: &[i64], values: &[&[f64]]) -> RecordedTable {
        RecordedTable {
            spec: TableSpec::metrics("metrics", names.iter().copied()),
            writer: "python-1".to_owned(),
            times: steps.iter().map(|step| *step as u64 + 5).collect(),
            steps: steps.to_vec(),
            columns: values.iter().map(|values| values.to_vec()).collect(),
        }
    }

    #[test]
    fn each_metric_goes_on_where_it_was_resumed() {
        let mut resumed = recording();
        resumed.tables = vec![logged(&["loss"], &[2, 3], &[&[0.2, 0.1]])];
        let mut earlier = recording();
        let values: [&[f64]; 2] = [&[1.0, 0.9, 0.8, 0.7], &[7.0; 4]];
        earlier.tables = vec![logged(&["loss", "lr"], &[0, 1, 2, NO_STEP], &values)];
        add_resumed_metrics(&mut resumed, earlier);
        let points = |name: &str| -> Vec<(i64, f64)> {
            let all = metrics(&resumed);
            let metric = all.iter().find(|metric| metric.name == name).unwrap();
            let steps = metric.history().by_step().into_iter();
            steps.map(|(step, point)| (step, point.value)).collect()
        };
        assert_eq!(points("loss"), [(0, 1.0), (1, 0.9), (2, 0.2), (3, 0.1)]);
        assert_eq!(points("lr"), [(0, 7.0), (1, 7.0), (2, 7.0)]);
    }
}
