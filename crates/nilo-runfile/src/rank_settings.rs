//! The settings of a distributed run: each rank tells its own, and what several tell is the first rank's word.

use std::collections::BTreeSet;
use std::ops::Range;

use nilo_sample::{Event, TimedEvent};

/// The events of one writer and its rank. A writer without a rank comes after those that have one.
pub(crate) struct WriterEvents {
    pub(crate) rank: Option<u32>,
    pub(crate) events: Range<usize>,
}

/// Takes settings out of the events of later ranks that an earlier one told too; of one rank, the last word counts as ever.
pub(crate) fn prefer_first_rank(events: &mut [TimedEvent], mut writers: Vec<WriterEvents>) {
    if writers.iter().all(|writer| writer.rank.is_none()) {
        return;
    }
    writers.sort_by_key(|writer| (writer.rank.is_none(), writer.rank));
    let mut told: BTreeSet<String> = BTreeSet::new();
    for same_rank in writers.chunk_by(|a, b| a.rank == b.rank) {
        let mut told_by_rank = Vec::new();
        for writer in same_rank {
            for timed in events.get_mut(writer.events.clone()).unwrap_or_default() {
                if let Event::Config { values } = &mut timed.event {
                    values.retain(|name, _| !told.contains(name));
                    told_by_rank.extend(values.keys().cloned());
                }
            }
        }
        told.extend(told_by_rank);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(pairs: &[(&str, i64)]) -> TimedEvent {
        let values = pairs
            .iter()
            .map(|(name, value)| (name.to_string(), (*value).into()));
        TimedEvent {
            time_nanos: 0,
            event: Event::Config {
                values: values.collect(),
            },
        }
    }

    #[test]
    fn what_several_ranks_tell_is_the_first_ranks_word() {
        let mut events = [
            told(&[("seed", 1), ("only", 7)]),
            told(&[("seed", 0)]),
            told(&[("seed", 100)]),
            told(&[("seed", 5), ("other", 8)]),
        ];
        let writer = |rank, events| WriterEvents { rank, events };
        let writers = vec![
            writer(Some(1), 0..1),
            writer(Some(0), 1..3),
            writer(None, 3..4),
        ];
        prefer_first_rank(&mut events, writers);
        let expected = [
            told(&[("only", 7)]),
            told(&[("seed", 0)]),
            told(&[("seed", 100)]),
            told(&[("other", 8)]),
        ];
        assert_eq!(events, expected);
    }
}
