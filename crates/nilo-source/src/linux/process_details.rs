//! What is read of a process about once a second, and how many faults it had.

use rustix::io::Errno;

use super::{ProcFile, ProcessFiles, open_fd_folder, short_name};
use crate::linux::children_cpu::children_nanos;
use crate::linux::proc_folder::ProcFolder;
use crate::linux::stat::{Stat, parse_io, parse_stat, parse_status};
use crate::tracked_process::{ProcessDetail, ProcessReading, ResidentMemory};

impl ProcessFiles {
    /// Reads what changes slowly. The answer says whether the program may be another one than before.
    pub(crate) fn read_detail(
        &mut self,
        proc: &ProcFolder,
        reading: ProcessReading,
        detail: &mut ProcessDetail,
    ) -> DetailOutcome {
        let mut outcome = DetailOutcome::default();
        self.detail_after = Some(reading);
        let mut buffer = [0u8; 4096];
        if let Ok(text) = self.read_file(proc, ProcFile::Stat, &mut buffer)
            && let Some(stat) = parse_stat(text)
        {
            if stat.start_ticks != self.start_ticks {
                self.is_other = true;
                return outcome;
            }
            detail.threads = Some(stat.threads);
            detail.minor_faults = Some(stat.minor_faults);
            detail.major_faults = Some(stat.major_faults);
            let comm = short_name(stat.comm);
            outcome.children_nanos = Some(children_nanos(&stat, proc.ticks_per_sec));
            self.children.parent = stat.parent;
            outcome.leads_session = stat.session == self.pid;
            outcome.program_changed = comm != self.comm || stat.arguments_at != self.arguments_at;
            outcome.memory_replaced = self.notice_layout(&stat);
            self.comm = comm;
            self.arguments_at = stat.arguments_at;
        }
        if let Ok(text) = self.read_file(proc, ProcFile::Status, &mut buffer) {
            let status = parse_status(text);
            // Marks are kept when a dying process has none to show; after `exec` they begin anew, as the kernel's do.
            detail.peak_rss_bytes = status.peak_rss_bytes.or(detail.peak_rss_bytes);
            let resident = status.rss_bytes.zip(status.anon_bytes);
            detail.at_mark = resident.map(|(rss_bytes, anon_bytes)| ResidentMemory {
                rss_bytes,
                anon_bytes,
            });
            detail.peak_virtual_bytes = status.peak_virtual_bytes.or(detail.peak_virtual_bytes);
            detail.data_bytes = status.data_bytes.or(detail.data_bytes);
            detail.swap_bytes = status.swap_bytes;
        }
        if !self.io_refused {
            match self.read_file(proc, ProcFile::Io, &mut buffer) {
                Ok(text) => (detail.read_bytes, detail.written_bytes) = parse_io(text),
                Err(Errno::ACCESS | Errno::PERM) => {
                    self.io_refused = true;
                    outcome.refused = true;
                }
                // About to go, or a kernel without I/O accounting.
                Err(_) => {}
            }
        }
        detail.open_files = self.count_open_files(proc);
        outcome
    }

    /// Whether the address space is another one than before.
    pub(super) fn notice_layout(&mut self, stat: &Stat<'_>) -> bool {
        let layout = stat.layout();
        let replaced = layout.is_some() && layout != self.layout;
        if replaced {
            self.layout = layout;
        }
        replaced
    }

    /// Reads how many minor faults there were, what was resident at that moment, and whether the address space was replaced.
    pub(crate) fn read_faults(&mut self, proc: &ProcFolder) -> Option<Faults> {
        let mut buffer = [0u8; 4096];
        let text = self.read_file(proc, ProcFile::Stat, &mut buffer).ok()?;
        let stat = parse_stat(text).filter(|stat| stat.start_ticks == self.start_ticks)?;
        Some(Faults {
            minor: stat.minor_faults,
            children_nanos: children_nanos(&stat, proc.ticks_per_sec),
            rss_bytes: stat.rss_pages.saturating_mul(proc.page_bytes),
            memory_replaced: self.notice_layout(&stat),
        })
    }

    /// From Linux 6.2 on, the size of `/proc/PID/fd` is the number of open files and needs no permission; before, it is 0 and the entries are counted.
    pub(super) fn count_open_files(&self, proc: &ProcFolder) -> Option<u64> {
        let size = match &self.fd_folder {
            Some(fd) => rustix::fs::fstat(fd).ok()?.st_size,
            None => {
                let fd = open_fd_folder(proc, self.pid)?;
                rustix::fs::fstat(fd).ok()?.st_size
            }
        };
        match u64::try_from(size) {
            Ok(size) if size > 0 && proc.is_live => Some(size),
            _ => {
                let entries = std::fs::read_dir(proc.path_of(self.pid, "fd")).ok()?;
                Some(entries.count() as u64)
            }
        }
    }
}

/// What reading the detail brought to light.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DetailOutcome {
    /// Another short name or other arguments: look at the command line again.
    pub(crate) program_changed: bool,
    /// It leads its session.
    pub(crate) leads_session: bool,
    /// Another address space: `exec`.
    pub(crate) memory_replaced: bool,
    /// CPU time of the children that it waited for.
    pub(crate) children_nanos: Option<u64>,
    /// A file was refused for the first time.
    pub(crate) refused: bool,
}

/// Faults, with the memory that they led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Faults {
    pub(crate) minor: u64,
    /// CPU time of the children that it waited for, which the same file tells.
    pub(crate) children_nanos: u64,
    pub(crate) rss_bytes: u64,
    /// Another address space: `exec`.
    pub(crate) memory_replaced: bool,
}
