//! What is held grows and does not stop: how fast, since when, and in which processes.

use std::collections::BTreeMap;
use std::fmt;

use nilo_sample::units::{NANOS_PER_SEC, format_bytes, format_duration};
use nilo_sample::words::rate_in_words;
use nilo_sample::{RecordedTable, Recording, Severity, Subject};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Finding, FindingKind, phase_share};
use crate::process_programs::ProcessPrograms;
use crate::step_clock::StepClock;
use crate::tracking::{GrowingPeer, Resource, ResourceVerdict};
use nilo_forecast::words::{growth_until_the_end, paused_growth_in_words};
use nilo_forecast::{Growth, GrowthKind};

pub(super) fn find(recording: &Recording, verdicts: &[ResourceVerdict]) -> Vec<Finding> {
    let grown = verdicts.iter().filter_map(|verdict| match &verdict.growth {
        Some(growth) => Some(describe(recording, verdict, growth)),
        None => describe_paused(verdict),
    });
    grown.collect()
}

fn describe_paused(verdict: &ResourceVerdict) -> Option<Finding> {
    let paused = verdict.paused_growth.as_ref()?;
    Some(Finding {
        kind: FindingKind::Growth,
        severity: Severity::Info,
        text: format!("{} {}", verdict.resource, paused_growth_in_words(paused)),
        evidence: Vec::new(),
        advice: Vec::new(),
    })
}

const STEPS_HINT: &str = "look for objects retained across steps: losses with their graph, lists of outputs, unbounded caches";
const TMPFS_HINT: &str = "files in /dev/shm and other tmpfs are memory and count against its limit: delete them when they are no longer needed, or write them to disk";

/// Growth is told by the step where steps begin in the first of so many parts of it.
const LOADED_PART: u64 = 10;

fn describe(recording: &Recording, verdict: &ResourceVerdict, growth: &Growth) -> Finding {
    let resource = &verdict.resource;
    let end = verdict.reading.time_nanos;
    let lasted = (growth.began_secs_ago() * NANOS_PER_SEC as f64) as u64;
    let since = end.saturating_sub(lasted);
    let [rate, rate_between] = [
        (growth.bytes_per_sec, growth.bytes_per_sec),
        (growth.bytes_per_sec_low, growth.bytes_per_sec_high),
    ]
    .map(|(low, high)| rate_in_words(growth.bytes_per_sec, low, high));
    let steps = StepClock::of(recording);
    // When growth began is known to about a hundredth of the run.
    let at = |time: u64| match steps.step(time) {
        _ if time < (end / 100).max(2 * NANOS_PER_SEC) => "the start".to_owned(),
        Some(step) if steps.begin_by(time) => format!("step {step} ({})", format_duration(time)),
        _ => format_duration(time),
    };
    let holders = MemoryHolder::list(&leak_holders(recording, verdict));
    let place = match (verdict.odd_peers.first(), holders.first()) {
        (Some(odd), _) => format!(", in {}", odd.who()),
        (None, Some(who)) => format!(", in {who}"),
        (None, None) => String::new(),
    };
    let holder_count = holders.len();
    let mut evidence = vec![format!(
        "memory held at the lowest point of each cycle rose by {} since {}, {rate_between}",
        format_bytes(growth.grown_bytes),
        at(since),
    )];
    // What grew while the program loaded did not grow from step to step.
    if let (Some(first), Some(last)) = (steps.step(since), steps.step(end))
        && last > first
        && steps.begin_by(since + lasted / LOADED_PART)
    {
        let per_step = growth.grown_bytes / (last - first) as f64;
        evidence.push(format!(
            "{} a step over {} steps",
            format_bytes(per_step),
            last - first
        ));
    }
    if growth.is_in_tmpfs {
        evidence.push("most of it lies in /dev/shm or another tmpfs".to_owned());
    }
    if verdict.grows_in_shared_mappings() {
        evidence.push("most of it is shared memory that processes map (no file)".to_owned());
    }
    evidence.extend(verdict.odd_peers.iter().map(GrowingPeer::to_string));
    evidence.extend(phase_share::largest(recording, resource, since, end));
    // One alone has been named already.
    evidence.extend(holders.into_iter().filter(|_| holder_count > 1));
    if verdict.led_to_end && verdict.may_be_loading {
        evidence.push(
            "in its first minute and its first 50 steps, it may have been loading more than fits"
                .to_owned(),
        );
    }
    let (kind, severity) = match (growth.kind, verdict.led_to_end) {
        (GrowthKind::Leak, _) => (FindingKind::Leak, Severity::Warning),
        (GrowthKind::Growth, true) => (FindingKind::Growth, Severity::Warning),
        (GrowthKind::Growth, false) => (FindingKind::Growth, Severity::Info),
    };
    let loading = verdict.loading_in_words();
    let loading = loading.map_or(String::new(), |text| format!("; {text}"));
    let text = match growth.kind {
        _ if verdict.led_to_end => format!("{resource} {}{place}", growth_until_the_end(growth)),
        GrowthKind::Leak => {
            format!(
                "{resource} leaks {rate} since {}{place}{loading}",
                at(since)
            )
        }
        GrowthKind::Growth => {
            format!("{resource} grows {rate}{place}; too early to call it a leak{loading}")
        }
    };
    let advice = match growth.kind {
        GrowthKind::Leak if verdict.grows_in_tmpfs() => vec![TMPFS_HINT.to_owned()],
        GrowthKind::Leak => vec![STEPS_HINT.to_owned()],
        GrowthKind::Growth => Vec::new(),
    };
    Finding {
        kind,
        severity,
        text,
        evidence,
        advice,
    }
}

/// A process counts as a holder from this share of the growth on.
const SHARE: f64 = 0.15;

/// Who holds a part of what has grown: a process, or several of one name.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct MemoryHolder {
    /// The name.
    pub name: String,
    /// Which processes.
    pub pids: Vec<u32>,
    /// By how much their resident memory grew together.
    pub grown_bytes: f64,
}

impl MemoryHolder {
    /// `train.py (PID 4711)`, or `2 processes train.py`.
    pub fn who(&self) -> String {
        match self.pids.as_slice() {
            [pid] => format!("{} (PID {pid})", self.name),
            pids => format!("{} processes {}", pids.len(), self.name),
        }
    }
}

impl MemoryHolder {
    /// Several with what each holds. One alone without: the growth itself is said elsewhere, and is not measured the same way.
    pub fn list(holders: &[MemoryHolder]) -> Vec<String> {
        match holders {
            [alone] => vec![alone.who()],
            several => several.iter().map(MemoryHolder::to_string).collect(),
        }
    }
}

impl fmt::Display for MemoryHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.who(), format_bytes(self.grown_bytes))
    }
}

/// Who holds the growth of a job's memory, the largest share first: processes of one name together.
pub fn leak_holders(recording: &Recording, verdict: &ResourceVerdict) -> Vec<MemoryHolder> {
    let Some(growth) = verdict
        .growth
        .as_ref()
        .filter(|_| verdict.resource == Resource::Job)
    else {
        return Vec::new();
    };
    let lasted = (growth.began_secs_ago() * NANOS_PER_SEC as f64) as u64;
    let since = verdict.reading.time_nanos.saturating_sub(lasted);
    let programs = ProcessPrograms::of(recording);
    let mut by_name: BTreeMap<&str, (f64, Vec<u32>)> = BTreeMap::new();
    for table in &recording.tables {
        let Subject::Process(id) = table.spec.subject else {
            continue;
        };
        let grown = rise_between(table, since, verdict.reading.time_nanos);
        if grown > 0.05 * growth.grown_bytes {
            // What it ran while it grew; it may have called `exec` since.
            let program = programs.at(id, verdict.reading.time_nanos);
            let name = program.map_or("a process", |program| program.name.as_str());
            let entry = by_name.entry(name).or_default();
            entry.0 += grown;
            entry.1.push(id.pid);
        }
    }
    let mut found: Vec<(&str, (f64, Vec<u32>))> = by_name.into_iter().collect();
    found.retain(|(_, (grown, _))| *grown >= SHARE * growth.grown_bytes);
    found.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
    let holders = found
        .into_iter()
        .map(|(name, (grown_bytes, pids))| MemoryHolder {
            name: name.to_owned(),
            pids,
            grown_bytes,
        });
    holders.collect()
}

/// How far a process's level rose from the first to the last quarter of that time, as far as it rose from beginning to end.
/// The middle of a quarter says more than its lowest level: what a program has at its very start is not what it grew from.
fn rise_between(table: &RecordedTable, since: u64, until: u64) -> f64 {
    let Some(series) = table.series("rss_bytes") else {
        return 0.0;
    };
    // What comes later is a job that ends.
    let levels = || series.present().take_while(|(time, _)| *time <= until);
    let Some((end, _)) = levels().last() else {
        return 0.0;
    };
    let quarter = end.saturating_sub(since) / 4;
    let from = end.saturating_sub(quarter);
    // Only changes are written: the level before reaches into a quarter.
    let middle = |from: u64, to: u64| {
        let before = levels().take_while(|(time, _)| *time <= from).last();
        let within = levels().filter(|(time, _)| *time > from && *time <= to);
        middle_level(
            before
                .into_iter()
                .chain(within)
                .map(|(time, level)| (time.max(from), level)),
            to,
        )
    };
    let before = levels().take_while(|(time, _)| *time < since).last();
    let within = levels().filter(|(time, _)| *time >= since);
    let held: Vec<f64> = before.into_iter().chain(within).map(|it| it.1).collect();
    let most = held.iter().copied().fold(0.0, f64::max);
    let most = most - held.iter().copied().fold(most, f64::min);
    match (middle(since, since + quarter), middle(from, end)) {
        // Three quarters of a steady rise lie between the middles of its first and last quarter.
        (Some(first), Some(last)) => ((last - first) / 0.75).min(most).max(0.0),
        _ => 0.0,
    }
}

/// The level that was exceeded for half of the time.
fn middle_level(levels: impl Iterator<Item = (u64, f64)>, end: u64) -> Option<f64> {
    let points: Vec<(u64, f64)> = levels.collect();
    let ends = points.iter().skip(1).map(|point| point.0).chain([end]);
    let mut lasting: Vec<(f64, u64)> = points
        .iter()
        .zip(ends)
        .map(|(point, until)| (point.1, until.saturating_sub(point.0).max(1)))
        .collect();
    lasting.sort_by(|one, other| one.0.total_cmp(&other.0));
    let half = lasting.iter().map(|part| part.1).sum::<u64>() / 2;
    let mut passed = 0;
    lasting.iter().find_map(|(level, lasted)| {
        passed += lasted;
        (passed > half).then_some(*level)
    })
}
