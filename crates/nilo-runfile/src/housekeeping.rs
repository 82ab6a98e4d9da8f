//! The slow work of a writer, on a thread of its own: syncing to disk and compacting sealed segments.
//!
//! The thread starts with the first such work, so that a run of 50 ms has none.
//! It runs at low priority with all signals blocked: the job's handlers stay on the job's threads.

use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::compact::Compactor;
use crate::filesystem;
use crate::names;
use crate::options::WriterOptions;

/// How long closing a writer may wait for compaction. What is left over stays readable as it is.
const FINISH_WITHIN: Duration = Duration::from_secs(2);

struct SealedSegment {
    number: u32,
    path: PathBuf,
    compact: bool,
}

#[derive(Default)]
struct PendingWork {
    sealed: VecDeque<SealedSegment>,
    live: Option<Arc<File>>,
    finish_by: Option<Instant>,
}

#[derive(Default)]
struct WorkQueue {
    work: Mutex<PendingWork>,
    bell: Condvar,
    /// Held while the thread has the live file open to sync it.
    syncing: Mutex<()>,
}

impl WorkQueue {
    fn lock(&self) -> MutexGuard<'_, PendingWork> {
        lock(&self.work)
    }
}

/// The state is valid after every statement, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A handle on the thread, started or not.
pub(crate) struct Housekeeper {
    desk: Arc<WorkQueue>,
    /// Used by the thread, and by the writer itself when the disk is full.
    compactor: Arc<Mutex<Compactor>>,
    compact: bool,
    sync_every: Option<Duration>,
    thread: Option<JoinHandle<()>>,
}

impl Housekeeper {
    pub(crate) fn new(folder: &Path, writer: &str, options: &WriterOptions) -> Housekeeper {
        Housekeeper {
            desk: Arc::default(),
            compactor: Arc::new(Mutex::new(Compactor::new(folder, writer))),
            compact: options.compact,
            sync_every: options.sync_every,
            thread: None,
        }
    }

    /// Which file is to be synced from here on.
    pub(crate) fn set_live(&self, file: Arc<File>) {
        self.desk.lock().live = Some(file);
    }

    /// There is no file to sync until the next one is opened. The thread has let go of the last one when this returns:
    /// a deleted file gives its space back once nobody has it open.
    pub(crate) fn forget_live(&self) {
        self.desk.lock().live = None;
        drop(lock(&self.desk.syncing));
    }

    /// A segment is full.
    pub(crate) fn sealed(&mut self, number: u32, path: PathBuf) {
        self.hand_over(SealedSegment {
            number,
            path,
            compact: self.compact,
        });
    }

    /// The last segment of a stream that ends.
    pub(crate) fn sealed_last(&mut self, number: u32, path: PathBuf, is_large: bool) {
        self.hand_over(SealedSegment {
            number,
            path,
            compact: self.compact && is_large,
        });
    }

    fn hand_over(&mut self, sealed: SealedSegment) {
        if !sealed.compact && self.sync_every.is_none() {
            return;
        }
        self.desk.lock().sealed.push_back(sealed);
        self.desk.bell.notify_one();
        self.start();
    }

    /// Makes room on a full disk: compacts, at once, the sealed segments that wait for it or found no room before.
    pub(crate) fn compact_sealed(&mut self) {
        if !self.compact {
            return;
        }
        // Waits for the one that the thread is at.
        let mut compactor = lock(&self.compactor);
        let sealed = std::mem::take(&mut self.desk.lock().sealed);
        for SealedSegment { number, path, .. } in sealed {
            compactor.compact(number, path);
        }
        compactor.compact_left_over();
    }

    /// Copies a full segment that is still open into a block; its file may then be deleted. `false` when that was not possible.
    pub(crate) fn copy_to_block(&mut self, number: u32, path: &Path) -> bool {
        self.compact && lock(&self.compactor).copy_to_block(number, path)
    }

    pub(crate) fn is_started(&self) -> bool {
        self.thread.is_some()
    }

    /// Starts the thread if it does not run. Without one (no threads left) segments stay as they are.
    pub(crate) fn start(&mut self) {
        if self.thread.is_some() {
            return;
        }
        let desk = Arc::clone(&self.desk);
        let compactor = Arc::clone(&self.compactor);
        let sync_every = self.sync_every;
        let _mask = SignalsBlocked::new();
        self.thread = std::thread::Builder::new()
            .name("nilo-housekeeping".to_owned())
            .stack_size(256 << 10)
            .spawn(move || keep_house(&desk, &compactor, sync_every))
            .ok();
    }

    /// Lets the thread finish what it has, within [`FINISH_WITHIN`], and ends it.
    pub(crate) fn finish(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        {
            let mut work = self.desk.lock();
            work.finish_by = Some(Instant::now() + FINISH_WITHIN);
            work.live = None;
        }
        self.desk.bell.notify_one();
        // A panic there has lost nothing: segments are deleted only after their block is on disk.
        let _ = thread.join();
    }

    /// In a forked child the thread does not exist, and its handle must not be touched.
    pub(crate) fn abandon(&mut self) {
        if let Some(thread) = self.thread.take() {
            std::mem::forget(thread);
        }
    }
}

fn keep_house(desk: &WorkQueue, compactor: &Mutex<Compactor>, sync_every: Option<Duration>) {
    lower_priority();
    let mut next_sync = sync_every.map(|every| Instant::now() + every);
    let mut run_is_synced = false;
    loop {
        let mut work = desk.lock();
        let task = loop {
            if let Some(sealed) = work.sealed.pop_front() {
                let late = work.finish_by.is_some_and(|by| Instant::now() > by);
                break if late { None } else { Some(sealed) };
            }
            if work.finish_by.is_some() {
                return;
            }
            let now = Instant::now();
            match next_sync {
                Some(at) if at <= now => break None,
                Some(at) => {
                    let waited = desk.bell.wait_timeout(work, at - now);
                    work = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                None => {
                    let waited = desk.bell.wait(work);
                    work = waited.unwrap_or_else(PoisonError::into_inner);
                }
            }
        };
        let is_late = task.is_none() && work.finish_by.is_some();
        drop(work);
        match task {
            Some(sealed) if sealed.compact => {
                lock(compactor).compact(sealed.number, sealed.path);
            }
            Some(sealed) => sync_path(&sealed.path),
            None if is_late => return,
            None => {
                sync_live(desk);
                if !run_is_synced {
                    sync_run(lock(compactor).folder());
                    run_is_synced = true;
                }
                next_sync = sync_every.map(|every| Instant::now() + every);
            }
        }
    }
}

fn sync_live(desk: &WorkQueue) {
    let _syncing = lock(&desk.syncing);
    let live = desk.lock().live.clone();
    if let Some(file) = live {
        let _ = file.sync_data();
    }
}

fn sync_path(path: &Path) {
    if let Ok(file) = filesystem::open_regular(path) {
        let _ = file.sync_data();
    }
}

/// The description and the folder's list of files, which the quick start of a run did not wait for.
fn sync_run(folder: &Path) {
    sync_path(&folder.join(names::DESCRIPTION));
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
}

/// Niceness is per thread on Linux; elsewhere it would slow the whole job's process, so it is left alone.
fn lower_priority() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, 10);
}

/// Blocks all signals for this thread, and so for a thread spawned meanwhile, until dropped.
struct SignalsBlocked(libc::sigset_t);

impl SignalsBlocked {
    fn new() -> SignalsBlocked {
        // SAFETY: `sigset_t` is plain data, filled in by `sigfillset` and `pthread_sigmask`, which cannot fail for `SIG_SETMASK`.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            SignalsBlocked(before)
        }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: the set was filled in by `pthread_sigmask`.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_live_file_is_not_held_while_another_is_compacted() {
        let folder = tempfile::tempdir().unwrap();
        let mut keeper = Housekeeper::new(folder.path(), "w", &WriterOptions::default());
        let live = Arc::new(tempfile::tempfile().unwrap());
        keeper.set_live(Arc::clone(&live));
        let compactor = Arc::clone(&keeper.compactor);
        let compacting = lock(&compactor);
        keeper.sealed(0, folder.path().join("w.0000.nilo"));
        while !keeper.desk.lock().sealed.is_empty() {
            std::thread::yield_now();
        }
        // The thread waits for the compactor.
        keeper.forget_live();
        assert_eq!(Arc::strong_count(&live), 1);
        drop(compacting);
        keeper.finish();
    }
}
