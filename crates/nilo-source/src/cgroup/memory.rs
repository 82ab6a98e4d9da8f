//! One memory cgroup with its files kept open.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::cgroup::place::{CgroupAncestor, levels_of};
use crate::cgroup::reading::{
    CgroupReading, parse_count, parse_limit, parse_memory_stat, working_set,
};
use crate::descriptors::read_kernel_file;
use crate::descriptors::{open_folder, read_record};
use crate::error::SourceError;
use crate::kernel_text::number;
use crate::roots::Roots;

/// A cgroup with more cgroups below it than this is somebody's whole machine, not a job.
const MOST_FOLDERS_BELOW: usize = 256;

/// A memory cgroup, version 1 or 2.
#[derive(Debug)]
pub struct MemoryCgroup {
    path: String,
    pub(super) folder: PathBuf,
    version: u8,
    usage: OwnedFd,
    peak: Option<OwnedFd>,
    limit: Option<OwnedFd>,
    stat: Option<OwnedFd>,
    events: Option<OwnedFd>,
    swap: Option<OwnedFd>,
    /// Kills counted in the cgroups below; version 1 counts each kill where the victim was.
    kills_below: BTreeMap<PathBuf, u64>,
    /// The same in cgroups that are gone since: they took their counters with them.
    kills_gone: u64,
}

impl MemoryCgroup {
    /// The nearest cgroup of the process that accounts for memory; `None` where there is none, as at version 2's root.
    pub fn of_process(roots: &Roots, pid: u32) -> Result<Option<MemoryCgroup>, SourceError> {
        if !roots.proc.join(pid.to_string()).exists() {
            return Err(SourceError::NoSuchProcess { pid });
        }
        Ok(levels_of(roots, pid)
            .into_iter()
            .find_map(|level| MemoryCgroup::open(level).ok()))
    }

    /// The cgroup in this folder. `path` is how it is called.
    pub fn at(folder: &Path, path: &str, version: u8) -> Result<MemoryCgroup, SourceError> {
        MemoryCgroup::open(CgroupAncestor {
            path: path.to_owned(),
            folder: folder.to_owned(),
            version,
        })
    }

    pub(crate) fn open(level: CgroupAncestor) -> Result<MemoryCgroup, SourceError> {
        let CgroupAncestor {
            path,
            folder,
            version,
        } = level;
        let open = |name: &str| std::fs::File::open(folder.join(name)).map(OwnedFd::from);
        let [usage, peak, limit, events] = match version {
            1 => [
                "memory.usage_in_bytes",
                "memory.max_usage_in_bytes",
                "memory.limit_in_bytes",
                "memory.oom_control",
            ],
            _ => [
                "memory.current",
                "memory.peak",
                "memory.max",
                "memory.events",
            ],
        };
        Ok(MemoryCgroup {
            usage: open(usage).map_err(|source| SourceError::Read {
                path: folder.join(usage),
                source,
            })?,
            peak: open(peak).ok(),
            limit: open(limit).ok(),
            stat: open("memory.stat").ok(),
            events: open(events).ok(),
            swap: open("memory.swap.current").ok(),
            path,
            folder,
            version,
            kills_below: BTreeMap::new(),
            kills_gone: 0,
        })
    }

    /// The path below the hierarchy's root, such as `/slurm/uid_0/job_3`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// 1 or 2.
    pub fn version(&self) -> u8 {
        self.version
    }

    /// Usage alone, page cache included: one read.
    pub fn usage_bytes(&self) -> Option<u64> {
        value_in(Some(&self.usage), &mut [0u8; 64])
    }

    /// Reads it. Without `with_stat` (usage, peak, limit and counters only: about 3 µs instead of 10) the parts of `memory.stat`, and the working set with them, are absent.
    pub fn read(&mut self, with_stat: bool) -> CgroupReading {
        let mut buffer = [0u8; 8192];
        let mut reading = CgroupReading {
            usage_bytes: value_in(Some(&self.usage), &mut buffer),
            peak_bytes: value_in(self.peak.as_ref(), &mut buffer),
            limit_bytes: text_in(self.limit.as_ref(), &mut buffer).and_then(parse_limit),
            swap_bytes: value_in(self.swap.as_ref(), &mut buffer),
            ..CgroupReading::default()
        };
        if let Some(text) = text_in(self.events.as_ref(), &mut buffer) {
            reading.oom_kills = parse_count(text, "oom_kill");
            reading.limit_hits = parse_count(text, "max");
        }
        if self.version == 1 {
            if with_stat {
                self.count_kills_below();
            }
            let below = self
                .kills_below
                .values()
                .fold(self.kills_gone, |sum, kills| sum.saturating_add(*kills));
            reading.oom_kills = reading.oom_kills.map(|own| own.saturating_add(below));
        }
        if with_stat && let Some(text) = text_in(self.stat.as_ref(), &mut buffer) {
            let stat = parse_memory_stat(text, self.version);
            reading.anon_bytes = stat.anon_bytes;
            reading.file_bytes = stat.file_bytes;
            reading.shmem_bytes = stat.shmem_bytes;
            reading.swap_bytes = reading.swap_bytes.or(stat.swap_bytes);
            reading.working_set_bytes = working_set(reading.usage_bytes, stat.inactive_file_bytes);
        }
        reading
    }

    /// Whether every process in it and below is one of `is_ours`; `None` when that cannot be read.
    ///
    /// When true, its figures are the job's own.
    pub fn owned_by(&self, is_ours: &dyn Fn(u32) -> bool) -> Option<bool> {
        for folder in std::iter::once(self.folder.clone()).chain(self.folders_below()) {
            let text = match read_kernel_file(folder.join("cgroup.procs")) {
                Ok(text) => text,
                // Removed since it was listed: nobody is in it.
                Err(_) if folder != self.folder => continue,
                Err(_) => return None,
            };
            for line in text
                .split(|byte| *byte == b'\n')
                .filter(|line| !line.is_empty())
            {
                // A process of a namespace that we cannot see into is written as 0.
                let pid = number(line).and_then(|pid| u32::try_from(pid).ok())?;
                if !is_ours(pid) {
                    return Some(false);
                }
            }
        }
        Some(true)
    }

    /// Version 1's counters do not add up towards the root, so that is done here, once a second at most.
    fn count_kills_below(&mut self) {
        let before = std::mem::take(&mut self.kills_below);
        for folder in self.folders_below() {
            let kills = read_kernel_file(folder.join("memory.oom_control"))
                .ok()
                .and_then(|text| parse_count(&text, "oom_kill"));
            if let Some(kills) = kills {
                self.kills_below.insert(folder, kills);
            }
        }
        for (folder, kills) in before {
            // Gone, or made anew under the same name.
            if self
                .kills_below
                .get(&folder)
                .is_none_or(|fresh| *fresh < kills)
            {
                self.kills_gone = self.kills_gone.saturating_add(kills);
            }
        }
    }

    /// The cgroups below, at most [`MOST_FOLDERS_BELOW`].
    fn folders_below(&self) -> Vec<PathBuf> {
        // A folder's link count is two and one for each folder in it: most cgroups have none, and are not listed.
        let has_none = open_folder(&self.folder)
            .and_then(rustix::fs::fstat)
            .is_ok_and(|stat| stat.st_nlink == 2);
        if has_none {
            return Vec::new();
        }
        let mut found: Vec<PathBuf> = Vec::new();
        let mut next = 0;
        let mut folder = self.folder.clone();
        loop {
            let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
            found.extend(
                entries
                    .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                    .map(|entry| entry.path())
                    .take(MOST_FOLDERS_BELOW.saturating_sub(found.len())),
            );
            let Some(following) = found.get(next) else {
                return found;
            };
            folder = following.clone();
            next += 1;
        }
    }
}

fn text_in<'a>(file: Option<&OwnedFd>, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    read_record(file?, buffer).ok()
}

fn value_in(file: Option<&OwnedFd>, buffer: &mut [u8]) -> Option<u64> {
    text_in(file, buffer).and_then(number)
}
