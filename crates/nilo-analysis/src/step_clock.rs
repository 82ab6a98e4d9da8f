//! Which training step was the last at a given time: for what was measured by the clock and is looked at by steps.
//!
//! Programs count several things as steps (batches here, epochs there).
//! The set of columns with most stepped rows sets the pace, over the writers that have it one after the other; of those at the same time, the first rank or the one with most rows.

use std::collections::HashMap;

use nilo_sample::{Column, RecordedTable, Recording, Subject};

use crate::metric_history::step_at;

/// Steps over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepClock {
    /// Times at which the step changed, and the step from there on.
    changes: Vec<(u64, i64)>,
}

impl StepClock {
    /// Reads the clock off a recording; metrics count first, then phases, then running totals.
    pub fn of(recording: &Recording) -> StepClock {
        let kinds: [fn(&Subject) -> bool; 3] = [
            |subject| matches!(subject, Subject::Metrics { .. }),
            |subject| matches!(subject, Subject::Phase { .. }),
            |subject| matches!(subject, Subject::Throughput { .. }),
        ];
        let clocks = kinds.into_iter().map(|kind| {
            let tables = recording
                .tables
                .iter()
                .filter(|table| kind(&table.spec.subject));
            StepClock::of_largest(tables)
        });
        clocks
            .into_iter()
            .find(|clock| clock.has_steps())
            .unwrap_or_default()
    }

    fn of_largest<'a>(tables: impl Iterator<Item = &'a RecordedTable>) -> StepClock {
        let mut alike: HashMap<(&Subject, Vec<&str>), Vec<&RecordedTable>> = HashMap::new();
        for table in tables.filter(|table| !table.steps.is_empty()) {
            let names = |column: &'a Column| column.name.as_str();
            let names = table.spec.columns.iter().map(names).collect();
            let subject = match &table.spec.subject {
                // All trackers count the same steps.
                Subject::Throughput { .. } => &Subject::Throughput { tracker: 0 },
                subject => subject,
            };
            alike.entry((subject, names)).or_default().push(table);
        }
        let rows = |tables: &[&RecordedTable]| tables.iter().map(|t| t.steps.len()).sum::<usize>();
        // Equally many: the one that began first, so that the choice is the same each time.
        let began = |tables: &[&RecordedTable]| {
            let first = tables.iter().filter_map(|table| table.times.first()).min();
            std::cmp::Reverse(first.copied())
        };
        let largest = alike
            .into_iter()
            .max_by_key(|((_, names), tables)| (rows(tables), began(tables), names.clone()));
        let mut changes = Vec::new();
        for table in largest.into_iter().flat_map(|(_, tables)| in_turn(tables)) {
            let stepped = |(row, time): (usize, &u64)| Some((*time, step_at(table, row)?));
            changes.extend(table.times.iter().enumerate().filter_map(stepped));
        }
        if !changes.is_sorted() {
            changes.sort_unstable();
        }
        changes.dedup_by_key(|(_, step)| *step);
        StepClock { changes }
    }

    /// Whether any step is known.
    pub fn has_steps(&self) -> bool {
        !self.changes.is_empty()
    }

    /// The changes that no later one takes back: steps that ascend in time. What was trained again counts when it was trained last.
    pub fn ascending(&self) -> Vec<(u64, i64)> {
        let mut lasting: Vec<(u64, i64)> = Vec::new();
        for (time_nanos, step) in self.changes.iter().rev().copied() {
            if lasting.last().is_none_or(|(_, later)| step < *later) {
                lasting.push((time_nanos, step));
            }
        }
        lasting.reverse();
        lasting
    }

    /// The stretches in which steps ascend: one for each time that they began again or went back.
    ///
    /// What stands at the very beginning and is taken up again is of a run that this one resumes: no pass of its own.
    pub fn passes(&self) -> Vec<Vec<(u64, i64)>> {
        let passes = self.changes.chunk_by(|a, b| a.1 < b.1);
        let mut passes: Vec<Vec<(u64, i64)>> = passes.map(<[_]>::to_vec).collect();
        let is_resumed = |pass: &Vec<(u64, i64)>| pass.iter().all(|(time, _)| *time == 0);
        if passes.len() > 1 && passes.first().is_some_and(is_resumed) {
            passes.remove(0);
        }
        passes
    }

    /// Whether steps had begun at a time.
    pub fn begin_by(&self, time_nanos: u64) -> bool {
        self.changes
            .first()
            .is_some_and(|(first, _)| *first <= time_nanos)
    }

    /// The last step at a time; before the first step, that one.
    pub fn step(&self, time_nanos: u64) -> Option<i64> {
        let after = self
            .changes
            .partition_point(|(time, _)| *time <= time_nanos);
        let (_, step) = self.changes.get(after.saturating_sub(1))?;
        Some(*step)
    }
}

/// The tables of those that logged one after the other.
fn in_turn(mut tables: Vec<&RecordedTable>) -> Vec<&RecordedTable> {
    let range = |table: &RecordedTable| {
        let first = table.times.first().copied().unwrap_or(0);
        (first, table.times.last().copied().unwrap_or(first))
    };
    tables.sort_by_key(|table| {
        let rank = table.spec.rank.unwrap_or(0);
        (rank, std::cmp::Reverse(table.steps.len()), range(table))
    });
    let mut taken: Vec<&RecordedTable> = Vec::new();
    for table in tables {
        let (from, to) = range(table);
        let is_beside = |other: &&RecordedTable| range(other).0 < to && from < range(other).1;
        if !taken.iter().any(is_beside) {
            taken.push(table);
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::NO_STEP;
    use nilo_sample::TableSpec;
    use nilo_sample::fixture;

    fn stepped(writer: &str, spec: TableSpec, rows: &[(u64, i64)]) -> RecordedTable {
        let mut table = fixture::table(spec);
        table.writer = writer.to_owned();
        let row = vec![0.0; table.columns.len()];
        for (time, step) in rows {
            fixture::tick_values(&mut table, *time, &row);
            table.steps.push(*step);
        }
        table
    }

    fn clock(tables: Vec<RecordedTable>) -> StepClock {
        let mut recording = fixture::recording();
        recording.tables = tables;
        StepClock::of(&recording)
    }

    #[test]
    fn batches_outnumber_epochs() {
        let loss = TableSpec::metrics("metrics", ["loss"]);
        let eval = TableSpec::metrics("metrics", ["accuracy"]);
        let clock = clock(vec![
            stepped("a", eval, &[(15, 0), (25, 1)]),
            stepped("a", loss.clone(), &[(10, 100), (20, 101)]),
            stepped("b", loss, &[(30, 101), (40, NO_STEP), (50, 102)]),
        ]);
        let steps = [0, 10, 19, 20, 45, 50, 99].map(|time| clock.step(time));
        assert_eq!(steps, [100, 100, 100, 101, 101, 102, 102].map(Some));
    }

    #[test]
    fn steps_that_were_taken_back_do_not_last() {
        let loss = TableSpec::metrics("metrics", ["loss"]);
        let rows = [(1, 0), (2, 10), (3, 20), (4, 10), (5, 15), (6, 30)];
        let clock = clock(vec![stepped("a", loss, &rows)]);
        assert_eq!(clock.ascending(), [(1, 0), (4, 10), (5, 15), (6, 30)]);
    }

    #[test]
    fn steps_that_begin_again_are_passes() {
        let loss = TableSpec::metrics("metrics", ["loss"]);
        let epochs = [(1, 0), (2, 1), (3, 0), (4, 1), (5, 1), (6, 2)];
        let resumed = [(0, 7), (0, 8)];
        let of_epochs = [vec![(1, 0), (2, 1)], vec![(3, 0), (4, 1), (6, 2)]];
        let alone = clock(vec![stepped("a", loss.clone(), &epochs)]);
        assert_eq!(alone.passes(), of_epochs);
        let both = vec![
            stepped("a", loss.clone(), &epochs),
            stepped("before/a", loss.clone(), &resumed),
        ];
        assert_eq!(clock(both).passes(), of_epochs);
    }

    #[test]
    fn one_rank_that_lags_behind_another_begins_no_pass() {
        let loss = TableSpec::metrics("metrics", ["loss"]);
        let mut ahead = stepped("a", loss.clone(), &[(1, 5), (3, 6), (5, 7)]);
        let mut behind = stepped("b", loss, &[(2, 1), (4, 2), (6, 3), (8, 4)]);
        let unranked = clock(vec![ahead.clone(), behind.clone()]);
        assert_eq!(unranked.passes(), [[(2, 1), (4, 2), (6, 3), (8, 4)]]);
        (ahead.spec.rank, behind.spec.rank) = (Some(0), Some(1));
        let ranked = clock(vec![behind, ahead]);
        assert_eq!(ranked.passes(), [[(1, 5), (3, 6), (5, 7)]]);
    }

    #[test]
    fn without_steps_there_is_no_clock() {
        assert_eq!(clock(vec![]).step(5), None);
        let loss = TableSpec::metrics("metrics", ["loss"]);
        let unstepped = stepped("a", loss, &[(1, NO_STEP)]);
        assert!(!clock(vec![unstepped]).has_steps());
        let phase = stepped("a", TableSpec::phase("step"), &[(1, 7)]);
        assert_eq!(clock(vec![phase]).step(0), Some(7));
    }
}
