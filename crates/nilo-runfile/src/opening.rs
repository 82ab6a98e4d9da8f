//! Opening segments: the first under a free name, the next ones in what space the disk has left.

use std::io;
use std::path::Path;

use crate::clock;
use crate::error::RunfileError;
use crate::header::{ClockPair, HEADER_LEN, Magic, SegmentHeader};
use crate::names;
use crate::options::WriterOptions;
use crate::segment::{MIN_SEGMENT_BYTES, Segment};

/// Who writes.
#[derive(Clone, Copy)]
pub(crate) struct Identity {
    pid: u32,
    start_ticks: u64,
    boot_id: [u8; 16],
}

impl Identity {
    pub(crate) fn of_this_process() -> Identity {
        Identity {
            pid: std::process::id(),
            start_ticks: clock::process_start_ticks(),
            boot_id: clock::boot_id_bytes(&clock::boot_id()).unwrap_or_default(),
        }
    }
}

/// Opens segment 0 under the first free name.
pub(crate) fn first_segment(
    run_dir: &Path,
    role: &str,
    identity: Identity,
    options: &WriterOptions,
    mapped: &mut bool,
) -> Result<(String, Segment), RunfileError> {
    let base = format!("{}-{}", names::clean_role(role), identity.pid);
    let mut attempt = 1u32;
    loop {
        let name = match attempt {
            1 => base.clone(),
            _ => format!("{base}-{attempt}"),
        };
        let size = options.first_segment_bytes;
        let path = names::segment_path(run_dir, &name, 0);
        let opened = open_segment(
            run_dir,
            &name,
            0,
            identity,
            size,
            size.min(MIN_SEGMENT_BYTES),
            mapped,
        );
        match opened {
            // Segment 0 of an earlier writer of this name may have become part of its compacted file.
            Ok(_) if names::compacted_path(run_dir, &name).exists() => {
                let _ = std::fs::remove_file(&path);
            }
            Ok(segment) => return Ok((name, segment)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 100_000 => {}
            Err(error) => return Err(RunfileError::io("create a segment", &path)(error)),
        }
        attempt += 1;
    }
}

/// Creates a segment, halving its size down to `least` while the disk says that it is full.
pub(crate) fn open_segment(
    folder: &Path,
    name: &str,
    number: u32,
    identity: Identity,
    wanted: u64,
    least: u64,
    mapped: &mut bool,
) -> io::Result<Segment> {
    let path = names::segment_path(folder, name, number);
    let header = SegmentHeader {
        magic: Magic::Segment,
        header_len: HEADER_LEN,
        segment: number,
        pid: identity.pid,
        pid_start_ticks: identity.start_ticks,
        clock: ClockPair::now(identity.boot_id),
        dropped_rows: 0,
        closed_len: 0,
        closed_nanos: 0,
    };
    let mut size = wanted.max(least);
    loop {
        match Segment::create(&path, &header, size, *mapped) {
            Ok(segment) => return Ok(segment),
            Err(error) => match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded if size > least => {
                    size = (size / 2).max(least);
                }
                // No `fallocate` here (or no mapping): `write(2)` works everywhere.
                io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput if *mapped => {
                    *mapped = false;
                }
                _ if error.raw_os_error() == Some(libc::ENODEV) && *mapped => *mapped = false,
                _ => return Err(error),
            },
        }
    }
}
