//! The processes of a run inside a job: those that wrote to it and everything that they started, as the job's recorder saw them.

use std::collections::{BTreeMap, HashMap};

use nilo_sample::{Event, ProcessId, Recording};

/// When the recorder first saw a process, and when it saw that the process had ended.
#[derive(Debug, Clone, Copy)]
struct ProcessLifetime {
    started_nanos: u64,
    ended_nanos: Option<u64>,
}

/// The processes of a run, on the job's axis.
#[derive(Debug)]
pub(crate) struct RunProcesses<'a> {
    writers: &'a [ProcessId],
    lives: BTreeMap<ProcessId, ProcessLifetime>,
}

impl<'a> RunProcesses<'a> {
    pub(crate) fn find(job: &Recording, writers: &'a [ProcessId]) -> RunProcesses<'a> {
        let mut lives: BTreeMap<ProcessId, ProcessLifetime> = BTreeMap::new();
        // Who has a PID at the time; processes start after their parents.
        let mut holders: HashMap<u32, ProcessId> = HashMap::new();
        for timed in &job.events {
            match &timed.event {
                Event::ProcessStarted { id, info } => {
                    let parent = holders.get(&info.parent);
                    if writers.contains(id) || parent.is_some_and(|it| lives.contains_key(it)) {
                        let life = ProcessLifetime {
                            started_nanos: timed.time_nanos,
                            ended_nanos: None,
                        };
                        lives.insert(*id, life);
                    }
                    holders.insert(id.pid, *id);
                }
                Event::ProcessEnded { id, .. } => {
                    if let Some(life) = lives.get_mut(id) {
                        life.ended_nanos = Some(timed.time_nanos);
                    }
                }
                _ => {}
            }
        }
        RunProcesses { writers, lives }
    }

    pub(crate) fn contains(&self, id: &ProcessId) -> bool {
        self.lives.contains_key(id)
    }

    pub(crate) fn contains_pid(&self, pid: u32) -> bool {
        self.lives.keys().any(|id| id.pid == pid)
    }

    /// No process of the run was seen: it came and went between two samples.
    pub(crate) fn is_empty(&self) -> bool {
        self.lives.is_empty()
    }

    /// When the last of them ended; nothing while one lives.
    pub(crate) fn ended_nanos(&self) -> Option<u64> {
        let ends: Option<Vec<u64>> = self.lives.values().map(|life| life.ended_nanos).collect();
        ends?.into_iter().max()
    }

    /// When the process was first seen.
    pub(crate) fn started_nanos(&self, id: &ProcessId) -> Option<u64> {
        Some(self.lives.get(id)?.started_nanos)
    }

    /// When the process was seen to have ended; later than everything while it lives.
    pub(crate) fn end_of(&self, id: &ProcessId) -> u64 {
        let life = self.lives.get(id);
        life.and_then(|life| life.ended_nanos).unwrap_or(u64::MAX)
    }

    /// Whether a process was there in the time of the run, which began at `from` and was first sampled at `first_tick`.
    ///
    /// The end of a process is seen on the tick after it: one that was gone by the run's first tick may have ended before the run began.
    /// Those that wrote to the run were there.
    pub(crate) fn was_there(&self, id: &ProcessId, from: u64, first_tick: Option<u64>) -> bool {
        self.lives.get(id).is_some_and(|life| {
            let outlived = |tick| life.ended_nanos.is_none_or(|ended| ended > tick);
            self.writers.contains(id)
                || life.started_nanos >= from
                || outlived(first_tick.unwrap_or(from))
        })
    }
}
