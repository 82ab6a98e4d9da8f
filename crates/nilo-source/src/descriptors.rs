//! Kept-open files: one `pread` instead of open, read and close (1 µs against 4.6 µs for `statm`).
//!
//! A descriptor on a file of `/proc/PID` also protects against PID reuse: once that process is gone it reads `ESRCH`, whoever has the PID then.

use std::ffi::CStr;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, openat};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::SourceError;

/// Opens a file for reading; it is closed in any program that we start.
pub(crate) fn open_below(folder: BorrowedFd<'_>, path: &CStr) -> rustix::io::Result<OwnedFd> {
    openat(
        folder,
        path,
        OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY,
        Mode::empty(),
    )
}

/// Opens a folder likewise.
pub(crate) fn open_folder(path: &std::path::Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(
        path,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

/// Reads a file of one record (`stat`, `status`, `meminfo`, `memory.stat`): one call gives all of it that fits.
pub(crate) fn read_record(fd: impl AsFd, buffer: &mut [u8]) -> rustix::io::Result<&[u8]> {
    let fd = fd.as_fd();
    loop {
        match rustix::io::pread(fd, &mut *buffer, 0) {
            Ok(count) => return Ok(&buffer[..count]),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Reads a file of many records (`vmstat`), which the kernel hands out in pieces, as much as fits.
pub(crate) fn read_records(fd: impl AsFd, buffer: &mut [u8]) -> rustix::io::Result<&[u8]> {
    let fd = fd.as_fd();
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::io::pread(fd, &mut buffer[filled..], filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(&buffer[..filled])
}

/// All of a file that the kernel writes as it is read.
///
/// Such files do not say how long they are, and `std::fs::read` begins with 32 bytes: fourteen calls for a mount list instead of two.
pub(crate) fn read_kernel_file(path: impl AsRef<std::path::Path>) -> io::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(4096);
    std::fs::File::open(path)?.read_to_end(&mut text)?;
    Ok(text)
}

/// Raises our own soft limit on open files to the hard one and returns what it was, for the child to go back to.
///
/// Programs that use `select` break with descriptors above 1023, so a job must never inherit the raised limit.
pub fn raise_own_fd_limit() -> Result<Option<u64>, SourceError> {
    let before = getrlimit(Resource::Nofile);
    if before.current == before.maximum {
        return Ok(before.current);
    }
    let raised = Rlimit {
        current: before.maximum,
        maximum: before.maximum,
    };
    setrlimit(Resource::Nofile, raised).map_err(|error| SourceError::FdLimit {
        source: io::Error::from(error),
    })?;
    Ok(before.current)
}

/// How many descriptors may be kept open for processes, with room left for everything else that the program opens.
pub(crate) fn descriptor_allowance() -> usize {
    const RESERVED: u64 = 200;
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20);
    usize::try_from(limit.saturating_sub(RESERVED).min(1 << 20)).unwrap_or(0)
}
