//! What the program told of itself: facts, and optimizations that it tried.

use std::cmp::Reverse;

use nilo_advice::Facts;
use nilo_sample::{Event, Optimization, Recording};
use serde_json::{Map, Value};

/// A subject has a few dozen facts; the rest is no fact that anybody knows.
const MOST_NAMES: usize = 256;
/// What was tried stands in one line each.
const MOST_OPTIMIZATIONS: usize = 200;

/// Every fact with its last value. Where the ranks of a distributed program differ, it is the first rank's.
pub(super) fn facts(recording: &Recording) -> Facts {
    let events = recording.events.iter();
    let mut told: Vec<_> = events
        .filter_map(|timed| match &timed.event {
            Event::Facts { values, rank } => Some((rank.unwrap_or(0), values)),
            _ => None,
        })
        .collect();
    // Stable: the events of one rank stay in the order of time.
    told.sort_by_key(|(rank, _)| Reverse(*rank));
    let mut all = Map::new();
    for (subject, values) in told.into_iter().flat_map(|(_, values)| values) {
        put(&mut all, subject, values);
    }
    Facts::from_values(&all)
}

fn put(into: &mut Map<String, Value>, name: &str, value: &Value) {
    let has_room = into.len() < MOST_NAMES;
    match (into.get_mut(name), value) {
        (Some(Value::Object(known)), Value::Object(more)) => {
            for (name, value) in more {
                put(known, name, value);
            }
        }
        (Some(Value::Array(known)), Value::Array(more)) if name == "buffers" => {
            more.iter().for_each(|buffer| put_buffer(known, buffer));
        }
        (Some(known), _) => known.clone_from(value),
        (None, _) if has_room => {
            into.insert(name.to_owned(), value.clone());
        }
        (None, _) => {}
    }
}

/// A buffer is known by its name.
fn put_buffer(known: &mut Vec<Value>, buffer: &Value) {
    let Some(place) = known.iter().position(|old| old["name"] == buffer["name"]) else {
        if known.len() < MOST_NAMES {
            known.push(buffer.clone());
        }
        return;
    };
    if let (Value::Object(old), Value::Object(fields)) = (&mut known[place], buffer) {
        for (name, value) in fields {
            put(old, name, value);
        }
    }
}

/// What was tried, in the order of time. What several ranks tell in the same words is told once; what was undone stands where it was applied.
pub(crate) fn optimizations(recording: &Recording) -> Vec<Optimization> {
    let mut tried: Vec<Optimization> = Vec::new();
    for timed in &recording.events {
        let Event::Optimization(optimization) = &timed.event else {
            continue;
        };
        let told = optimization.as_ref();
        if let Some(undone) = tried.iter_mut().rfind(|earlier| undoes(told, earlier)) {
            undone.clone_from(told);
        } else if tried.len() < MOST_OPTIMIZATIONS && !tried.contains(told) {
            tried.push(told.clone());
        }
    }
    tried
}

/// An undo is told with the figures of what it takes back.
fn undoes(told: &Optimization, earlier: &Optimization) -> bool {
    let as_earlier = Optimization {
        applied: true,
        note: earlier.note.clone(),
        ..told.clone()
    };
    !told.applied && as_earlier == *earlier
}
