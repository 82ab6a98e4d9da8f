//! The process's own peak of resident memory, the right way on each system.

use pyo3::prelude::*;

/// The largest resident memory of this process so far, in bytes.
///
/// On Linux it is the kernel's `VmHWM`: `ru_maxrss` would be that of the program that started us, if that was larger, because it survives `exec`.
/// On macOS it is `ru_maxrss`, which counts bytes there (on Linux it counts KiB).
#[pyfunction]
pub(crate) fn peak_rss() -> PyResult<u64> {
    read().ok_or_else(|| {
        pyo3::exceptions::PyOSError::new_err("this system does not tell a process's peak memory")
    })
}

#[cfg(target_os = "linux")]
fn read() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(not(target_os = "linux"))]
fn read() -> Option<u64> {
    // SAFETY: getrusage fills the structure, which is plain numbers.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::getrusage(libc::RUSAGE_SELF, &mut usage) == 0).then_some(usage)?
    };
    let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
    Some(u64::try_from(usage.ru_maxrss).ok()? * unit)
}
