//! The limit that ran out when the kernel killed: the one that the evidence names, which need not be the one that the job was held against.
//!
//! The kernel's log names the cgroup, or that it was the machine. A counter names the victim's cgroup, and the limit may be an ancestor's.

use nilo_sample::limit::is_cgroup_within;
use nilo_sample::{Event, Limit, LimitSource, Recording, Subject};

use crate::ending::limit_in_force;
use crate::limit_use::most_marked_bytes;

/// A cgroup whose kernel says that so much of its limit was charged has run out; what the machine's lack of memory killed counts in its cgroup as well.
const FULL: f64 = 0.9;

/// Where the kernel's log says that memory ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoggedPlace<'a> {
    Machine,
    Cgroup(&'a str),
}

/// The limit that ran out, by what the log names and by the cgroups that a kill was counted in, the deepest first.
pub(crate) fn exhausted_limit<'a>(
    recording: &Recording,
    logged: Option<LoggedPlace<'_>>,
    counted: impl IntoIterator<Item = &'a str>,
) -> Option<Limit> {
    // A limit of addresses makes allocations fail, and kills nobody.
    let in_force = limit_in_force(recording).filter(Limit::is_of_memory);
    let named = match logged {
        Some(LoggedPlace::Machine) => return machine_limit(recording).or(in_force),
        Some(LoggedPlace::Cgroup(path)) => cgroup_limit(recording, path),
        None => None,
    };
    let of_count = || {
        let mut counted = counted.into_iter();
        counted.find_map(|path| full_limit_around(recording, path, in_force.as_ref()))
    };
    named.or_else(of_count).or_else(|| in_force.clone())
}

/// The limit of the machine.
fn machine_limit(recording: &Recording) -> Option<Limit> {
    let total = recording.table(&Subject::Host)?.series("total_bytes")?;
    Some(Limit {
        bytes: total.last()? as u64,
        source: LimitSource::Host,
    })
}

/// The limit in force where it is one of a cgroup or of one around it, or else the smallest of those that were full.
fn full_limit_around(
    recording: &Recording,
    counted: &str,
    in_force: Option<&Limit>,
) -> Option<Limit> {
    let is_around = |path: &str| is_cgroup_within(counted, path);
    if let Some(limit) = in_force
        && matches!(&limit.source, LimitSource::Cgroup { path, .. } if is_around(path))
    {
        return Some(limit.clone());
    }
    let around = recording.tables.iter().filter_map(|table| {
        let Subject::Cgroup { path } = &table.spec.subject else {
            return None;
        };
        let limit = cgroup_limit(recording, path).filter(|_| is_around(path))?;
        let marked = most_marked_bytes(table).unwrap_or(0.0);
        let is_full = marked >= FULL * limit.bytes as f64 || was_announced(recording, path);
        is_full.then_some(limit)
    });
    around.min_by_key(|limit| limit.bytes)
}

/// The limit that a cgroup had last.
fn cgroup_limit(recording: &Recording, path: &str) -> Option<Limit> {
    let path = path.to_owned();
    let table = recording.table(&Subject::Cgroup { path: path.clone() })?;
    // Only version 2 counts how often a limit was hit.
    let version = match table.series("limit_hits").and_then(|hits| hits.last()) {
        Some(_) => 2,
        None => 1,
    };
    Some(Limit {
        bytes: table.series("limit_bytes")?.last()? as u64,
        source: LimitSource::Cgroup { path, version },
    })
}

fn was_announced(recording: &Recording, path: &str) -> bool {
    let is_notice =
        |event: &Event| matches!(event, Event::OomNotice { cgroup } if cgroup.as_str() == path);
    recording.events.iter().any(|timed| is_notice(&timed.event))
}
