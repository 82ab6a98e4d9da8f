//! The program's settings (hyperparameters) as it told them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use nilo_sample::{Event, Recording};
use serde_json::Value;

/// Every setting with its last value. Where the ranks of a distributed program differ, as in a seed, it is the first rank's.
pub fn settings(recording: &Recording) -> BTreeMap<String, Value> {
    let events = recording.events.iter();
    let mut told: Vec<_> = events
        .filter_map(|timed| match &timed.event {
            Event::Config { values, rank } => Some((rank.unwrap_or(0), values)),
            _ => None,
        })
        .collect();
    // Stable: the events of one rank stay in the order of time.
    told.sort_by_key(|(rank, _)| Reverse(*rank));
    let pairs = told.into_iter().flat_map(|(_, values)| values);
    pairs
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use nilo_sample::TimedEvent;
    use serde_json::json;

    use super::*;
    use nilo_sample::fixture::recording;

    #[test]
    fn the_first_rank_decides_whoever_told_last() {
        let mut recording = recording();
        let told = [
            (Some(1), "seed", 1),
            (Some(0), "seed", 0),
            (Some(0), "layers", 2),
            (Some(2), "seed", 2),
            (Some(0), "layers", 3),
            (Some(2), "only_here", 4),
        ];
        for (time_nanos, (rank, name, value)) in told.into_iter().enumerate() {
            let values = BTreeMap::from([(name.to_owned(), json!(value))]);
            recording.events.push(TimedEvent {
                time_nanos: time_nanos as u64,
                event: Event::Config { values, rank },
            });
        }
        let found = settings(&recording);
        let expected = [("layers", 3), ("only_here", 4), ("seed", 0)];
        let expected = expected.map(|(name, value)| (name.to_owned(), json!(value)));
        assert_eq!(found, BTreeMap::from(expected));
    }
}
