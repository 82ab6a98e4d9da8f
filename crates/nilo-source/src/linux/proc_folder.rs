//! `/proc` as a kept-open folder: paths of processes are built on the stack and opened below it.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::descriptors::{open_below, open_folder, read_record};
use crate::error::SourceError;
use crate::kernel_text::number;
use crate::linux::stat::{Rollup, Stat, parse_rollup, parse_stat};

/// Room for `stat`: 52 numbers of at most 20 digits and a name of 64 bytes.
pub(crate) const STAT_BYTES: usize = 1280;

/// `/proc`, or a captured copy of it.
#[derive(Debug)]
pub(crate) struct ProcFolder {
    folder: OwnedFd,
    path: PathBuf,
    /// Whether its PIDs are those of our own system calls: false for a captured tree and for another namespace's `/proc`.
    pub(crate) is_live: bool,
    pub(crate) page_bytes: u64,
    pub(crate) ticks_per_sec: u64,
}

impl ProcFolder {
    pub(crate) fn open(path: &Path) -> Result<ProcFolder, SourceError> {
        let folder = open_folder(path).map_err(|error| SourceError::Read {
            path: path.to_owned(),
            source: error.into(),
        })?;
        let own_pid = std::process::id().to_string();
        let is_live = std::fs::read_link(path.join("self"))
            .is_ok_and(|target| target.as_os_str() == own_pid.as_str());
        Ok(ProcFolder {
            folder,
            path: path.to_owned(),
            is_live,
            page_bytes: page_bytes(),
            ticks_per_sec: system_value(libc::_SC_CLK_TCK).unwrap_or(100),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens `PID/name`.
    pub(crate) fn open_of(&self, pid: u32, name: &str) -> rustix::io::Result<OwnedFd> {
        let path = ProcPath::new(pid, name);
        open_below(self.folder.as_fd(), path.as_c_str())
    }

    /// Opens a file that belongs to no process, such as `loadavg`.
    pub(crate) fn open_file(&self, name: &CStr) -> rustix::io::Result<OwnedFd> {
        open_below(self.folder.as_fd(), name)
    }

    /// Opens, reads and parses `PID/stat`.
    pub(crate) fn stat_of<'a>(
        &self,
        pid: u32,
        buffer: &'a mut [u8; STAT_BYTES],
    ) -> Option<Stat<'a>> {
        let file = self.open_of(pid, "stat").ok()?;
        parse_stat(read_record(file, buffer).ok()?)
    }

    /// Opens, reads and parses `PID/smaps_rollup`.
    ///
    /// The file is not kept open: it belongs to the address space at the time of opening, which `exec` replaces.
    pub(crate) fn rollup_of(&self, pid: u32) -> rustix::io::Result<Option<Rollup>> {
        let mut buffer = [0u8; 2048];
        let file = self.open_of(pid, "smaps_rollup")?;
        read_record(file, &mut buffer).map(parse_rollup)
    }

    /// Every PID in the folder; allocates, for cold paths.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let Ok(entries) = std::fs::read_dir(&self.path) else {
            return Vec::new();
        };
        entries
            .flatten()
            .filter_map(|entry| pid_of_name(entry.file_name().as_encoded_bytes()))
            .collect()
    }

    /// The path of `PID/name`, for cold paths.
    pub(crate) fn path_of(&self, pid: u32, name: &str) -> PathBuf {
        self.path.join(pid.to_string()).join(name)
    }
}

/// A folder's name as a PID; other names are `None`.
pub(crate) fn pid_of_name(name: &[u8]) -> Option<u32> {
    if name.is_empty() || !name.iter().all(u8::is_ascii_digit) {
        return None;
    }
    u32::try_from(number(name)?).ok().filter(|pid| *pid > 0)
}

/// The size of a page, in which `statm` counts.
pub(crate) fn page_bytes() -> u64 {
    system_value(libc::_SC_PAGESIZE).unwrap_or(4096)
}

fn system_value(name: libc::c_int) -> Option<u64> {
    // SAFETY: sysconf takes any number and touches no memory of ours.
    let value = unsafe { libc::sysconf(name) };
    u64::try_from(value).ok().filter(|value| *value > 0)
}

/// `PID/name` with a NUL at its end, on the stack.
struct ProcPath {
    bytes: [u8; 64],
}

impl ProcPath {
    /// Longer names than ever occur are cut and then simply not found.
    fn new(pid: u32, name: &str) -> ProcPath {
        let mut bytes = [0u8; 64];
        let mut digits = [0u8; 10];
        let mut first = digits.len();
        let mut rest = pid;
        loop {
            first -= 1;
            digits[first] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        let text = digits[first..]
            .iter()
            .copied()
            .chain(std::iter::once(b'/'))
            .chain(name.bytes());
        // One byte stays zero at the end.
        let room = bytes.len() - 1;
        for (slot, byte) in bytes[..room].iter_mut().zip(text) {
            *slot = byte;
        }
        ProcPath { bytes }
    }

    fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_built_without_allocation() {
        assert_eq!(ProcPath::new(0, "a").as_c_str(), c"0/a");
        assert_eq!(
            ProcPath::new(u32::MAX, "task/4294967295/statm").as_c_str(),
            c"4294967295/task/4294967295/statm"
        );
        assert_eq!(
            ProcPath::new(1, &"x".repeat(200)).as_c_str().count_bytes(),
            63
        );
    }

    #[test]
    fn only_numbers_are_pids() {
        assert_eq!(pid_of_name(b"12"), Some(12));
        for name in [&b""[..], b"self", b"0", b"12x", b"99999999999"] {
            assert_eq!(pid_of_name(name), None);
        }
    }

    #[test]
    fn the_live_folder_knows_that_it_is_live() {
        let folder = ProcFolder::open(Path::new("/proc")).unwrap();
        assert!(folder.is_live);
        let mut buffer = [0; STAT_BYTES];
        let stat = folder.stat_of(std::process::id(), &mut buffer).unwrap();
        assert!(stat.threads >= 1 && stat.start_ticks > 0);
    }
}
