//! How a run ended, from evidence: wait status, the kernel's OOM counters, the kernel's log, the last level against the limit.
//!
//! The exit status 137 alone proves nothing: `scancel`, a time limit and a person send the same signal.
//! The same rules serve the recorder at the end of the command and a later reader who has only the files.

use nilo_sample::limit::is_cgroup_within;
use nilo_sample::{
    Certainty, Ending, Event, Limit, LimitSource, OomKill, RecordedTable, RecorderDeath, Recording,
    RunStatus, Subject, TimedEvent,
};

use crate::exhausted_limit::{LoggedPlace, exhausted_limit};
use crate::gpu_ending::with_gpu_failure;
use crate::owned_cgroup::is_owned;

const SIGKILL: i32 = 9;

/// Above this share of the limit an unseen end is most likely an OOM kill.
///
/// The kernel kills when reclaim finds nothing more; jobs killed at a limit were last sampled at 95 % and above.
pub(crate) const NEAR_LIMIT: f64 = 0.95;

/// A kill and an end further apart than this are two things.
const SAME_MOMENT_NANOS: u64 = 1_500_000_000;

/// The end of a victim is seen within this time of the kernel's count.
const AROUND_KILL_NANOS: u64 = 2_500_000_000;

/// What is known beyond the recording itself.
#[derive(Debug, Clone, Default)]
pub struct EndingEvidence {
    /// The recorder still works on this run.
    pub recorder_alive: bool,
    /// Exit code of the command, if somebody waited for it.
    pub exit_code: Option<i32>,
    /// Signal that ended it, likewise.
    pub signal: Option<i32>,
    /// Watching was ended by the user or by `--duration`.
    pub detached: bool,
    /// Every watched process ended by itself, with a status that only its parent knows.
    pub gone: bool,
    /// When it ended, in nanoseconds since the run began.
    pub time_nanos: Option<u64>,
    /// The OOM-kill counter of each watched cgroup as it reads after the end.
    pub counters: Vec<(String, u64)>,
    /// Victims that the kernel's log names: PID and the cgroup that ran out (`None`: the whole machine).
    pub logged_victims: Vec<(u32, Option<String>)>,
    /// Whether the kernel's log could be read.
    pub has_kernel_log: bool,
    /// Whether PIDs in that log are those that the recording has: outside of containers.
    pub has_log_of_our_pids: bool,
    /// Processes that went on.
    pub left_running: Vec<u32>,
    /// The recorder died before the run was over.
    pub recorder_died: bool,
}

/// Says how the run ended.
pub fn judge_ending(recording: &Recording, aftermath: &EndingEvidence) -> Ending {
    let time_nanos = aftermath
        .time_nanos
        .unwrap_or_else(|| recording.last_time_nanos());
    let oom = find_oom(recording, aftermath);
    let status = match (&oom, aftermath.exit_code, aftermath.signal) {
        _ if aftermath.recorder_alive => RunStatus::Running,
        (Some(oom), _, _) if oom.certainty >= Certainty::Likely => RunStatus::OomKilled,
        (_, Some(_), _) => RunStatus::Exited,
        (_, _, Some(_)) => RunStatus::Killed,
        _ if aftermath.detached => RunStatus::Detached,
        _ if aftermath.gone => RunStatus::Ended,
        _ => RunStatus::Lost,
    };
    let ending = Ending {
        status,
        exit_code: aftermath.exit_code,
        signal: aftermath.signal,
        time_nanos,
        oom,
        left_running: aftermath.left_running.clone(),
        lost_rank: None,
        gpu_out_of_memory: None,
        recorder_death: aftermath.recorder_died.then(|| RecorderDeath {
            pid: recording.description.recorder_pid,
            recorded_until_nanos: recording.last_time_nanos(),
            oom_killed: aftermath
                .has_kernel_log
                .then(|| log_names_recorder(recording, aftermath)),
        }),
    };
    with_gpu_failure(recording, ending)
}

fn log_names_recorder(recording: &Recording, aftermath: &EndingEvidence) -> bool {
    let recorder = recording.description.recorder_pid;
    let mut victims = aftermath.logged_victims.iter();
    victims.any(|(pid, _)| *pid == recorder)
}

/// A cgroup table with what its counter says.
struct CgroupKills<'a> {
    path: &'a str,
    kills: u64,
    owned: bool,
}

fn find_oom(recording: &Recording, aftermath: &EndingEvidence) -> Option<OomKill> {
    let cgroups = counted_cgroups(recording, aftermath);
    let mut evidence = Vec::new();
    let mut certainty = None;

    let named = logged_victim(recording, aftermath, &mut evidence);
    if named.is_some() {
        certainty = Some(Certainty::Certain);
    }
    // The kernel chose the recorder: nothing says that the job was killed too.
    if aftermath.recorder_died && named.is_none() && log_names_recorder(recording, aftermath) {
        return None;
    }
    let killed = aftermath.signal == Some(SIGKILL) || aftermath.exit_code == Some(128 + SIGKILL);
    let unwaited = aftermath.exit_code.is_none() && aftermath.signal.is_none();
    let vanished = unwaited && !aftermath.detached && !aftermath.recorder_alive;
    let mut roots = recording.description.root_pids.iter();
    let goes_on = roots.any(|pid| aftermath.left_running.contains(pid));
    let unseen = vanished && !aftermath.gone && !goes_on;
    let is_nobody = !killed && !vanished && nobody_ended_with_a_kill(recording);
    let mut are_others = false;
    for cgroup in cgroups.iter().filter(|cgroup| cgroup.kills > 0) {
        let of_others = named.is_none() && log_has_all_kills(cgroup, aftermath);
        if !cgroup.owned && (of_others || is_nobody) {
            are_others = true;
            continue;
        }
        let times = if cgroup.kills == 1 {
            "once".to_owned()
        } else {
            format!("{} times", cgroup.kills)
        };
        evidence.push(format!(
            "the kernel counted an OOM kill {times} in cgroup {}",
            cgroup.path
        ));
        // In a shared cgroup somebody else may have been the victim: the log may say so, or the times.
        let somebody_else = named.is_none() && !aftermath.logged_victims.is_empty();
        let long_before = counter_rise(recording).is_some_and(|rise| {
            aftermath
                .time_nanos
                .is_some_and(|end| end.saturating_sub(rise) > SAME_MOMENT_NANOS)
        });
        // The cgroup of a run inside a job holds other runs as well.
        let other_run = recording.description.parent.is_some() && long_before;
        let rung = match (cgroup.owned, killed || vanished) {
            // The victim may have been the recorder itself.
            _ if unwaited && goes_on => Certainty::Possible,
            (true, _) if !somebody_else && !other_run => Certainty::Certain,
            (_, true) if !somebody_else && !long_before => Certainty::Likely,
            _ => Certainty::Possible,
        };
        if !cgroup.owned {
            evidence.push(format!("cgroup {} holds other processes too", cgroup.path));
        }
        certainty = certainty.max(Some(rung));
    }
    // The machine counts a neighbour's kill, too.
    if are_others {
        certainty?;
    }
    // A kill is counted in the victim's own cgroup, whoever ran out: where that is read, the machine's count is of others.
    if certainty.is_none() && killed && cgroups.is_empty() && host_kills_at_the_end(recording) > 0 {
        evidence
            .push("the machine's OOM-kill counter rose while the command was killed".to_owned());
        certainty = Some(Certainty::Likely);
    }
    if certainty.is_none() && (killed || unseen) && !aftermath.recorder_alive {
        certainty = near_the_end(recording, limit_in_force(recording).as_ref(), &mut evidence);
    }

    let certainty = certainty?;
    let victim = named.or_else(|| presumed_victim(recording));
    let counted = cgroups.iter().filter(|cgroup| cgroup.kills > 0);
    let place = named.and_then(|pid| logged_place(aftermath, pid));
    Some(OomKill {
        certainty,
        limit: exhausted_limit(recording, place, counted.map(|cgroup| cgroup.path)),
        time_nanos: time_of_kill(recording, aftermath),
        victim_name: victim.and_then(|pid| name_of(recording, pid)),
        victim_pid: victim,
        kills: cgroups.iter().map(|cgroup| cgroup.kills).max().unwrap_or(0),
        evidence,
    })
}

/// Whether the kernel's log names as many victims of a cgroup as were counted there; where none of them is ours, nothing of this job was killed.
fn log_has_all_kills(cgroup: &CgroupKills<'_>, aftermath: &EndingEvidence) -> bool {
    let is_near =
        |path: &str| is_cgroup_within(path, cgroup.path) || is_cgroup_within(cgroup.path, path);
    let victims = aftermath.logged_victims.iter();
    let victims = victims.filter(|(_, place)| place.as_deref().is_none_or(is_near));
    aftermath.has_log_of_our_pids && victims.count() as u64 >= cgroup.kills
}

/// Whether no process of the tree ended around a kill in a way that may have been one: those that did are known to have ended otherwise.
fn nobody_ended_with_a_kill(recording: &Recording) -> bool {
    let kills: Vec<u64> = counter_rises(recording).collect();
    // An end is seen with the sample after it.
    let seen_within = AROUND_KILL_NANOS.max(2 * recording.description.interval_nanos);
    let may_be_killed = |timed: &TimedEvent| match timed.event {
        Event::ProcessEnded {
            exit_code, signal, ..
        } => {
            let is_other = match (exit_code, signal) {
                (Some(code), _) => code != 128 + SIGKILL,
                (None, Some(signal)) => signal != SIGKILL,
                (None, None) => false,
            };
            let mut kills = kills.iter();
            !is_other && kills.any(|kill| timed.time_nanos.abs_diff(*kill) < seen_within)
        }
        _ => false,
    };
    !kills.is_empty() && !recording.events.iter().any(may_be_killed)
}

fn counted_cgroups<'a>(
    recording: &'a Recording,
    aftermath: &EndingEvidence,
) -> Vec<CgroupKills<'a>> {
    let mut counted = Vec::new();
    for table in &recording.tables {
        let Subject::Cgroup { path } = &table.spec.subject else {
            continue;
        };
        let Some(series) = table.series("oom_kills") else {
            continue;
        };
        let first = series.present().next().map(|(_, value)| value as u64);
        let later = aftermath
            .counters
            .iter()
            .find(|(name, _)| name == path)
            .map(|(_, now)| *now);
        let last = later.max(series.last().map(|value| value as u64));
        let kills = last
            .zip(first)
            .map_or(0, |(last, first)| last.saturating_sub(first));
        let owned = is_owned(table);
        counted.push(CgroupKills { path, kills, owned });
    }
    // The job's own cgroup lies deeper than the ancestor that holds the limit.
    counted.sort_by_key(|cgroup| std::cmp::Reverse(cgroup.path.len()));
    counted
}

/// The limit by the last word of the recording.
pub fn limit_in_force(recording: &Recording) -> Option<Limit> {
    let changed = recording
        .events
        .iter()
        .rev()
        .find_map(|timed| match &timed.event {
            Event::LimitChanged { limit } => Some(limit.clone()),
            _ => None,
        });
    changed.unwrap_or_else(|| recording.description.limit.clone())
}

fn logged_victim(
    recording: &Recording,
    aftermath: &EndingEvidence,
    evidence: &mut Vec<String>,
) -> Option<u32> {
    let ours = |pid: u32| {
        recording.description.root_pids.contains(&pid) || name_of(recording, pid).is_some()
    };
    let (pid, cgroup) = aftermath
        .logged_victims
        .iter()
        .find(|(pid, _)| ours(*pid))?;
    let place = cgroup
        .as_deref()
        .map_or("the machine".to_owned(), |path| format!("cgroup {path}"));
    evidence.push(format!(
        "the kernel's log names PID {pid} as the victim when {place} ran out"
    ));
    Some(*pid)
}

/// Where memory ran out when the kernel killed this process, by its log.
fn logged_place(aftermath: &EndingEvidence, pid: u32) -> Option<LoggedPlace<'_>> {
    let mut victims = aftermath.logged_victims.iter();
    let (_, place) = victims.find(|(victim, _)| *victim == pid)?;
    Some(match place {
        Some(path) => LoggedPlace::Cgroup(path),
        None => LoggedPlace::Machine,
    })
}

/// OOM kills on this machine around the end of the recording.
fn host_kills_at_the_end(recording: &Recording) -> u64 {
    let table = recording.table(&Subject::Host);
    let Some(counter) = table.and_then(|table| table.series("oom_kills")) else {
        return 0;
    };
    let before_the_end = recording
        .last_time_nanos()
        .saturating_sub(SAME_MOMENT_NANOS);
    let mut points = counter.present();
    let Some((_, first)) = points.next() else {
        return 0;
    };
    let earlier = points.take_while(|(time_nanos, _)| *time_nanos <= before_the_end);
    let before = earlier.last().map_or(first, |(_, value)| value);
    counter.last().map_or(0, |last| (last - before) as u64)
}

/// Nobody counted the kill: the notice before it, or a level at the limit, must do.
fn near_the_end(
    recording: &Recording,
    limit: Option<&Limit>,
    evidence: &mut Vec<String>,
) -> Option<Certainty> {
    let end = recording.last_time_nanos();
    let notice = recording
        .events
        .iter()
        .rev()
        .find_map(|timed| match &timed.event {
            Event::OomNotice { cgroup } if end - timed.time_nanos < 2_000_000_000 => Some(cgroup),
            _ => None,
        });
    if let Some(cgroup) = notice {
        evidence.push(format!(
            "the kernel announced an OOM in cgroup {cgroup} just before the record ends"
        ));
        return Some(Certainty::Likely);
    }
    // A limit of addresses makes allocations fail, and kills nobody.
    let limit = limit.filter(|limit| limit.is_of_memory())?;
    let used = match &limit.source {
        LimitSource::Cgroup { path, .. } => recording
            .table(&Subject::Cgroup { path: path.clone() })
            .and_then(|table| recent_max(table, "working_set_bytes", end)),
        LimitSource::Host => recording
            .table(&Subject::Host)
            .and_then(|table| Some(limit.bytes as f64 - table.series("available_bytes")?.last()?)),
        LimitSource::Rlimit { .. } => None,
    };
    let tree = recording
        .table(&Subject::Tree)
        .into_iter()
        .flat_map(|table| {
            ["memory_bytes", "high_water_bytes"].map(|column| recent_max(table, column, end))
        });
    let used = used.into_iter().chain(tree.flatten()).reduce(f64::max)?;
    let share = used / limit.bytes as f64;
    if share < NEAR_LIMIT {
        return None;
    }
    evidence.push(format!(
        "the last level was {:.0} % of the limit ({}) and nothing was recorded after it",
        100.0 * share.min(1.0),
        limit.source
    ));
    Some(Certainty::Likely)
}

/// The largest value within the last second before `end`.
fn recent_max(table: &RecordedTable, column: &str, end: u64) -> Option<f64> {
    let from = end.saturating_sub(1_000_000_000);
    let series = table.series(column)?;
    let recent = series
        .present()
        .filter(|(time, _)| *time >= from)
        .map(|(_, value)| value);
    recent.reduce(f64::max)
}

/// Without the kernel's log: the process that left the tree by SIGKILL, or else the largest that left around the kill.
fn presumed_victim(recording: &Recording) -> Option<u32> {
    let kill = counter_rise(recording)?;
    let mut best: Option<(bool, u64, u32)> = None;
    for timed in &recording.events {
        let Event::ProcessEnded {
            id,
            signal,
            peak_rss_bytes,
            ..
        } = &timed.event
        else {
            continue;
        };
        let near = timed.time_nanos.abs_diff(kill) < AROUND_KILL_NANOS;
        if !near || signal.is_some_and(|signal| signal != SIGKILL) {
            continue;
        }
        let candidate = (signal.is_some(), peak_rss_bytes.unwrap_or(0), id.pid);
        best = best.max(Some(candidate));
    }
    best.map(|(_, _, pid)| pid)
}

/// When a cgroup's counter was first seen risen.
fn counter_rise(recording: &Recording) -> Option<u64> {
    counter_rises(recording).next()
}

fn counter_rises(recording: &Recording) -> impl Iterator<Item = u64> {
    let events = recording.events.iter();
    events.filter_map(|timed| match timed.event {
        Event::OomKill { .. } | Event::OomNotice { .. } => Some(timed.time_nanos),
        _ => None,
    })
}

fn time_of_kill(recording: &Recording, aftermath: &EndingEvidence) -> Option<u64> {
    counter_rise(recording)
        .or(aftermath.time_nanos)
        // A recorder that died saw no more than that the kill came later.
        .or_else(|| (!aftermath.recorder_died).then(|| recording.last_time_nanos()))
}

/// The name of a process of the tree.
pub fn name_of(recording: &Recording, pid: u32) -> Option<String> {
    recording
        .events
        .iter()
        .rev()
        .find_map(|timed| match &timed.event {
            Event::ProcessStarted { id, info } | Event::ProcessRenamed { id, info }
                if id.pid == pid =>
            {
                Some(info.name.clone())
            }
            _ => None,
        })
}

#[cfg(test)]
#[path = "ending_tests.rs"]
mod tests;
