//! `nilo watch`: record processes that already run.

use std::collections::{BTreeSet, HashMap};

use nilo_recorder::{WatchEnd, WatchSettings, watch_processes};
use nilo_sample::units::format_bytes;
use nilo_source::{ProcessListing, Roots, list_processes, process_id};

use crate::alerts::settle_alerts;
use crate::args::WatchArgs;
use crate::commands::run::{
    backend, check_writable, create_folder, describe, explain, interval, open_log, report,
};
use crate::failure::{Failure, note};
use crate::folder::runs_root;
use crate::settings::Settings;
use crate::text::live_line::LiveLine;

const DEFAULT_INTERVAL_NANOS: u64 = 1_000_000_000;

pub(crate) fn run(args: WatchArgs, settings: &Settings) -> Result<u8, Failure> {
    let sampling = &args.sampling;
    let quiet = sampling.quiet || settings.quiet;
    let interval_nanos = interval(sampling, settings, DEFAULT_INTERVAL_NANOS)?;
    let alerts = settle_alerts(&args.alerts, &settings.alerts, quiet)?;
    let roots = Roots::default();
    let listing = list_processes(&roots);
    let pids = match &args.name_pattern {
        Some(pattern) => match_name(&listing, pattern, args.all)?,
        None => args.pid.clone(),
    };
    for &pid in &pids {
        process_id(&roots, pid).map_err(|error| explain(error.into()))?;
    }
    let log = open_log(sampling.memory_log.as_deref())?;
    check_writable(sampling.json.as_deref())?;
    let by_pid: HashMap<u32, &ProcessListing> = listing
        .iter()
        .map(|process| (process.id.pid, process))
        .collect();
    let named: Vec<String> = pids
        .iter()
        .filter_map(|pid| Some(by_pid.get(pid)?.info.command.clone()))
        .collect();
    let name = args
        .run_name
        .clone()
        .or_else(|| Some(by_pid.get(pids.first()?)?.info.name.clone()));
    let mut description = describe("watch", named, name.as_deref().unwrap_or("watch"), sampling);
    description.name = args.run_name;
    description.interval_nanos = interval_nanos;
    let Some(folder) = create_folder(&runs_root(&args.place, settings), &mut description) else {
        return Err(Failure::new("there is no place to record to")
            .hint("name a writable folder with --dir"));
    };
    if !quiet {
        for pid in &pids {
            let what = by_pid
                .get(pid)
                .map_or("", |process| process.info.name.as_str());
            note(&format!(
                "watching PID {pid} {what} every {} s; Ctrl+C to stop",
                nilo_sample::units::to_secs(interval_nanos)
            ));
        }
    }

    let mut live = LiveLine::new(sampling.live, quiet, false, log);
    let outcome = watch_processes(
        WatchSettings {
            pids,
            folder: &folder,
            description,
            interval_nanos,
            duration_nanos: args.duration,
            backend: backend(sampling.source),
            alerts,
        },
        &mut live,
    );
    live.clear();
    let outcome = outcome.map_err(|error| {
        std::fs::remove_dir_all(folder.path()).ok();
        explain(error)
    })?;
    if !quiet && outcome.end == WatchEnd::AllGone {
        note("the watched processes have ended");
    }
    report(&folder, quiet, sampling.json.as_deref());
    Ok(0)
}

/// The processes that a pattern means: one tree, or all with `--all`; never a guess among several.
fn match_name(listing: &[ProcessListing], pattern: &str, all: bool) -> Result<Vec<u32>, Failure> {
    if pattern.is_empty() {
        return Err(Failure::new("the pattern is empty").hint("`nilo ps` lists names to watch"));
    }
    let parents: HashMap<u32, u32> = listing
        .iter()
        .map(|process| (process.id.pid, process.info.parent))
        .collect();
    // Our own command line holds the pattern, and so may the shell's that started us.
    let ourselves: BTreeSet<u32> = lineage(std::process::id(), &parents).collect();
    let matched: Vec<&ProcessListing> = listing
        .iter()
        .filter(|process| !ourselves.contains(&process.id.pid))
        .filter(|process| {
            matches(pattern, &process.info.name) || matches(pattern, &process.info.command)
        })
        .collect();
    // A process whose ancestor matched too is part of that one's tree.
    let pids: BTreeSet<u32> = matched.iter().map(|process| process.id.pid).collect();
    let tops: Vec<&ProcessListing> = matched
        .into_iter()
        .filter(|process| !lineage(process.info.parent, &parents).any(|pid| pids.contains(&pid)))
        .collect();
    match tops[..] {
        [] => Err(Failure::new(format!("no process matches {pattern:?}"))
            .hint("`nilo ps --all` lists every process; use --pid when the name is unclear")),
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
            .hint("choose one with --pid, or watch them together with --all"))
        }
    }
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
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t, mut star, mut resume) = (0, 0, None, 0);
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some(p);
                resume = t;
                p += 1;
            }
            Some('?') => (p, t) = (p + 1, t + 1),
            Some(c) if *c == text[t] => (p, t) = (p + 1, t + 1),
            // Let the last star swallow one character more.
            _ => match star {
                Some(at) => {
                    resume += 1;
                    (p, t) = (at + 1, resume);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
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
    }
}
