//! The other ranks of a distributed run on this machine: they write to the same folder, and one of them records for all.
//!
//! A rank that joins makes a file in the run's folder. So the folder's time of change says on every tick, for one system call,
//! whether there is anybody new; everything else is looked at now and then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use nilo_runfile::RunFolder;
use nilo_sample::ProcessId;
use nilo_source::{Roots, local_ranks, process_id};

use crate::recorder::Recorder;

/// How often other ranks are looked for where nothing says that there are new ones.
const LOOK_FOR_RANKS_NANOS: u64 = 500_000_000;
/// Two changes within this time may have the same time of change.
const TIME_OF_CHANGE_STEP: Duration = Duration::from_millis(50);

pub(crate) struct LocalRanks {
    folder: RunFolder,
    with_local_ranks: Arc<AtomicBool>,
    known: Vec<u32>,
    next_nanos: u64,
    /// The folder's time of change as of the last look, where a later change has another.
    looked_at: Option<SystemTime>,
    looked_beside: bool,
}

impl LocalRanks {
    pub(crate) fn new(folder: &RunFolder, with_local_ranks: &Arc<AtomicBool>) -> LocalRanks {
        LocalRanks {
            folder: folder.clone(),
            with_local_ranks: Arc::clone(with_local_ranks),
            known: vec![std::process::id()],
            next_nanos: 0,
            looked_at: None,
            looked_beside: false,
        }
    }

    pub(crate) fn add_to(&mut self, recorder: &mut Recorder, now_nanos: u64) {
        let looks_beside = self.with_local_ranks.load(Ordering::Relaxed);
        let changed = self.folder_changed();
        let is_same = changed.is_none() || changed == self.looked_at;
        if is_same && looks_beside == self.looked_beside && now_nanos < self.next_nanos {
            return;
        }
        self.next_nanos = now_nanos.saturating_add(LOOK_FOR_RANKS_NANOS);
        // Another machine's clock may be ahead.
        let is_settled =
            |at: &SystemTime| at.elapsed().map_or(true, |age| age > TIME_OF_CHANGE_STEP);
        self.looked_at = changed.filter(is_settled);
        self.looked_beside = looks_beside;
        let roots = Roots::default();
        let writing = self.folder.writing_processes().into_iter();
        let is_here =
            |process: &ProcessId| process_id(&roots, process.pid).is_ok_and(|id| id == *process);
        let mut found: Vec<u32> = writing.filter(is_here).map(|process| process.pid).collect();
        if looks_beside {
            found.extend(local_ranks(&roots));
        }
        for pid in found {
            if !self.known.contains(&pid) {
                self.known.push(pid);
                recorder.watch_also(pid);
            }
        }
    }

    fn folder_changed(&self) -> Option<SystemTime> {
        std::fs::metadata(self.folder.path()).ok()?.modified().ok()
    }
}
