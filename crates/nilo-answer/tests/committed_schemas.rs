//! The schemas in `docs/schema/` are those of the types.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::PathBuf;

use nilo_answer::schemas::schemas;

/// Set to write the files instead of comparing them.
const UPDATE: &str = "NILO_UPDATE_SCHEMAS";

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema")
}

#[test]
fn committed_schemas_are_those_of_the_types() {
    let mut expected = BTreeSet::new();
    for (name, schema) in schemas() {
        let path = folder().join(format!("{name}.json"));
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if std::env::var_os(UPDATE).is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == text,
            "docs/schema/{name}.json is not the schema of its type; write it anew with\n  {UPDATE}=1 cargo test -p nilo-answer --test committed_schemas\nand look at the difference: within a version keys are only added"
        );
        expected.insert(format!("{name}.json"));
    }
    let entries = std::fs::read_dir(folder()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let committed: BTreeSet<String> = names.filter(|name| name.ends_with(".json")).collect();
    assert_eq!(committed, expected);
}

/// Readers tell answers apart by this key, so no two may share a value.
#[test]
fn every_answer_names_its_own_schema() {
    let mut known = BTreeSet::new();
    for (name, schema) in schemas() {
        // Lines of `monitor` are events, told apart by another key; facts are told to us.
        if name == "monitor" || name == "facts" {
            continue;
        }
        let value = schema.as_value();
        let Some(named) = value["properties"]["schema"]["const"].as_str() else {
            panic!("{name}: no constant schema key");
        };
        assert_eq!(named, format!("nilo.{name}/1"));
        assert!(known.insert(named.to_owned()), "{named} twice");
    }
}
