//! Facts from JSON that anybody may have written: what is understood counts, everything else is left out.

use serde_json::{Map, Value};

use super::Facts;

/// A program has a handful of buffers; whoever names thousands has a bug.
const MOST_BUFFERS: usize = 64;
/// Elements of a list, one a rank.
const MOST_RANKS: usize = 65_536;
/// No memory, time or count of a training is larger.
const LARGEST: f64 = 1e18;

impl Facts {
    /// Facts by subject. A value of the wrong type, a negative one or one beyond all measure is as if it were absent.
    pub fn from_values(values: &Map<String, Value>) -> Facts {
        let mut facts = Map::new();
        for (subject, told) in values {
            let kept = match told {
                Value::Object(fields) => understood(fields, &|leaf| reads(&[subject], leaf)),
                Value::Array(several) => Value::Array(understood_buffers(several)),
                _ => continue,
            };
            if reads(
                &[],
                Value::Object(Map::from_iter([(subject.clone(), kept.clone())])),
            ) {
                facts.insert(subject.clone(), kept);
            }
        }
        serde_json::from_value(Value::Object(facts)).unwrap_or_default()
    }

    /// The same without what cannot have been measured: no rule meets a NaN or a negative size.
    pub fn plausible(&self) -> Facts {
        match serde_json::to_value(self) {
            Ok(Value::Object(values)) => Facts::from_values(&values),
            _ => Facts::default(),
        }
    }

    /// Whether something is known of a fact, such as `gc.steps`; of a buffer's, whether it is known of any.
    pub fn knows(&self, path: &str) -> bool {
        serde_json::to_value(self).is_ok_and(|facts| knows(&facts, path))
    }
}

fn knows(value: &Value, path: &str) -> bool {
    match value {
        Value::Array(several) if path.is_empty() => !several.is_empty(),
        Value::Array(several) => several.iter().any(|one| knows(one, path)),
        Value::Object(fields) => {
            let (name, rest) = path.split_once('.').unwrap_or((path, ""));
            fields.get(name).is_some_and(|field| knows(field, rest))
        }
        _ => !value.is_null() && path.is_empty(),
    }
}

/// The fields that can be read one by one.
fn understood(fields: &Map<String, Value>, is_read: &dyn Fn(Value) -> bool) -> Value {
    let mut kept = Map::new();
    for (name, value) in fields {
        let one = |value: Value| Value::Object(Map::from_iter([(name.clone(), value)]));
        let value = match value {
            Value::Object(inner) => understood(inner, &|leaf| is_read(one(leaf))),
            Value::Array(several) => {
                let texts = usable_of(several, Value::is_string);
                match texts != Value::Array(Vec::new()) && is_read(one(texts.clone())) {
                    true => texts,
                    false => usable_of(several, Value::is_number),
                }
            }
            leaf if is_usable(leaf) => leaf.clone(),
            _ => continue,
        };
        if is_read(one(value.clone())) {
            kept.insert(name.clone(), value);
        }
    }
    Value::Object(kept)
}

fn understood_buffers(several: &[Value]) -> Vec<Value> {
    let fields = several.iter().filter_map(Value::as_object);
    let is_read = |leaf: Value| reads(&["buffers"], Value::Array(vec![leaf]));
    fields
        .take(MOST_BUFFERS)
        .map(|fields| understood(fields, &is_read))
        .collect()
}

/// The elements of one kind, as a list.
fn usable_of(several: &[Value], is_kind: fn(&Value) -> bool) -> Value {
    let usable = several.iter().filter(|one| is_kind(one) && is_usable(one));
    Value::Array(usable.take(MOST_RANKS).cloned().collect())
}

fn is_usable(value: &Value) -> bool {
    match value.as_f64() {
        Some(number) => (0.0..=LARGEST).contains(&number),
        None => value.is_boolean() || value.is_string(),
    }
}

/// Whether facts with this alone can be read.
fn reads(path: &[&str], value: Value) -> bool {
    let nested = path.iter().rev().fold(value, |inner, name| {
        Value::Object(Map::from_iter([((*name).to_owned(), inner)]))
    });
    serde_json::from_value::<Facts>(nested).is_ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn of(value: Value) -> Facts {
        Facts::from_values(value.as_object().unwrap())
    }

    #[test]
    fn what_is_malformed_is_left_out_and_the_rest_counts() {
        let facts = of(json!({
            "gc": {"steps": "many", "wall_seconds": 4.0, "total_seconds": -1, "later": {"x": 1}},
            "host": {"peak_bytes": 1e300, "limit_bytes": [], "rss_bytes": 2},
            "buffers": [{"name": "a", "image_bytes": 5}, 7, {"name": 3, "image_bytes": 6.0, "int64_largest": -2}],
            "torch": {"rank_peak_bytes": [1.0, -1, "x", 2.0], "steps": 1.5},
            "model": {"not_worth_it": ["use-sdpa", 3, null, "use-autocast"]},
            "loader": [1, 2],
            "unheard": {"of": 1},
            "batch": 3,
        }));
        let mut expected = Facts::default();
        expected.gc.wall_seconds = Some(4.0);
        expected.host.rss_bytes = Some(2.0);
        expected.torch.rank_peak_bytes = vec![1.0, 2.0];
        expected.model.not_worth_it = vec!["use-sdpa".to_owned(), "use-autocast".to_owned()];
        for (name, bytes) in [("a", 5.0), ("", 6.0)] {
            expected.buffers.push(crate::BufferFacts {
                name: name.to_owned(),
                image_bytes: Some(bytes),
                ..Default::default()
            });
        }
        assert_eq!(facts, expected);
    }

    #[test]
    fn what_cannot_be_is_not_plausible() {
        let mut facts = Facts::default();
        facts.host.peak_bytes = Some(f64::NAN);
        facts.host.limit_bytes = Some(-5.0);
        facts.host.rss_bytes = Some(7.0);
        facts.gc.steps = Some(u64::MAX);
        facts.torch.rank_peak_bytes = vec![1.0, f64::INFINITY];
        let mut expected = Facts::default();
        expected.host.rss_bytes = Some(7.0);
        expected.torch.rank_peak_bytes = vec![1.0];
        assert_eq!(facts.plausible(), expected);
    }

    #[test]
    fn a_fact_is_known_by_its_path() {
        let facts = of(
            json!({"gc": {"steps": 3}, "buffers": [{"image_bytes": 5}], "host": {"rss_bytes": 0}}),
        );
        for path in ["gc.steps", "buffers.image_bytes", "host.rss_bytes"] {
            assert!(facts.knows(path), "{path}");
        }
        for path in [
            "gc.enabled",
            "buffers.library",
            "torch.rank_peak_bytes",
            "gc",
            "none",
            "",
        ] {
            assert!(!facts.knows(path), "{path}");
        }
    }

    #[test]
    fn thousands_of_buffers_are_a_bug() {
        let buffers: Vec<Value> = (0..5000)
            .map(|number| json!({"image_bytes": number}))
            .collect();
        assert_eq!(of(json!({"buffers": buffers})).buffers.len(), MOST_BUFFERS);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-z]{0,4}".prop_map(Value::from),
        ];
        let name = prop::sample::select(vec![
            "gc",
            "host",
            "loader",
            "torch",
            "model",
            "batch",
            "buffers",
            "steps",
            "peak_bytes",
            "limit_bytes",
            "rank_peak_bytes",
            "not_worth_it",
            "workers",
            "wait_ratio",
            "x",
        ]);
        leaf.prop_recursive(4, 64, 8, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::btree_map(name.clone().prop_map(str::to_owned), inner, 0..8)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_a_program_tells_is_read_and_judged(told in any_json()) {
            if let Some(values) = told.as_object() {
                let facts = Facts::from_values(values);
                prop_assert_eq!(facts.plausible(), facts.clone());
                crate::recommend(&facts);
            }
        }
    }
}
