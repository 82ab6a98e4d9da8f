//! After the end: gathering evidence, judging it, and writing the verdict into `run.json`.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use nilo_analysis::{
    EndingEvidence, judge_ending, with_failed_rank, with_lost_rank, written_ending,
};
use nilo_runfile::RunFolder;
use nilo_sample::{
    Ending, Event, ProcessId, Recording, RunDescription, RunMode, Subject, TableSpec,
};
use nilo_source::{MemoryCgroup, Roots, has_machine_pids, kernel_log, process_id};

const SIGKILL: i32 = 9;

/// Judges the end of a run that we recorded to the end, and writes it down.
pub(crate) fn conclude(
    folder: &RunFolder,
    description: RunDescription,
    mut aftermath: EndingEvidence,
) -> Ending {
    let mut recording = folder
        .load_where(&needed)
        .unwrap_or_else(|_| Recording::empty(description.clone()));
    recording.description = description;
    if suspicious(&recording, &aftermath) {
        read_kernel_log(&mut aftermath, &recording.description);
    }
    let ending = judge_ending(&recording, &aftermath);
    let mut description = recording.description;
    description.ending = Some(ending.clone());
    folder.write_description(&description).ok();
    ending
}

/// The ending of any run: the one written down, or a verdict from the files and from what this machine still knows.
pub fn after_the_fact(recording: &Recording) -> Ending {
    let is_same_boot = same_boot(&recording.description);
    let is_gone = |id: &ProcessId| {
        let now = process_id(&Roots::default(), id.pid);
        !is_same_boot || now.ok() != Some(*id)
    };
    with_lost_rank(recording, ending_by_its_processes(recording), &is_gone)
}

fn ending_by_its_processes(recording: &Recording) -> Ending {
    let description = &recording.description;
    if let Some(ending) = written_ending(recording) {
        return ending;
    }
    if recorder_is_alive(description) {
        let mut aftermath = EndingEvidence {
            recorder_alive: true,
            ..EndingEvidence::default()
        };
        let ending = judge_ending(recording, &aftermath);
        if ending.oom.is_none() {
            return ending;
        }
        read_kernel_log(&mut aftermath, description);
        return judge_ending(recording, &aftermath);
    }
    with_failed_rank(recording, judge_lost(recording))
}

/// The end of a run whose recorder is gone without a word.
pub(crate) fn judge_lost(recording: &Recording) -> Ending {
    let description = &recording.description;
    let (exit_code, signal) = recorded_end(recording).unwrap_or_default();
    let ended_nanos = ended_in_job(recording);
    let gone = ended_nanos.is_some() || came_and_went_in_job(recording);
    let mut aftermath = EndingEvidence {
        exit_code,
        signal,
        gone,
        time_nanos: ended_nanos,
        recorder_died: recorder_died(recording),
        ..EndingEvidence::default()
    };
    if same_boot(description) {
        // Of a run inside a job, what the job's recorder counted in its time is all: later kills are those of others.
        if !gone {
            aftermath.counters = counters_now(recording);
        }
        read_kernel_log(&mut aftermath, description);
        if aftermath.recorder_died {
            aftermath.left_running = still_running(recording);
        }
    }
    judge_ending(recording, &aftermath)
}

/// When the last process of a run inside a job ended, as the job's recorder saw it.
fn ended_in_job(recording: &Recording) -> Option<u64> {
    recording.description.parent.as_ref()?;
    let mut alive = BTreeSet::new();
    let mut last_end = None;
    for timed in &recording.events {
        match timed.event {
            Event::ProcessStarted { id, .. } => drop(alive.insert(id)),
            Event::ProcessEnded { id, .. } => {
                alive.remove(&id);
                last_end = last_end.max(Some(timed.time_nanos));
            }
            _ => {}
        }
    }
    last_end.filter(|_| alive.is_empty())
}

/// Whether the processes of a run inside a job ended before the job's recorder, which lived to the job's end, had seen any of them.
fn came_and_went_in_job(recording: &Recording) -> bool {
    let is_start = |event: &Event| matches!(event, Event::ProcessStarted { .. });
    let was_seen = recording.events.iter().any(|timed| is_start(&timed.event));
    recording.description.parent.is_some() && !recording.is_job_open && !was_seen
}

/// The status of the command, or of the process that began a run inside a job, where the recorder wrote it into the run file.
fn recorded_end(recording: &Recording) -> Option<(Option<i32>, Option<i32>)> {
    let description = &recording.description;
    let is_first = |id: ProcessId| {
        let first = (description.recorder_pid, description.recorder_start_ticks);
        description.parent.is_some() && (id.pid, id.start_ticks) == first
    };
    recording
        .events
        .iter()
        .rev()
        .find_map(|timed| match timed.event {
            // Recorders inside the job, of which there may be several in turn, do not know.
            Event::CommandEnded {
                exit_code, signal, ..
            } if exit_code.or(signal).is_some() => Some((exit_code, signal)),
            // The recorder waited for it: it was the command, or its parent had gone.
            Event::ProcessEnded {
                id,
                exit_code,
                signal,
                ..
            } if is_first(id) && exit_code.or(signal).is_some() => Some((exit_code, signal)),
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
pub(crate) fn needed(spec: &TableSpec) -> bool {
    matches!(
        spec.subject,
        Subject::Tree | Subject::Host | Subject::Cgroup { .. }
    )
}

/// The kernel's log is read only when somebody may have been killed: it can be long.
fn suspicious(recording: &Recording, aftermath: &EndingEvidence) -> bool {
    let killed = aftermath.signal == Some(SIGKILL) || aftermath.exit_code == Some(128 + SIGKILL);
    killed || judge_ending(recording, aftermath).oom.is_some()
}

fn read_kernel_log(aftermath: &mut EndingEvidence, description: &RunDescription) {
    let victims = logged_victims(description);
    aftermath.has_kernel_log = victims.is_some();
    aftermath.has_log_of_our_pids = victims.is_some() && has_machine_pids(&Roots::default());
    aftermath.logged_victims = victims.unwrap_or_default();
}

/// The victims that the kernel's log names since the run began; nothing where it cannot be read.
fn logged_victims(description: &RunDescription) -> Option<Vec<(u32, Option<String>)>> {
    let records = kernel_log::oom_kills_since(description.started_monotonic_nanos).ok()?;
    let victims = records
        .into_iter()
        .map(|record| (record.pid, record.oom_memcg));
    Some(victims.collect())
}

/// Whether a recorder that is gone left without a word: it writes the end of the command even where nothing else can be stored.
fn recorder_died(recording: &Recording) -> bool {
    let recorded = matches!(recording.description.mode, RunMode::Run | RunMode::Watch);
    // What could not be stored may have been the end.
    recorded && recording.dropped_rows == 0 && recorded_end(recording).is_none()
}

/// The processes of the tree that were last seen alive and still are.
fn still_running(recording: &Recording) -> Vec<u32> {
    let mut alive = BTreeSet::new();
    for timed in &recording.events {
        match timed.event {
            Event::ProcessStarted { id, .. } => drop(alive.insert(id)),
            Event::ProcessEnded { id, .. } => drop(alive.remove(&id)),
            _ => {}
        }
    }
    let runs = |id: &ProcessId| {
        process_id(&Roots::default(), id.pid).is_ok_and(|now| now.start_ticks == id.start_ticks)
    };
    alive
        .iter()
        .filter(|id| runs(id))
        .map(|id| id.pid)
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

#[cfg(test)]
mod tests {
    use nilo_sample::{RunId, RunStatus, fixture};

    use super::*;

    #[test]
    fn a_run_that_came_and_went_between_two_samples_of_its_job_has_ended() {
        let mut unseen = fixture::recording();
        unseen.description.parent = Some(RunId::new(0, "job"));
        unseen.is_job_open = true;
        let status = |recording: &Recording| after_the_fact(recording).status;
        assert_eq!(status(&unseen), RunStatus::Lost, "nobody saw the job's end");
        unseen.is_job_open = false;
        assert_eq!(status(&unseen), RunStatus::Ended);
        unseen.description.parent = None;
        assert_eq!(status(&unseen), RunStatus::Lost, "nobody recorded it");
    }
}
