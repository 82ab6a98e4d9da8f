//! The memory of this process tree on demand, without a run's files: for a program that watches itself.

use nilo_runfile::{RowBuffer, RowSink, TableId, Update, monotonic_nanos};
use nilo_sample::units::NANOS_PER_SEC;
use nilo_sample::{Limit, TableSpec};
use nilo_source::{Roots, SourceError};

use crate::open_tree::{TreeScope, open_tree};
use crate::own_cost::OwnCost;
use crate::pace::Pace;
use crate::reap::Reaper;
use crate::recorder::Recorder;
use crate::surroundings::Surroundings;

/// One look at ourselves.
#[derive(Debug, Clone, Default)]
pub struct OwnReading {
    /// Memory of the tree, shared pages counted once as far as known.
    pub memory_bytes: u64,
    /// The largest level since the first reading, the kernel's marks included.
    pub peak_bytes: u64,
    /// The part of it that is not in this process, as closely as it is known.
    pub children_bytes: u64,
    /// Processes alive.
    pub processes: usize,
    /// The limit in force.
    pub limit: Option<Limit>,
    /// What new programs can get on this machine.
    pub available_bytes: Option<u64>,
}

/// Reads this process and its descendants as the recorder does, and keeps the rows in memory.
pub struct OwnMemory {
    recorder: Recorder<RowBuffer>,
    pace: Pace,
    reaper: Reaper,
    pid: u32,
    started_nanos: u64,
    steps: TableId,
    step: Option<i64>,
}

impl OwnMemory {
    /// Opens what is needed.
    pub fn new() -> Result<OwnMemory, SourceError> {
        let roots = Roots::default();
        let pid = std::process::id();
        let mut tree = open_tree(&roots, TreeScope::WithOurselves)?;
        tree.add_root(pid)?;
        let started_nanos = monotonic_nanos();
        let surroundings = Surroundings::of_own_process(roots, started_nanos, pid);
        let rows = RowBuffer::new("recorder", started_nanos);
        let recorder = Recorder::new(tree, rows, surroundings, started_nanos, true);
        let mut recorder = recorder.costing(OwnCost::Thread);
        Ok(OwnMemory {
            steps: recorder.writer().define(&TableSpec::metrics("", [])),
            recorder,
            pace: Pace::new(started_nanos, NANOS_PER_SEC),
            reaper: Reaper::default(),
            pid,
            started_nanos,
            step: None,
        })
    }

    /// A reading, now; the training has come to this step.
    pub fn read(&mut self, step: Option<i64>) -> OwnReading {
        let now = monotonic_nanos();
        if step != self.step {
            self.step = step;
            self.recorder.writer().append(self.steps, now, step, &[]);
        }
        self.recorder.tick(now, &self.pace, &mut self.reaper, false);
        let live = self.recorder.live().clone();
        let mut processes = self.recorder.processes().iter();
        let own = processes.find(|process| process.id.pid == self.pid);
        let own_bytes = own.map_or(0, |process| process.reading.rss_bytes);
        OwnReading {
            memory_bytes: live.memory_bytes,
            peak_bytes: live.peak_bytes,
            children_bytes: match live.processes {
                0 | 1 => 0,
                _ => live.memory_bytes.saturating_sub(own_bytes),
            },
            processes: live.processes,
            limit: self.limit().cloned(),
            available_bytes: self.recorder.surroundings().available_bytes(),
        }
    }

    /// The rows of the readings since the last call, as [`nilo_runfile::Follower`] hands out those of a run.
    pub fn take_rows(&mut self) -> Update {
        self.recorder.writer().take()
    }

    /// The limit in force.
    pub fn limit(&self) -> Option<&Limit> {
        self.recorder.limit()
    }

    /// When the clock of the rows began, as [`monotonic_nanos`] counts.
    pub fn started_nanos(&self) -> u64 {
        self.started_nanos
    }
}
