//! The rows of several tables in the order of their times.

use nilo_sample::{RecordedTable, TimedEvent};

/// One thing that was written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RowOrEvent<'a> {
    /// A row of a table.
    Row(&'a RecordedTable, usize),
    /// An event.
    Event(&'a TimedEvent),
}

/// Calls `each` with every row of the tables that `keep` wants and every event, by time.
pub(crate) fn in_order<'a>(
    tables: &'a [RecordedTable],
    events: &'a [TimedEvent],
    keep: impl Fn(&RecordedTable) -> bool,
    mut each: impl FnMut(u64, RowOrEvent<'a>),
) {
    // Each table and the list of events ascend, so the smallest head comes next.
    let kept: Vec<&RecordedTable> = tables.iter().filter(|table| keep(table)).collect();
    let mut heads = std::collections::BinaryHeap::new();
    let head = |kept: &[&RecordedTable], table: usize, row: usize| {
        let time = kept[table].times.get(row)?;
        Some(std::cmp::Reverse((*time, table, row)))
    };
    heads.extend((0..kept.len()).filter_map(|table| head(&kept, table, 0)));
    let mut events = events.iter().peekable();
    while let Some(std::cmp::Reverse((time, table, row))) = heads.pop() {
        while let Some(event) = events.next_if(|event| event.time_nanos <= time) {
            each(event.time_nanos, RowOrEvent::Event(event));
        }
        each(time, RowOrEvent::Row(kept[table], row));
        heads.extend(head(&kept, table, row + 1));
    }
    events.for_each(|event| each(event.time_nanos, RowOrEvent::Event(event)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::{Event, TableSpec};

    fn table(times: &[u64]) -> RecordedTable {
        RecordedTable {
            spec: TableSpec::phase("x"),
            writer: "w".to_owned(),
            times: times.to_vec(),
            steps: Vec::new(),
            columns: vec![vec![0.0; times.len()]],
        }
    }

    #[test]
    fn rows_and_events_come_by_time() {
        let tables = [table(&[1, 5, 9]), table(&[2, 3, 10])];
        let mark = |time_nanos| TimedEvent {
            time_nanos,
            event: Event::Mark {
                text: String::new(),
            },
        };
        let events = [mark(0), mark(4), mark(12)];
        let mut times = Vec::new();
        in_order(&tables, &events, |_| true, |time, _| times.push(time));
        assert_eq!(times, [0, 1, 2, 3, 4, 5, 9, 10, 12]);
    }
}
