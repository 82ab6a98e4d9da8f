//! One process of the tree: its kept-open files and how they are read.
//!
//! A tick costs one clock call, and one `pread` of `statm` unless the process has not run for a nanosecond since the last. Detail, about once a second, costs four more reads.
//! Beyond the allowance of open files, and in captured trees, each read opens and closes `stat` instead and checks who answers.

#[path = "process_details.rs"]
mod details;

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};

use crate::descriptors::read_record;
use crate::linux::children_cpu::{ChildrenCpu, children_nanos};
use crate::linux::cpu_clock::process_cpu_nanos;
use crate::linux::proc_folder::{ProcFolder, STAT_BYTES, pid_of_name};
use crate::linux::stat::{Stat, parse_stat, parse_statm};
use crate::tracked_process::ProcessReading;

/// How often the memory of a process that does not run is read.
const SLEEPER_EVERY_NANOS: u64 = 500_000_000;
/// The same in a larger tree: only the kernel can take memory from it meanwhile.
const PATIENT_SLEEPER_EVERY_NANOS: u64 = 2_000_000_000;
/// In a larger tree, a process that has stood still is looked at this often instead of on each tick.
const STEADY_EVERY_NANOS: u64 = 300_000_000;
/// Looks without a change after which a process stands still.
const STEADY_LOOKS: u32 = 5;

/// How much of a process is kept open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenFiles {
    /// All its files.
    Everything,
    /// `statm`, for the tick.
    OnlyTick,
    /// Nothing.
    Nothing,
}

impl OpenFiles {
    /// Descriptors that one process takes.
    pub(crate) fn descriptors(self) -> usize {
        match self {
            OpenFiles::Everything => 5,
            OpenFiles::OnlyTick => 1,
            OpenFiles::Nothing => 0,
        }
    }
}

/// How closely a tick looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadEffort {
    /// Those that stand still are passed over now and then.
    Patient,
    /// Every clock is asked, and the memory of those that ran is read.
    Usual,
    /// Everything is read.
    Thorough,
}

/// What a tick found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TickOutcome {
    /// Alive.
    Alive(ProcessReading),
    /// Gone or a zombie.
    Ended,
}

/// The files of one process and what was last seen in them.
#[derive(Debug)]
pub(crate) struct ProcessFiles {
    pid: u32,
    start_ticks: u64,
    keeping: OpenFiles,
    statm: Option<OwnedFd>,
    stat: Option<OwnedFd>,
    status: Option<OwnedFd>,
    io: Option<OwnedFd>,
    fd_folder: Option<OwnedFd>,
    io_refused: bool,
    /// The files turned out to be another process's, which took the number while they were being opened.
    is_other: bool,
    /// It is giving back its memory.
    pub(crate) is_leaving: bool,
    /// The reading before which detail was last read.
    detail_after: Option<ProcessReading>,
    comm: [u8; 16],
    arguments_at: u64,
    pub(crate) command_hash: u64,
    next_memory_nanos: u64,
    /// Ticks in a row on which the clock stood, and the earliest next look at it.
    still_clocks: u32,
    next_clock_nanos: u64,
    /// Reads in a row that found the same memory.
    same_memories: u32,
    pub(crate) next_detail_nanos: u64,
    /// When it lost so much memory that it may be about to run another program: its detail is as pressing as a newborn's.
    pub(crate) renewed_nanos: u64,
    pub(crate) next_command_nanos: u64,
    /// The address space, told apart from others.
    pub(crate) layout: Option<u64>,
    /// When faults may be counted again, how long that lasts, and the CPU time at the last count.
    pub(crate) next_faults_nanos: u64,
    pub(crate) faults_wait_nanos: u64,
    pub(crate) faults_cpu_nanos: u64,
    /// What its children used, and who waits for it.
    pub(crate) children: ChildrenCpu,
}

impl ProcessFiles {
    pub(crate) fn new(
        proc: &ProcFolder,
        pid: u32,
        stat: &Stat<'_>,
        keeping: OpenFiles,
        now_nanos: u64,
    ) -> ProcessFiles {
        let everything = keeping == OpenFiles::Everything;
        let keep =
            |name: &str, wanted: bool| wanted.then(|| proc.open_of(pid, name).ok()).flatten();
        ProcessFiles {
            pid,
            start_ticks: stat.start_ticks,
            keeping,
            statm: keep("statm", keeping != OpenFiles::Nothing),
            stat: keep("stat", everything),
            status: keep("status", everything),
            io: keep("io", everything),
            fd_folder: if everything {
                open_fd_folder(proc, pid)
            } else {
                None
            },
            io_refused: false,
            is_other: false,
            is_leaving: false,
            detail_after: None,
            comm: short_name(stat.comm),
            arguments_at: stat.arguments_at,
            command_hash: 0,
            next_memory_nanos: 0,
            still_clocks: 0,
            next_clock_nanos: 0,
            same_memories: 0,
            next_detail_nanos: now_nanos,
            renewed_nanos: now_nanos,
            next_command_nanos: now_nanos,
            layout: stat.layout(),
            next_faults_nanos: 0,
            faults_wait_nanos: 0,
            faults_cpu_nanos: 0,
            children: ChildrenCpu::new(stat.parent, children_nanos(stat, proc.ticks_per_sec)),
        }
    }

    /// Sets every schedule to begin at this time.
    pub(crate) fn begin(&mut self, now_nanos: u64) {
        self.next_memory_nanos = now_nanos;
        self.next_detail_nanos = now_nanos;
        self.next_command_nanos = now_nanos;
    }

    pub(crate) fn keeping(&self) -> OpenFiles {
        self.keeping
    }

    /// The hot path.
    ///
    /// A process that has not run can neither have taken memory nor ended; only the kernel can have taken memory from it,
    /// and the clock of another process that has its PID would show another time.
    /// So a sleeping process's memory is read only every [`SLEEPER_EVERY_NANOS`], in larger trees every [`PATIENT_SLEEPER_EVERY_NANOS`].
    /// With [`ReadEffort::Patient`], which larger trees ask for, one whose clock or memory has stood still is looked at every [`STEADY_EVERY_NANOS`]:
    /// a system call after 100 ms of sleep costs three times a warm one, and twenty processes at 10 Hz would take 0.3 % of a core.
    pub(crate) fn read(
        &mut self,
        proc: &ProcFolder,
        last: ProcessReading,
        now_nanos: u64,
        effort: ReadEffort,
    ) -> TickOutcome {
        if self.is_other {
            return TickOutcome::Ended;
        }
        if effort == ReadEffort::Patient && now_nanos < self.next_clock_nanos {
            return TickOutcome::Alive(last);
        }
        let clock_nanos = if proc.is_live {
            process_cpu_nanos(self.pid)
        } else {
            None
        };
        // Zero is no sign of who answers: every process that has not run yet shows it.
        let stood_still = last.cpu_nanos > 0 && clock_nanos == Some(last.cpu_nanos);
        self.still_clocks = if stood_still {
            self.still_clocks.saturating_add(1)
        } else {
            0
        };
        if self.still_clocks >= STEADY_LOOKS {
            self.next_clock_nanos = now_nanos.saturating_add(STEADY_EVERY_NANOS);
        }
        let steady = effort == ReadEffort::Patient && self.same_memories >= STEADY_LOOKS;
        if let Some(clock_nanos) = clock_nanos
            && (stood_still || steady)
            && effort != ReadEffort::Thorough
            && now_nanos < self.next_memory_nanos
        {
            if !stood_still {
                // It ran, so its memory is due soon, also if it has gone to sleep again by then.
                let soon = now_nanos.saturating_add(STEADY_EVERY_NANOS);
                self.next_memory_nanos = self.next_memory_nanos.min(soon);
            }
            let cpu_nanos = clock_nanos.max(last.cpu_nanos);
            return TickOutcome::Alive(ProcessReading { cpu_nanos, ..last });
        }
        let every = match (stood_still, effort) {
            (true, ReadEffort::Patient) => PATIENT_SLEEPER_EVERY_NANOS,
            (true, _) => SLEEPER_EVERY_NANOS,
            (false, _) => STEADY_EVERY_NANOS,
        };
        self.next_memory_nanos = now_nanos.saturating_add(every);
        let Some(statm) = &self.statm else {
            return self.read_without_kept_files(proc, last, clock_nanos);
        };
        let mut buffer = [0u8; 192];
        match read_record(statm, &mut buffer).map(parse_statm) {
            Ok(Some((size, resident, shared))) if size > 0 => {
                let cpu_nanos = clock_nanos
                    .or_else(|| self.cpu_nanos_from_stat(proc))
                    .unwrap_or(last.cpu_nanos);
                let rss_bytes = resident.saturating_mul(proc.page_bytes);
                let same = rss_bytes == last.rss_bytes;
                self.same_memories = if same {
                    self.same_memories.saturating_add(1)
                } else {
                    0
                };
                TickOutcome::Alive(ProcessReading {
                    rss_bytes,
                    shared_bytes: shared.saturating_mul(proc.page_bytes),
                    virtual_bytes: size.saturating_mul(proc.page_bytes),
                    // Nothing that reads it may ever see it fall.
                    cpu_nanos: cpu_nanos.max(last.cpu_nanos),
                })
            }
            Ok(Some(_)) => self.read_without_memory(proc, last),
            Ok(None) | Err(_) => TickOutcome::Ended,
        }
    }

    /// `statm` says that there is no memory: a zombie, a process about to be one, or one whose first thread ended before the others.
    fn read_without_memory(&mut self, proc: &ProcFolder, last: ProcessReading) -> TickOutcome {
        let mut buffer = [0; STAT_BYTES];
        let Some(stat) = proc.stat_of(self.pid, &mut buffer) else {
            return TickOutcome::Ended;
        };
        if stat.start_ticks != self.start_ticks {
            return TickOutcome::Ended;
        }
        if !matches!(stat.state, b'Z' | b'X' | b'x') {
            // Giving its memory back can take a second; until then the last figure is nearer than zero.
            self.is_leaving = true;
            return TickOutcome::Alive(last);
        }
        if stat.threads > 1 && self.reopen_through_another_thread(proc) {
            return TickOutcome::Alive(last);
        }
        TickOutcome::Ended
    }

    /// After `pthread_exit` in `main`, the process lives on in its other threads, and only their files show its memory.
    fn reopen_through_another_thread(&mut self, proc: &ProcFolder) -> bool {
        let Ok(threads) = std::fs::read_dir(proc.path_of(self.pid, "task")) else {
            return false;
        };
        for entry in threads.flatten() {
            let Some(thread) = pid_of_name(entry.file_name().as_encoded_bytes()) else {
                continue;
            };
            let Ok(statm) = proc.open_of(self.pid, &format!("task/{thread}/statm")) else {
                continue;
            };
            let mut buffer = [0u8; 192];
            let size = read_record(&statm, &mut buffer).map(parse_statm);
            if matches!(size, Ok(Some((size, ..))) if size > 0) {
                self.statm = Some(statm);
                self.status = proc
                    .open_of(self.pid, &format!("task/{thread}/status"))
                    .ok();
                return true;
            }
        }
        false
    }

    fn read_without_kept_files(
        &self,
        proc: &ProcFolder,
        last: ProcessReading,
        clock_nanos: Option<u64>,
    ) -> TickOutcome {
        let mut buffer = [0; STAT_BYTES];
        let Some(stat) = proc.stat_of(self.pid, &mut buffer) else {
            return TickOutcome::Ended;
        };
        let zombie = matches!(stat.state, b'Z' | b'X' | b'x') && stat.threads <= 1;
        if stat.start_ticks != self.start_ticks || zombie {
            return TickOutcome::Ended;
        }
        let cpu_nanos = clock_nanos.unwrap_or_else(|| ticks_to_nanos(proc, stat.cpu_ticks));
        TickOutcome::Alive(ProcessReading {
            rss_bytes: stat.rss_pages.saturating_mul(proc.page_bytes),
            shared_bytes: last.shared_bytes,
            virtual_bytes: stat.virtual_bytes,
            cpu_nanos: cpu_nanos.max(last.cpu_nanos),
        })
    }

    /// What is left of it, if it has ended and nobody has waited for it yet.
    pub(crate) fn zombie_reading(&self, proc: &ProcFolder) -> Option<ZombieReading> {
        let mut buffer = [0; STAT_BYTES];
        let stat = proc.stat_of(self.pid, &mut buffer)?;
        (stat.start_ticks == self.start_ticks).then(|| ZombieReading {
            cpu_nanos: proc.is_live.then(|| process_cpu_nanos(self.pid)).flatten(),
            children_nanos: children_nanos(&stat, proc.ticks_per_sec),
            parent: stat.parent,
        })
    }

    /// Reads what its waited-for children used; `None` when it is gone.
    pub(crate) fn read_children(&self, proc: &ProcFolder) -> Option<u64> {
        let mut buffer = [0u8; 4096];
        let text = self.read_file(proc, ProcFile::Stat, &mut buffer).ok()?;
        let stat = parse_stat(text).filter(|stat| stat.start_ticks == self.start_ticks)?;
        Some(children_nanos(&stat, proc.ticks_per_sec))
    }

    fn cpu_nanos_from_stat(&self, proc: &ProcFolder) -> Option<u64> {
        let mut buffer = [0; STAT_BYTES];
        let stat = proc.stat_of(self.pid, &mut buffer)?;
        Some(ticks_to_nanos(proc, stat.cpu_ticks))
    }

    /// Whether the process has not run for a nanosecond since its detail was read and has the same memory: then nothing in it can have changed.
    ///
    /// Its memory counts as well because the kernel can swap out a process that sleeps.
    pub(crate) fn slept_since_detail(&self, reading: ProcessReading) -> bool {
        self.statm.is_some() && self.detail_after == Some(reading)
    }

    /// The short name, as last read.
    pub(crate) fn comm(&self) -> &[u8] {
        let length = self.comm.iter().position(|byte| *byte == 0).unwrap_or(16);
        &self.comm[..length]
    }

    fn read_file<'a>(
        &self,
        proc: &ProcFolder,
        file: ProcFile,
        buffer: &'a mut [u8; 4096],
    ) -> rustix::io::Result<&'a [u8]> {
        let (kept, name) = match file {
            ProcFile::Stat => (&self.stat, "stat"),
            ProcFile::Status => (&self.status, "status"),
            ProcFile::Io => (&self.io, "io"),
        };
        match kept {
            Some(fd) => read_record(fd, buffer),
            None => read_record(proc.open_of(self.pid, name)?, buffer),
        }
    }
}

#[derive(Clone, Copy)]
enum ProcFile {
    Stat,
    Status,
    Io,
}

/// The last that the kernel tells of a process that nobody has waited for yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ZombieReading {
    /// Its clock, which stands still now.
    pub(crate) cpu_nanos: Option<u64>,
    /// Of the children that it waited for.
    pub(crate) children_nanos: u64,
    /// Who has to wait for it.
    pub(crate) parent: u32,
}

/// The folder as a mere place, which needs no permission to list it.
fn open_fd_folder(proc: &ProcFolder, pid: u32) -> Option<OwnedFd> {
    rustix::fs::open(
        proc.path_of(pid, "fd"),
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .ok()
}

fn short_name(comm: &[u8]) -> [u8; 16] {
    let mut name = [0; 16];
    for (slot, byte) in name[..15].iter_mut().zip(comm) {
        *slot = *byte;
    }
    name
}

fn ticks_to_nanos(proc: &ProcFolder, ticks: u64) -> u64 {
    (u128::from(ticks) * 1_000_000_000 / u128::from(proc.ticks_per_sec)) as u64
}
