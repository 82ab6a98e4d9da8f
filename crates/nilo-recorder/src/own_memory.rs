//! The memory of this process tree on demand, without a run: for a program that watches itself.

use nilo_runfile::monotonic_nanos;
use nilo_sample::{Limit, ProcessId};
use nilo_source::{
    Change, Host, ProcessSource, Roots, SourceError, TrackedProcess, resolve_limits,
};

use crate::high_water::HighWater;
use crate::recorder::{Backend, Included, open_source};

/// Limits seldom change; looking them up takes a walk through the cgroup tree.
const RESOLVE_NANOS: u64 = 5_000_000_000;

/// One look at ourselves.
#[derive(Debug, Clone, Default)]
pub struct OwnReading {
    /// Memory of the tree, shared pages counted once as far as known.
    pub memory_bytes: u64,
    /// The largest level since the first reading, the kernel's marks included.
    pub peak_bytes: u64,
    /// Processes alive.
    pub processes: usize,
    /// The limit in force.
    pub limit: Option<Limit>,
    /// What new programs can get on this machine.
    pub available_bytes: Option<u64>,
}

/// Reads this process and its descendants.
pub struct OwnMemory {
    source: Box<dyn ProcessSource>,
    marks: HighWater,
    host: Option<Host>,
    roots: Roots,
    pid: u32,
    is_first: bool,
    peak_bytes: u64,
    limit: Option<Limit>,
    next_resolve_nanos: u64,
    changes: Vec<Change>,
}

impl OwnMemory {
    /// Opens what is needed.
    pub fn new() -> Result<OwnMemory, SourceError> {
        let roots = Roots::default();
        let pid = std::process::id();
        let mut source = open_source(Backend::Native, &roots, Included::WithOurselves)?;
        source.add_root(pid)?;
        Ok(OwnMemory {
            source,
            marks: HighWater::default(),
            host: Host::new(&roots).ok(),
            roots,
            pid,
            is_first: true,
            peak_bytes: 0,
            limit: None,
            next_resolve_nanos: 0,
            changes: Vec::new(),
        })
    }

    /// A reading, now.
    pub fn read(&mut self) -> OwnReading {
        let now = monotonic_nanos();
        self.source.tick(now);
        self.source.take_changes(&mut self.changes);
        for change in self.changes.drain(..) {
            match change {
                Change::Started(id) => {
                    if let Some(process) = find(self.source.processes(), id) {
                        self.marks.join(process, self.is_first);
                    }
                }
                Change::Renamed(_) => {}
                Change::Ended { id, .. } => self.marks.leave(id),
            }
        }
        self.is_first = false;
        let memory_bytes = self.source.memory_bytes();
        let high_water = self.marks.rise(self.source.processes(), memory_bytes);
        if now >= self.next_resolve_nanos {
            self.next_resolve_nanos = now + RESOLVE_NANOS;
            self.limit = nilo_sample::limit::smallest(resolve_limits(&self.roots, self.pid));
        }
        let highest = memory_bytes.max(high_water.unwrap_or(0));
        self.peak_bytes = self.peak_bytes.max(highest);
        OwnReading {
            memory_bytes,
            peak_bytes: self.peak_bytes,
            processes: self.source.processes().len(),
            limit: self.limit.clone(),
            available_bytes: self
                .host
                .as_mut()
                .and_then(|host| host.read().available_bytes),
        }
    }
}

fn find(processes: &[TrackedProcess], id: ProcessId) -> Option<&TrackedProcess> {
    processes.iter().find(|process| process.id == id)
}
