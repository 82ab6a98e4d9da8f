//! After the end: gathering evidence, judging it, and writing the verdict into `run.json`.

use std::path::{Component, Path};

use nilo_analysis::{Aftermath, judge_ending};
use nilo_runfile::RunFolder;
use nilo_sample::{Ending, Event, Recording, RunDescription, Subject, TableSpec};
use nilo_source::{MemoryCgroup, Roots, kernel_log, process_id};

const SIGKILL: i32 = 9;

/// Judges the end of a run that we recorded to the end, and writes it down.
pub(crate) fn conclude(
    folder: &RunFolder,
    description: RunDescription,
    mut aftermath: Aftermath,
) -> Ending {
    let mut recording = folder
        .load_where(&needed)
        .unwrap_or_else(|_| empty(description.clone()));
    recording.description = description;
    if suspicious(&recording, &aftermath) {
        aftermath.logged_victims = logged_victims(&recording.description);
    }
    let ending = judge_ending(&recording, &aftermath);
    let mut description = recording.description;
    description.ending = Some(ending.clone());
    folder.write_description(&description).ok();
    ending
}

/// The ending of any run: the one written down, or a verdict from the files and from what this machine still knows.
pub fn after_the_fact(recording: &Recording) -> Ending {
    let description = &recording.description;
    if let Some(ending) = &description.ending {
        return ending.clone();
    }
    if recorder_is_alive(description) {
        let aftermath = Aftermath {
            recorder_alive: true,
            ..Aftermath::default()
        };
        return judge_ending(recording, &aftermath);
    }
    let (exit_code, signal) = recorded_end(recording).unwrap_or_default();
    let mut aftermath = Aftermath {
        exit_code,
        signal,
        ..Aftermath::default()
    };
    if same_boot(description) {
        aftermath.counters = counters_now(recording);
        aftermath.logged_victims = logged_victims(description);
    }
    judge_ending(recording, &aftermath)
}

/// The command's status, where the recorder still wrote it into the run file.
fn recorded_end(recording: &Recording) -> Option<(Option<i32>, Option<i32>)> {
    recording
        .events
        .iter()
        .rev()
        .find_map(|timed| match timed.event {
            Event::CommandEnded {
                exit_code, signal, ..
            } => Some((exit_code, signal)),
            _ => None,
        })
}

/// Whether the process that records this run still lives, on this machine and since this boot.
pub fn recorder_is_alive(description: &RunDescription) -> bool {
    same_boot(description)
        && process_id(&Roots::default(), description.recorder_pid)
            .is_ok_and(|id| id.start_ticks == description.recorder_start_ticks)
}

fn same_boot(description: &RunDescription) -> bool {
    !description.boot_id.is_empty() && description.boot_id == nilo_runfile::boot_id()
}

/// The tables that a verdict rests on.
fn needed(spec: &TableSpec) -> bool {
    matches!(
        spec.subject,
        Subject::Tree | Subject::Host | Subject::Cgroup { .. }
    )
}

fn empty(description: RunDescription) -> Recording {
    Recording {
        description,
        tables: vec![],
        events: vec![],
        dropped_rows: 0,
        dropped_program_rows: 0,
        damage: vec![],
    }
}

/// The kernel's log is read only when somebody may have been killed: it can be long.
fn suspicious(recording: &Recording, aftermath: &Aftermath) -> bool {
    let killed = aftermath.signal == Some(SIGKILL) || aftermath.exit_code == Some(128 + SIGKILL);
    killed || judge_ending(recording, aftermath).oom.is_some()
}

fn logged_victims(description: &RunDescription) -> Vec<(u32, Option<String>)> {
    let records =
        kernel_log::oom_kills_since(description.started_monotonic_nanos).unwrap_or_default();
    records
        .into_iter()
        .map(|record| (record.pid, record.oom_memcg))
        .collect()
}

/// The counters of the recorded cgroups, where these still exist.
fn counters_now(recording: &Recording) -> Vec<(String, u64)> {
    let paths = recording
        .tables
        .iter()
        .filter_map(|table| match &table.spec.subject {
            Subject::Cgroup { path } => Some(path),
            _ => None,
        });
    paths
        .filter_map(|path| Some((path.clone(), find_cgroup(path)?.read(false).oom_kills?)))
        .collect()
}

/// A cgroup by the path that a run file gives, which nobody vouches for: it may not lead out of the mount.
fn find_cgroup(path: &str) -> Option<MemoryCgroup> {
    let relative = Path::new(path.trim_start_matches('/'));
    if relative
        .components()
        .any(|part| !matches!(part, Component::Normal(_)))
    {
        return None;
    }
    let mount = Roots::default().cgroup;
    [("memory", 1), ("", 2), ("unified", 2)]
        .into_iter()
        .find_map(|(hierarchy, version)| {
            MemoryCgroup::at(&mount.join(hierarchy).join(relative), path, version).ok()
        })
}
