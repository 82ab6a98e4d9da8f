//! The processes of a run inside a job: those that wrote to it and everything that they started, as the job's recorder saw them.

use std::collections::{BTreeMap, HashMap};

use nilo_sample::{Event, ProcessId, Recording};

use crate::run_writers::RunWriterProcess;

/// When the recorder first saw a process, and when it saw that the process had ended.
#[derive(Debug, Clone, Copy)]
struct ProcessLifetime {
    started_nanos: u64,
    ended_nanos: Option<u64>,
    /// Who of the run started it.
    parent: Option<ProcessId>,
}

impl ProcessLifetime {
    fn lasted_beyond(&self, from: u64, first_tick: Option<u64>) -> bool {
        let tick = first_tick.unwrap_or(from);
        self.started_nanos >= from || self.ended_nanos.is_none_or(|ended| ended > tick)
    }
}

/// The processes of a run, on the job's axis.
#[derive(Debug)]
pub(crate) struct RunProcesses<'a> {
    writers: &'a [RunWriterProcess],
    lives: BTreeMap<ProcessId, ProcessLifetime>,
    /// The other processes of the job.
    others: BTreeMap<ProcessId, ProcessLifetime>,
}

impl<'a> RunProcesses<'a> {
    pub(crate) fn find(job: &Recording, writers: &'a [RunWriterProcess]) -> RunProcesses<'a> {
        let mut lives: BTreeMap<ProcessId, ProcessLifetime> = BTreeMap::new();
        let mut others = BTreeMap::new();
        // Who has a PID at the time; processes start after their parents.
        let mut holders: HashMap<u32, ProcessId> = HashMap::new();
        for timed in &job.events {
            match &timed.event {
                Event::ProcessStarted { id, info } => {
                    let parent = holders.get(&info.parent).copied();
                    let parent = parent.filter(|it| lives.contains_key(it));
                    let is_of_run = is_writer(writers, id) || parent.is_some();
                    let life = ProcessLifetime {
                        started_nanos: timed.time_nanos,
                        ended_nanos: None,
                        parent,
                    };
                    let side = if is_of_run { &mut lives } else { &mut others };
                    side.insert(*id, life);
                    holders.insert(id.pid, *id);
                }
                Event::ProcessEnded { id, .. } => {
                    if let Some(life) = lives.get_mut(id).or_else(|| others.get_mut(id)) {
                        life.ended_nanos = Some(timed.time_nanos);
                    }
                }
                _ => {}
            }
        }
        RunProcesses {
            writers,
            lives,
            others,
        }
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

    /// When the last of those left that took part beside the process `first`, which tells of its own end; `job_end` for one that lives.
    ///
    /// One that closed its stream left then. One that did not took part to its end, as a rank that was killed;
    /// but what the first started serves it, and may do so in its next run.
    pub(crate) fn others_left_nanos(&self, from: u64, first: ProcessId, job_end: u64) -> u64 {
        let others = self.writers.iter().filter(|writer| writer.id != first);
        let left = others.filter_map(|writer| match writer.left_nanos {
            Some(left) => Some(from.saturating_add(left)),
            None if self.is_below(writer.id, first) => None,
            None => {
                let life = self.lives.get(&writer.id)?;
                Some(life.ended_nanos.unwrap_or(job_end))
            }
        });
        left.max().unwrap_or(0)
    }

    fn is_below(&self, id: ProcessId, ancestor: ProcessId) -> bool {
        let parent = |id: &ProcessId| self.lives.get(id).and_then(|life| life.parent);
        std::iter::successors(parent(&id), parent).any(|it| it == ancestor)
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
        self.lives
            .get(id)
            .is_some_and(|life| is_writer(self.writers, id) || life.lasted_beyond(from, first_tick))
    }

    /// Whether nobody else of the job was there in that time, which ended at `to`.
    pub(crate) fn were_alone(&self, from: u64, to: u64, first_tick: Option<u64>) -> bool {
        let mut others = self.others.values().filter(|it| it.started_nanos <= to);
        !others.any(|life| life.lasted_beyond(from, first_tick))
    }
}

fn is_writer(writers: &[RunWriterProcess], id: &ProcessId) -> bool {
    writers.iter().any(|writer| writer.id == *id)
}
