//! The machine: memory, swap, pressure, shared memory, OOM kills.

use std::ffi::CStr;
use std::os::fd::OwnedFd;

use crate::descriptors::{read_record, read_records};
use crate::error::SourceError;
use crate::kernel_text::{labelled, labelled_kib, line_after, number};
use crate::linux::ProcFolder;
use crate::roots::Roots;

/// What the machine says of itself. The names are those of `TableSpec::host`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostReading {
    /// All memory.
    pub total_bytes: Option<u64>,
    /// What new programs can get without swapping, by the kernel's estimate.
    pub available_bytes: Option<u64>,
    /// All swap.
    pub swap_total_bytes: Option<u64>,
    /// Swap in use.
    pub swap_used_bytes: Option<u64>,
    /// Size of `/dev/shm`, where PyTorch's data workers put their batches.
    pub shm_total_bytes: Option<u64>,
    /// Used in `/dev/shm`.
    pub shm_used_bytes: Option<u64>,
    /// Time in which some task waited for memory.
    pub pressure_some_nanos: Option<u64>,
    /// Time in which all tasks waited for memory.
    pub pressure_full_nanos: Option<u64>,
    /// OOM kills since the machine was started, those in cgroups included.
    pub oom_kills: Option<u64>,
}

/// The machine's files, kept open.
#[derive(Debug)]
pub struct Host {
    meminfo: Option<OwnedFd>,
    pressure: Option<OwnedFd>,
    vmstat: Option<OwnedFd>,
    /// `/dev/shm` belongs to this machine, not to a captured tree.
    is_live: bool,
}

impl Host {
    /// Opens what is there.
    pub fn new(roots: &Roots) -> Result<Host, SourceError> {
        let proc = ProcFolder::open(&roots.proc)?;
        let open = |name: &CStr| proc.open_file(name).ok();
        Ok(Host {
            meminfo: open(c"meminfo"),
            pressure: open(c"pressure/memory"),
            vmstat: open(c"vmstat"),
            is_live: proc.is_live,
        })
    }

    /// Reads everything; about 25 µs, most of it `vmstat`.
    pub fn read(&mut self) -> HostReading {
        let mut reading = HostReading::default();
        let mut buffer = [0u8; 16 * 1024];
        if let Some(text) = record(self.meminfo.as_ref(), &mut buffer) {
            reading.total_bytes = labelled_kib(text, b"MemTotal:");
            reading.available_bytes = labelled_kib(text, b"MemAvailable:");
            reading.swap_total_bytes = labelled_kib(text, b"SwapTotal:");
            reading.swap_used_bytes = labelled_kib(text, b"SwapFree:")
                .and_then(|free| Some(reading.swap_total_bytes?.saturating_sub(free)));
        }
        if let Some(text) = record(self.pressure.as_ref(), &mut buffer) {
            reading.pressure_some_nanos = parse_pressure(text, b"some ");
            reading.pressure_full_nanos = parse_pressure(text, b"full ");
        }
        if let Some(vmstat) = &self.vmstat
            && let Ok(text) = read_records(vmstat, &mut buffer)
        {
            reading.oom_kills = labelled(text, b"oom_kill ");
        }
        if self.is_live
            && let Ok(shm) = rustix::fs::statvfs(c"/dev/shm")
        {
            reading.shm_total_bytes = shm.f_blocks.checked_mul(shm.f_frsize);
            reading.shm_used_bytes = shm
                .f_blocks
                .checked_sub(shm.f_bfree)
                .and_then(|blocks| blocks.checked_mul(shm.f_frsize));
        }
        reading
    }
}

fn record<'a>(file: Option<&OwnedFd>, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    read_record(file?, buffer).ok()
}

/// The total of a pressure file's line, which counts microseconds.
fn parse_pressure(text: &[u8], kind: &[u8]) -> Option<u64> {
    let line = line_after(text, kind)?;
    let at = line.windows(6).position(|window| window == b"total=")?;
    number(&line[at + 6..])?.checked_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn this_machine_has_memory() {
        let reading = Host::new(&Roots::default()).unwrap().read();
        let total = reading.total_bytes.unwrap();
        assert!(total > 1 << 26);
        assert!(reading.available_bytes.unwrap() <= total);
        assert!(reading.swap_used_bytes <= reading.swap_total_bytes);
        assert!(reading.oom_kills.is_some());
    }

    #[test]
    fn an_empty_proc_has_nothing_to_say() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots {
            proc: folder.path().to_owned(),
            ..Roots::default()
        };
        assert_eq!(Host::new(&roots).unwrap().read(), HostReading::default());
    }

    #[test]
    fn pressure_is_counted_in_nanoseconds() {
        let text = b"some avg10=0.00 avg60=0.00 avg300=0.00 total=120\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(parse_pressure(text, b"some "), Some(120_000));
        assert_eq!(parse_pressure(text, b"full "), Some(7_000));
        assert_eq!(parse_pressure(b"some x", b"some "), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(text: Vec<u8>) {
            let _ = parse_pressure(&text, b"some ");
        }
    }
}
