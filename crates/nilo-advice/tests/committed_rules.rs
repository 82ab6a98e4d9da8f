//! `docs/advice-rules.md` lists every rule.
#![allow(clippy::unwrap_used)]

use std::fmt::Write;
use std::path::PathBuf;

use nilo_advice::all_rules;

/// Set to write the file instead of comparing it.
const UPDATE: &str = "NILO_UPDATE_RULES";

fn document() -> String {
    let mut text = "# Advice rules\n\n\
        What `nilo optimize`, `nilo show` and `nilometer.optimize` recommend, and when.\n\
        A rule is silent without the facts that it needs (`docs/schema/facts.json`); either of two is written `a|b`.\n\
        \"Our measurement\" was made with small models and programs on one machine: it is a size to expect, not a promise.\n\
        This file is written by `NILO_UPDATE_RULES=1 cargo test -p nilo-advice --test committed_rules`.\n"
        .to_owned();
    let mut subject = None;
    for rule in all_rules() {
        if subject != Some(rule.subject) {
            subject = Some(rule.subject);
            let name = rule.subject.as_str();
            let title = name.strip_prefix("the ").unwrap_or(name);
            let (first, rest) = title.split_at(1);
            writeln!(text, "\n## {}{rest}", first.to_uppercase()).unwrap();
            writeln!(
                text,
                "| rule | speaks when | needs | source |\n|---|---|---|---|"
            )
            .unwrap();
        }
        let needs: Vec<String> = rule
            .needs
            .iter()
            .map(|need| format!("`{}`", need.replace('|', "\\|")))
            .collect();
        let (needs, source) = (needs.join(", "), rule.source.replace('|', "\\|"));
        writeln!(
            text,
            "| `{}` | {} | {needs} | {source} |",
            rule.name, rule.condition
        )
        .unwrap();
    }
    text
}

#[test]
fn the_committed_list_is_that_of_the_rules() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/advice-rules.md");
    let text = document();
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == text,
        "docs/advice-rules.md is not the list of the rules; write it anew with\n  {UPDATE}=1 cargo test -p nilo-advice --test committed_rules"
    );
}
