//! Which running processes the user means.

use std::collections::{BTreeSet, HashMap};

use nilo_sample::units::format_bytes;
use nilo_source::ProcessListing;

use crate::failure::Failure;

/// What to do about several matches where they can be taken together.
pub(crate) const ALL_TOGETHER: &str = "choose one with --pid, or watch them together with --all";
/// ... and where they are named one by one.
pub(crate) const BY_PID: &str = "choose with --pid, which takes several PIDs";

/// The processes that a pattern means: one tree, or all with `--all`; never a guess among several.
/// `hint` says what to do about several.
pub(crate) fn match_name(
    listing: &[ProcessListing],
    pattern: &str,
    all: bool,
    hint: &str,
) -> Result<Vec<u32>, Failure> {
    if pattern.is_empty() {
        return Err(Failure::new("the pattern is empty").hint("`nilo ps` lists names to watch"));
    }
    let tops = tops_of(listing, |process| {
        matches(pattern, &process.info.name) || matches(pattern, &process.info.command)
    });
    match tops[..] {
        [] => Err(Failure::new(format!("no process matches {pattern:?}"))
            .hint("`nilo ps --all` lists every process; use --pid if the name is ambiguous")),
        [_] => Ok(vec![tops[0].id.pid]),
        _ if all => Ok(tops.iter().map(|process| process.id.pid).collect()),
        _ => {
            let lines: Vec<String> = tops
                .iter()
                .take(20)
                .map(|process| one_line(process))
                .collect();
            let more = tops.len().saturating_sub(lines.len());
            let rest = if more > 0 {
                format!("\n  and {more} more")
            } else {
                String::new()
            };
            Err(Failure::new(format!(
                "{} processes match {pattern:?}:\n{}{rest}",
                tops.len(),
                lines.join("\n")
            ))
            .hint(hint))
        }
    }
}

/// Every Python program of this user.
pub(crate) fn own_python_programs(listing: &[ProcessListing]) -> Vec<u32> {
    let user = rustix::process::getuid().as_raw();
    let tops = tops_of(listing, |process| {
        process.is_python && process.info.uid == Some(user)
    });
    tops.iter().map(|process| process.id.pid).collect()
}

/// The processes that are wanted, without those that belong to the tree of another one, and without us and those who started us:
/// our own command line holds the pattern, and so may the shell's. Nor is another `nilo` meant whose command line holds the pattern, but what it runs.
fn tops_of(
    listing: &[ProcessListing],
    wanted: impl Fn(&ProcessListing) -> bool,
) -> Vec<&ProcessListing> {
    let parents: HashMap<u32, u32> = listing
        .iter()
        .map(|process| (process.id.pid, process.info.parent))
        .collect();
    let ourselves: BTreeSet<u32> = lineage(std::process::id(), &parents).collect();
    let matched: Vec<&ProcessListing> = listing
        .iter()
        .filter(|process| {
            !ourselves.contains(&process.id.pid) && !process.is_nilo && wanted(process)
        })
        .collect();
    let pids: BTreeSet<u32> = matched.iter().map(|process| process.id.pid).collect();
    matched
        .into_iter()
        .filter(|process| !lineage(process.info.parent, &parents).any(|pid| pids.contains(&pid)))
        .collect()
}

fn one_line(process: &ProcessListing) -> String {
    let command: String = process.info.command.chars().take(80).collect();
    format!(
        "  PID {:<8} {:>11}  {command}",
        process.id.pid,
        format_bytes(process.rss_bytes as f64)
    )
}

/// A process and its parents.
fn lineage(pid: u32, parents: &HashMap<u32, u32>) -> impl Iterator<Item = u32> {
    let next = |pid: &u32| parents.get(pid).copied().filter(|parent| *parent > 0);
    std::iter::successors(Some(pid), next).take(256)
}

/// Contained anywhere; with `*` or `?` the whole text must match.
fn matches(pattern: &str, text: &str) -> bool {
    if !pattern.contains(['*', '?']) {
        return text.contains(pattern);
    }
    // Brackets are letters in command lines, and two stars mean no more than one.
    let mut pattern = pattern.replace('[', "[[]");
    while pattern.contains("**") {
        pattern = pattern.replace("**", "*");
    }
    glob::Pattern::new(&pattern).is_ok_and(|pattern| pattern.matches(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_patterns_are_contained_and_globs_match_whole() {
        assert!(matches("train", "python train.py"));
        assert!(!matches("TRAIN", "python train.py"));
        assert!(matches("python*train*", "python train.py"));
        assert!(!matches("train*", "python train.py"));
        assert!(matches("*t?ain.py", "python train.py"));
        assert!(matches("*", ""));
        assert!(!matches("?", ""));
        assert!(matches("**/[train].py", "/home/[train].py"));
        assert!(!matches("*[train].py", "/home/t.py"));
    }
}
