//! GPUs read on a thread of its own: nobody else ever waits for the driver.
//!
//! A driver usually answers in microseconds, but it may need seconds to wake its GPUs, and when a GPU is lost it may not answer at all.
//! So the asker asks and goes on ([`GpuReader::request`]) and takes the newest answer whenever it comes by ([`GpuReader::look`]).
//! The thread sleeps while nobody asks, and one thread serves the whole process: it is never stopped, because it may be inside the driver.
//!
//! After a fork the thread is in the parent only; a child that asks gets a reader of its own.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::gpu::{GpuDevice, GpuReading, GpuSources, Gpus, NoGpus};

/// A driver that takes longer than this for an answer counts as silent.
const ANSWER_NANOS: u64 = 2_000_000_000;
/// Waking eight GPUs without a persistence daemon takes some seconds.
const OPENING_NANOS: u64 = 30_000_000_000;

/// How far the driver is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum GpuStage {
    /// It is being opened.
    #[default]
    Opening,
    /// It can be asked.
    Open,
    /// It never will be.
    Absent(NoGpus),
}

/// The newest answer, as a copy of the asker's.
#[derive(Debug, Default)]
pub struct GpuView {
    /// How far the driver is.
    pub stage: GpuStage,
    /// What there is to read.
    pub devices: Arc<[GpuDevice]>,
    /// The last reading of each, or why there is none.
    pub readings: Vec<Result<GpuReading, String>>,
    /// When the last reading ended, by the monotonic clock.
    pub read_at_nanos: u64,
    /// How many readings there have been.
    pub round: u64,
    /// Since when somebody has been waiting for an answer.
    pub asked_at_nanos: Option<u64>,
    /// CPU time that reading has taken.
    pub cpu_nanos: u64,
}

impl GpuView {
    /// Whether the driver owes an answer for so long that it counts as silent.
    pub fn is_overdue(&self, now_nanos: u64) -> bool {
        let patience = match self.stage {
            GpuStage::Opening => OPENING_NANOS,
            _ => ANSWER_NANOS,
        };
        self.asked_at_nanos
            .is_some_and(|asked| now_nanos.saturating_sub(asked) > patience)
    }

    /// Copies what changed; the lists are reused.
    fn update(&mut self, newest: &GpuView) {
        self.asked_at_nanos = newest.asked_at_nanos;
        if self.stage != newest.stage {
            self.stage = newest.stage.clone();
            self.devices = Arc::clone(&newest.devices);
        }
        if self.round == newest.round {
            return;
        }
        self.round = newest.round;
        self.read_at_nanos = newest.read_at_nanos;
        self.cpu_nanos = newest.cpu_nanos;
        copy_readings(&mut self.readings, &newest.readings);
    }
}

fn copy_readings(into: &mut Vec<Result<GpuReading, String>>, from: &[Result<GpuReading, String>]) {
    into.resize_with(from.len(), || Ok(GpuReading::default()));
    for (into, from) in into.iter_mut().zip(from) {
        match (into, from) {
            (Ok(into), Ok(from)) => into.clone_from(from),
            (into, from) => *into = from.clone(),
        }
    }
}

struct LatestView {
    newest: Mutex<GpuView>,
    /// Rung when somebody asks and when there is an answer.
    bell: Condvar,
}

impl LatestView {
    fn lock(&self) -> MutexGuard<'_, GpuView> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handle on the thread.
#[derive(Clone)]
pub struct GpuReader {
    shared: Arc<LatestView>,
}

/// The reader of one process; a forked child has another PID.
struct ProcessReader {
    pid: u32,
    reader: OnceLock<Option<GpuReader>>,
}

/// No lock: a fork while another thread holds one would leave the child waiting forever.
static CURRENT: AtomicPtr<ProcessReader> = AtomicPtr::new(ptr::null_mut());

impl GpuReader {
    /// This process's reader; `None` without a driver, which is looked for once.
    pub fn of_this_process() -> Option<GpuReader> {
        let pid = std::process::id();
        loop {
            let current = CURRENT.load(Ordering::Acquire);
            // SAFETY: what is stored is a leaked box or null, and never freed.
            if let Some(of_process) = unsafe { current.as_ref() }
                && of_process.pid == pid
            {
                let start = || GpuReader::start(&GpuSources::from_environment()?);
                return of_process.reader.get_or_init(start).clone();
            }
            let fresh = Box::into_raw(Box::new(ProcessReader {
                pid,
                reader: OnceLock::new(),
            }));
            let swapped =
                CURRENT.compare_exchange(current, fresh, Ordering::AcqRel, Ordering::Acquire);
            if swapped.is_err() {
                // SAFETY: it was made above and handed to nobody.
                drop(unsafe { Box::from_raw(fresh) });
            }
        }
    }

    /// A reader of what is found there; `None` when there is nothing to open.
    pub fn start(sources: &GpuSources) -> Option<GpuReader> {
        if !sources.is_worth_opening() {
            return None;
        }
        let newest = GpuView {
            asked_at_nanos: Some(monotonic_nanos()),
            ..GpuView::default()
        };
        let shared = Arc::new(LatestView {
            newest: Mutex::new(newest),
            bell: Condvar::new(),
        });
        let served = Arc::clone(&shared);
        let sources = sources.clone();
        std::thread::Builder::new()
            .name("nilo-gpu".to_owned())
            .spawn(move || serve(&served, &sources))
            .ok()?;
        Some(GpuReader { shared })
    }

    /// Asks for a reading, unless one is under way already or there is nobody to answer.
    pub fn request(&self) {
        let mut newest = self.shared.lock();
        if newest.asked_at_nanos.is_none() && newest.stage == GpuStage::Open {
            newest.asked_at_nanos = Some(monotonic_nanos());
            self.shared.bell.notify_all();
        }
    }

    /// Brings a view up to date; says whether there is a reading that it did not have.
    pub fn look(&self, view: &mut GpuView) -> bool {
        let newest = self.shared.lock();
        let is_new = newest.round != view.round;
        view.update(&newest);
        is_new
    }

    /// Waits until no answer is owed, but not for a driver that has fallen silent.
    pub fn wait(&self, longest: Duration) {
        let newest = self.shared.lock();
        if newest.is_overdue(monotonic_nanos()) {
            return;
        }
        let owes = |newest: &mut GpuView| newest.asked_at_nanos.is_some();
        // Poisoned or timed out: the caller looks at what is there.
        drop(self.shared.bell.wait_timeout_while(newest, longest, owes));
    }
}

/// The thread: opens the drivers and answers.
fn serve(shared: &LatestView, sources: &GpuSources) {
    leave_signals_to_others();
    let mut gpus = match Gpus::open(sources) {
        Ok(gpus) => gpus,
        Err(reason) => {
            let mut newest = shared.lock();
            newest.stage = GpuStage::Absent(reason);
            newest.asked_at_nanos = None;
            shared.bell.notify_all();
            return;
        }
    };
    let mut readings: Vec<Result<GpuReading, String>> = Vec::new();
    readings.resize_with(gpus.devices().len(), || Ok(GpuReading::default()));
    loop {
        for (place, slot) in readings.iter_mut().enumerate() {
            read_one(&mut gpus, place, slot);
        }
        let mut newest = shared.lock();
        if newest.stage == GpuStage::Opening {
            newest.devices = gpus.devices().into();
            newest.stage = GpuStage::Open;
        }
        copy_readings(&mut newest.readings, &readings);
        newest.read_at_nanos = monotonic_nanos();
        newest.round += 1;
        newest.asked_at_nanos = None;
        newest.cpu_nanos = nanos_of(ClockId::ThreadCPUTime);
        shared.bell.notify_all();
        let idle = |newest: &mut GpuView| newest.asked_at_nanos.is_none();
        drop(shared.bell.wait_while(newest, idle));
    }
}

/// Reads a GPU into the reading that was taken of it before, whose list of processes may still hold.
fn read_one(gpus: &mut Gpus, place: usize, slot: &mut Result<GpuReading, String>) {
    if slot.is_err() {
        *slot = Ok(GpuReading::default());
    }
    if let Ok(reading) = slot
        && let Err(error) = gpus.read(place, reading)
    {
        *slot = Err(error.reason);
    }
}

/// Signals are for the threads of the program, which wait for them.
fn leave_signals_to_others() {
    // SAFETY: the set is filled before it is used, and the mask is this thread's own.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, ptr::null_mut());
    }
}

fn monotonic_nanos() -> u64 {
    nanos_of(ClockId::Monotonic)
}

fn nanos_of(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
