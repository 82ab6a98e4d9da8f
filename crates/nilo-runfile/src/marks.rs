//! Events of processes too short-lived for a stream: `nilo mark` in a shell loop, a hook of the scheduler.
//!
//! All share one file. Each event is a single `write(2)` to a file opened for appending, which the kernel keeps apart from those of other processes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nilo_sample::Event;

use crate::clock;
use crate::error::RunfileError;
use crate::filesystem;
use crate::header::{ClockPair, HEADER_LEN, Magic, SegmentHeader};
use crate::load::open_with_header;
use crate::names;
use crate::record::{self, MAX_BODY_LEN};

/// Adds an event to a run, at the present moment, from any process.
pub fn append_event(run_dir: &Path, event: &Event) -> Result<(), RunfileError> {
    append_event_at(run_dir, clock::monotonic_nanos(), event)
}

/// Adds an event at a moment of this boot's monotonic clock.
pub fn append_event_at(run_dir: &Path, time_nanos: u64, event: &Event) -> Result<(), RunfileError> {
    let path = run_dir.join(names::MARKS);
    let (mut file, record) = open_for(run_dir, &path, time_nanos, event)?;
    let mut append = || -> io::Result<()> {
        let written = file.write(&record)?;
        // A part of a record is garbage that readers step over; the event itself is lost, and the caller is told.
        if written == record.len() {
            Ok(())
        } else {
            Err(io::ErrorKind::StorageFull.into())
        }
    };
    append().map_err(RunfileError::io("append to", &path))
}

/// The longest event that can be prepared.
const MAX_PREPARED_LEN: usize = 256;

/// An event that a signal handler may add to a run: the file is open and the record encoded.
#[derive(Debug)]
pub struct PreparedEvent {
    file: File,
    record: Vec<u8>,
}

impl PreparedEvent {
    /// Makes everything ready; the run is one that this process has just made.
    pub fn new(run_dir: &Path, event: &Event) -> Result<PreparedEvent, RunfileError> {
        let path = run_dir.join(names::MARKS);
        let (file, record) = open_for(run_dir, &path, clock::monotonic_nanos(), event)?;
        if record.len() > MAX_PREPARED_LEN {
            return Err(too_large(&path, MAX_PREPARED_LEN));
        }
        Ok(PreparedEvent { file, record })
    }

    /// Adds the event at the present moment. Async-signal-safe: it neither allocates nor locks. False when it could not be stored.
    pub fn append_now(&self) -> bool {
        let mut space = [0; MAX_PREPARED_LEN];
        let record = &mut space[..self.record.len()];
        record.copy_from_slice(&self.record);
        record::set_event_time(record, clock::monotonic_nanos());
        (&self.file)
            .write(record)
            .is_ok_and(|written| written == record.len())
    }
}

/// The file of marks, opened for appending, and the event as a record of it.
fn open_for(
    run_dir: &Path,
    path: &Path,
    time_nanos: u64,
    event: &Event,
) -> Result<(File, Vec<u8>), RunfileError> {
    let json = serde_json::to_vec(event).map_err(|source| RunfileError::Encode {
        path: path.to_owned(),
        source,
    })?;
    let header = match open_with_header(path, Magic::Segment) {
        Ok((_, header)) => header,
        Err(RunfileError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            create(run_dir, path).map_err(RunfileError::io("create", path))?;
            open_with_header(path, Magic::Segment)?.1
        }
        Err(error) => return Err(error),
    };
    let time_nanos = on_the_files_clock(&header.clock, time_nanos);
    let record =
        record::encode_event(time_nanos, &json).ok_or_else(|| too_large(path, MAX_BODY_LEN))?;
    let file = OpenOptions::new()
        .append(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(path)
        .map_err(RunfileError::io("append to", path))?;
    Ok((file, record))
}

fn too_large(path: &Path, limit_bytes: usize) -> RunfileError {
    RunfileError::TooLarge {
        what: "the event",
        limit_bytes: limit_bytes as u64,
        path: path.to_owned(),
    }
}

/// The time on the clock of the process that created the file, which may have run before a reboot or on another machine.
fn on_the_files_clock(file: &ClockPair, time_nanos: u64) -> u64 {
    let boot_id = clock::boot_id_bytes(&clock::boot_id()).unwrap_or_default();
    if file.boot_id == boot_id && boot_id != [0; 16] {
        return time_nanos;
    }
    let here = ClockPair::now(boot_id);
    let unix_nanos =
        i128::from(here.unix_nanos) - i128::from(here.monotonic_nanos) + i128::from(time_nanos);
    let there = unix_nanos - i128::from(file.unix_nanos) + i128::from(file.monotonic_nanos);
    there.clamp(0, i128::from(u64::MAX)) as u64
}

/// Makes the file with its header under another name and links it, so that nobody ever sees it without one.
fn create(run_dir: &Path, path: &Path) -> io::Result<()> {
    let draft = run_dir.join(format!(
        "{}.{}.{}.tmp",
        names::MARKS,
        std::process::id(),
        clock::monotonic_nanos()
    ));
    let header = SegmentHeader {
        magic: Magic::Segment,
        header_len: HEADER_LEN,
        segment: 0,
        pid: std::process::id(),
        pid_start_ticks: clock::process_start_ticks(),
        clock: ClockPair::now(clock::boot_id_bytes(&clock::boot_id()).unwrap_or_default()),
        dropped_rows: 0,
        closed_len: 0,
        closed_nanos: 0,
    };
    let linked = filesystem::create_new(&draft)
        .and_then(|mut file| file.write_all(&header.encode()))
        .and_then(|()| fs::hard_link(&draft, path));
    let _ = fs::remove_file(&draft);
    match linked {
        // Another process was first: its file is as good.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}
