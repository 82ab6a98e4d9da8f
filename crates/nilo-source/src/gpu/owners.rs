//! Which of the processes that a driver names belong to a job, and how much of each GPU the job holds.
//!
//! In the machine's first PID namespace the driver's PIDs are ours. Inside a container they are not, or not always:
//! older drivers name processes by the machine's PIDs, later ones by those of the asker's namespace and leave strangers out, and nothing in an answer tells which it is.
//! A number alone therefore proves nothing there. What does:
//!
//! - A process of the job has that PID, in our namespace or in one that `NSpid` names, and holds a GPU open: it is the one.
//! - A PID that was named while no process of the job held CUDA open is a stranger's, as long as it is named.
//! - As many PIDs are unaccounted for as processes of the job hold CUDA open, and nobody else in sight has opened it since: they are the same.
//!   Children forked from such a process hold its files too and need not be counted.
//!
//! Whatever remains is not known, and said to be so.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::descriptors::read_kernel_file;
use crate::gpu::GpuReading;
use crate::kernel_text::{line_after, number, words};
use crate::linux::{ProcFolder, STAT_BYTES, command_of};
use crate::pid_namespace::has_machine_pids;
use crate::roots::Roots;

/// Open files of the job are searched this often at most, and only in a container while something is unclear.
const SEARCH_NANOS: u64 = 1_000_000_000;
/// Likewise while the driver names nobody, which is the usual thing for a job without a GPU.
const SELDOM_NANOS: u64 = 5_000_000_000;
/// Every GPU's driver file begins with one of these.
const DEVICE_FILES: [&[u8]; 3] = [b"/dev/nvidia", b"/dev/kfd", b"/dev/dri/render"];
/// The files that CUDA and AMD's ROCm open and a mere look at the driver does not.
const CUDA_FILES: [&[u8]; 2] = [b"/dev/nvidia-uvm", b"/dev/kfd"];

/// What a job holds of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuShare {
    /// This much.
    Bytes(u64),
    /// The driver does not tell what processes hold.
    Untold,
    /// It is not clear whose the processes are that the driver names.
    Unplaced,
}

impl GpuShare {
    /// Why it is not known, where it is not.
    pub fn unknown_because(self) -> Option<&'static str> {
        match self {
            GpuShare::Bytes(_) => None,
            GpuShare::Untold => Some("the driver does not report memory per process"),
            GpuShare::Unplaced => {
                Some("the driver reports the PIDs of the host, not of this container")
            }
        }
    }
}

/// Remembers who is who between readings.
#[derive(Debug)]
pub struct GpuOwners {
    proc: Option<ProcFolder>,
    path: PathBuf,
    in_first_namespace: bool,
    /// The driver's PIDs of the job's processes, with ours.
    ours: HashMap<u32, u32>,
    strangers: HashSet<u32>,
    /// Processes in sight, not of the job, that held CUDA open when strangers were last found: they are among those.
    bystanders: HashSet<u32>,
    next_search_nanos: u64,
    next_seldom_nanos: u64,
    /// Whether the job holds CUDA open while no GPU names anybody.
    lists_are_withheld: bool,
}

impl GpuOwners {
    /// Knows nobody yet.
    pub fn new(roots: &Roots) -> GpuOwners {
        GpuOwners {
            proc: ProcFolder::open(&roots.proc).ok(),
            path: roots.proc.clone(),
            in_first_namespace: has_machine_pids(roots),
            ours: HashMap::new(),
            strangers: HashSet::new(),
            bystanders: HashSet::new(),
            next_search_nanos: 0,
            next_seldom_nanos: 0,
            lists_are_withheld: false,
        }
    }

    /// Whether the driver's PIDs are ours without further ado.
    pub fn in_first_namespace(&self) -> bool {
        self.in_first_namespace
    }

    /// Looks at a reading of all GPUs. `job` has the PIDs of the job's processes at that time, in ascending order.
    pub fn update<'a>(
        &mut self,
        readings: impl Iterator<Item = &'a GpuReading> + Clone,
        job: &[u32],
        now_nanos: u64,
    ) {
        if self.in_first_namespace {
            return;
        }
        let is_named = |pid: u32| named(readings.clone()).any(|other| other == pid);
        self.ours
            .retain(|pid, own| is_named(*pid) && job.binary_search(own).is_ok());
        self.strangers.retain(|pid| is_named(*pid));
        if named(readings.clone()).next().is_none() {
            if now_nanos >= self.next_seldom_nanos {
                self.next_seldom_nanos = now_nanos + SELDOM_NANOS;
                self.lists_are_withheld = self.computes(job);
            }
            return;
        }
        self.lists_are_withheld = false;
        let is_clear = named(readings.clone()).all(|pid| self.is_placed(pid));
        if !is_clear && now_nanos >= self.next_search_nanos {
            self.next_search_nanos = now_nanos + SEARCH_NANOS;
            self.place(named(readings).collect(), job);
        }
    }

    /// The job's share of a GPU whose reading was part of the last update.
    pub fn share(&self, reading: &GpuReading, job: &[u32]) -> GpuShare {
        let Some(processes) = &reading.processes else {
            return GpuShare::Untold;
        };
        if processes.is_empty() && self.lists_are_withheld {
            return GpuShare::Untold;
        }
        let mut total = 0;
        let mut share = GpuShare::Bytes(0);
        for process in processes {
            let is_ours = if self.in_first_namespace {
                job.binary_search(&process.pid).is_ok()
            } else if self.is_placed(process.pid) {
                self.ours.contains_key(&process.pid)
            } else {
                return GpuShare::Unplaced;
            };
            match process.bytes {
                Some(bytes) if is_ours => total += bytes,
                None if is_ours => share = GpuShare::Untold,
                _ => {}
            }
        }
        match share {
            GpuShare::Bytes(_) => GpuShare::Bytes(total),
            other => other,
        }
    }

    /// Whether one of these processes holds open what every program that computes on a GPU does.
    pub fn computes(&self, job: &[u32]) -> bool {
        job.iter().any(|pid| self.holds(*pid, is_cuda_file))
    }

    /// Which of these processes the driver means by a PID, by direct evidence alone; zero is nobody that we have a number for.
    pub(super) fn process_of(&self, driver_pid: u32, pids: &[u32]) -> Option<u32> {
        match driver_pid {
            0 => None,
            _ if self.in_first_namespace => Some(driver_pid),
            _ => self.job_process(driver_pid, pids),
        }
    }

    /// Those that hold CUDA open and are not among the known ones, nor forked from another that does.
    pub(super) fn unlisted(&self, pids: &[u32], known: BTreeSet<u32>) -> Vec<u32> {
        let holds = |pid: &u32| !known.contains(pid) && self.holds(*pid, is_cuda_file);
        let holders: Vec<u32> = pids.iter().copied().filter(holds).collect();
        let mut unlisted = holders.clone();
        unlisted.retain(|pid| !self.is_forked_from(*pid, &holders, &known));
        unlisted
    }

    /// Zero is what a driver calls a process that our namespace has no number for.
    fn is_placed(&self, pid: u32) -> bool {
        pid == 0 || self.ours.contains_key(&pid) || self.strangers.contains(&pid)
    }

    fn place(&mut self, named: BTreeSet<u32>, job: &[u32]) {
        let mut unclear: Vec<u32> = named
            .into_iter()
            .filter(|pid| !self.is_placed(*pid))
            .collect();
        unclear.retain(|&pid| {
            if let Some(own) = self.job_process(pid, job) {
                self.ours.insert(pid, own);
            } else if job.binary_search(&pid).is_err() && self.holds(pid, is_device_file) {
                self.strangers.insert(pid);
            }
            !self.is_placed(pid)
        });
        if unclear.is_empty() {
            return;
        }
        let known: BTreeSet<u32> = self.ours.values().copied().collect();
        let holders: Vec<u32> = job
            .iter()
            .copied()
            .filter(|pid| !known.contains(pid) && self.holds(*pid, is_cuda_file))
            .collect();
        if holders.is_empty() {
            self.strangers.extend(unclear);
            self.bystanders = self.others_with_cuda(job).collect();
            return;
        }
        let users: Vec<u32> = holders
            .iter()
            .copied()
            .filter(|pid| !self.is_forked_from(*pid, &holders, &known))
            .collect();
        let is_alone = || {
            let mut others = self.others_with_cuda(job);
            others.all(|pid| self.bystanders.contains(&pid))
        };
        if users.len() == unclear.len() && is_alone() {
            self.ours.extend(unclear.into_iter().zip(users));
        }
    }

    /// The process of the job that has this number in some namespace and a GPU open.
    fn job_process(&self, pid: u32, job: &[u32]) -> Option<u32> {
        let goes_by = |own: &u32| *own == pid || self.inner_pids(*own).contains(&pid);
        let candidates = job.iter().copied().filter(goes_by);
        candidates
            .into_iter()
            .find(|own| self.holds(*own, is_device_file))
    }

    /// The PIDs of a process in the namespaces below that of our `/proc`; usually none.
    fn inner_pids(&self, pid: u32) -> Vec<u32> {
        let status = read_kernel_file(self.path.join(pid.to_string()).join("status"));
        let Ok(status) = status else {
            return Vec::new();
        };
        let pids = line_after(&status, b"NSpid:").unwrap_or_default();
        let inner = words(pids).skip(1);
        inner
            .filter_map(|word| u32::try_from(number(word)?).ok())
            .collect()
    }

    fn holds(&self, pid: u32, is_meant: fn(&[u8]) -> bool) -> bool {
        let folder = self.path.join(pid.to_string()).join("fd");
        let Ok(files) = std::fs::read_dir(folder) else {
            return false;
        };
        let targets = files
            .flatten()
            .filter_map(|file| std::fs::read_link(file.path()).ok());
        targets
            .into_iter()
            .any(|target| is_meant(target.as_os_str().as_bytes()))
    }

    /// Forked children share their parent's open files, and its command line until they call `exec`.
    fn is_forked_from(&self, pid: u32, holders: &[u32], known: &BTreeSet<u32>) -> bool {
        let Some(proc) = &self.proc else {
            return false;
        };
        let mut buffer = [0; STAT_BYTES];
        let Some(parent) = proc.stat_of(pid, &mut buffer).map(|stat| stat.parent) else {
            return false;
        };
        let parent_holds = holders.contains(&parent) || known.contains(&parent);
        parent_holds && command_of(proc, parent) == command_of(proc, pid)
    }

    /// Looks at every process that there is.
    fn others_with_cuda(&self, job: &[u32]) -> impl Iterator<Item = u32> {
        let pids = self.proc.as_ref().map(ProcFolder::pids);
        let pids = pids.unwrap_or_default().into_iter();
        pids.filter(|pid| job.binary_search(pid).is_err() && self.holds(*pid, is_cuda_file))
    }
}

fn named<'a>(readings: impl Iterator<Item = &'a GpuReading>) -> impl Iterator<Item = u32> {
    let processes = readings.flat_map(|reading| reading.processes.iter().flatten());
    processes.map(|process| process.pid)
}

fn is_device_file(path: &[u8]) -> bool {
    DEVICE_FILES.iter().any(|begin| path.starts_with(begin))
}

fn is_cuda_file(path: &[u8]) -> bool {
    CUDA_FILES.contains(&path)
}

#[cfg(test)]
#[path = "owners_tests.rs"]
mod tests;
