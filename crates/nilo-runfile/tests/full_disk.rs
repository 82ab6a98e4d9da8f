//! A disk that is really full: a tmpfs of one megabyte.
//!
//! Mounting takes root. Without it the test says so, and fails where `CI=true`.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod support;

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nilo_runfile::{RunFolder, RunWriter, WriteMode, WriterOptions, monotonic_nanos};
use nilo_sample::{Ending, Event, RunStatus};
use support::{description, metrics, small_segments};

/// A mounted tmpfs that goes away with the test.
struct SmallDisk {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl SmallDisk {
    fn mount() -> Option<SmallDisk> {
        SmallDisk::mount_with(c"size=1m")
    }

    fn mount_with(options: &CStr) -> Option<SmallDisk> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let target = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: all pointers are NUL-terminated strings that outlive the call.
        let outcome = unsafe {
            libc::mount(
                c"tmpfs".as_ptr(),
                target.as_ptr(),
                c"tmpfs".as_ptr(),
                0,
                options.as_ptr().cast(),
            )
        };
        if outcome != 0 {
            let why = std::io::Error::last_os_error();
            assert!(
                std::env::var_os("CI").is_none(),
                "cannot mount a tmpfs: {why}"
            );
            eprintln!("SKIPPED: cannot mount a tmpfs: {why}");
            return None;
        }
        Some(SmallDisk {
            path,
            _folder: folder,
        })
    }

    /// Leaves about this much free.
    fn fill(&self, free_bytes: usize) -> PathBuf {
        let ballast = self.path.join("ballast");
        std::fs::write(&ballast, vec![1; (1 << 20) - free_bytes - (16 << 10)]).unwrap();
        ballast
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let target = CString::new(self.path.as_os_str().as_bytes()).unwrap();
        // SAFETY: the pointer is a NUL-terminated string that outlives the call.
        unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) };
    }
}

fn fill_and_recover(mode: WriteMode, compact: bool) {
    let Some(disk) = SmallDisk::mount() else {
        return;
    };
    let start = monotonic_nanos();
    let run = RunFolder::create(&disk.path, &description(start)).unwrap();
    let ballast = disk.fill(200 << 10);
    let options = WriterOptions {
        mode,
        ..small_segments(compact)
    };
    let mut writer = RunWriter::create(run.path(), "w", options).unwrap();
    let table = writer.define(&metrics("m", 5));
    let (mut accepted, mut appended) = (Vec::new(), 0u64);
    let mut append = |writer: &mut RunWriter, count: u64| {
        for _ in 0..count {
            // Noise, so that compaction cannot make room for ever.
            let noise = (appended as f64 * 12.9898).sin() * 43_758.545_3;
            let values = [
                appended as f64,
                noise,
                noise * noise,
                noise.cos(),
                noise.tan(),
            ];
            if writer.append(table, monotonic_nanos(), None, &values) {
                accepted.push(appended as f64);
            }
            appended += 1;
        }
    };
    append(&mut writer, 60_000);
    assert!(writer.dropped() > 0, "the disk should be full");
    assert_eq!(writer.dropped_reason(), Some("disk full"));
    let dropped_while_full = writer.dropped();

    // Even now everything that fitted is readable, and the loss is counted in the file.
    let recording = run.load().unwrap();
    assert_eq!(recording.dropped_rows, dropped_while_full);

    std::fs::remove_file(&ballast).unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    append(&mut writer, 500);
    assert_eq!(writer.dropped(), dropped_while_full, "space is back");
    let dropped = writer.dropped();
    writer.close();

    let recording = run.load().unwrap();
    assert_eq!(recording.damage, Vec::<String>::new());
    assert_eq!(recording.tables[0].columns[0], accepted);
    assert_eq!(accepted.len() as u64 + dropped, appended);
    assert_eq!(recording.dropped_rows, dropped);
    let lost = recording.events.iter().map(|event| match &event.event {
        Event::Lost { rows, .. } => *rows,
        other => panic!("{other:?}"),
    });
    assert_eq!(lost.sum::<u64>(), dropped);
}

#[test]
fn a_full_disk_drops_rows_and_recovers_when_mapped() {
    fill_and_recover(WriteMode::Mapped, false);
}

#[test]
fn a_full_disk_drops_rows_and_recovers_when_written() {
    fill_and_recover(WriteMode::Written, false);
}

#[test]
fn a_full_disk_drops_rows_and_recovers_when_compacting() {
    fill_and_recover(WriteMode::Mapped, true);
}

#[test]
fn the_last_event_and_the_losses_fit_on_a_full_disk() {
    let Some(disk) = SmallDisk::mount() else {
        return;
    };
    let run = RunFolder::create(&disk.path, &description(monotonic_nanos())).unwrap();
    disk.fill(100 << 10);
    let options = WriterOptions {
        mode: WriteMode::Mapped,
        ..small_segments(false)
    };
    let mut writer = RunWriter::create(run.path(), "w", options).unwrap();
    // Rows of several sizes, so that the segment is full whatever is left of it.
    let (wide, narrow) = (
        writer.define(&metrics("wide", 40)),
        writer.define(&metrics("narrow", 1)),
    );
    while writer.append(wide, monotonic_nanos(), None, &[1.0; 40]) {}
    std::thread::sleep(Duration::from_millis(1100));
    while writer.append(narrow, monotonic_nanos(), None, &[1.0]) {}
    let ended = Event::CommandEnded {
        cpu_nanos: Some(u64::MAX),
        exit_code: Some(137),
        signal: None,
        peak_bytes: Some(u64::MAX),
    };
    let dropped = writer.dropped();
    assert!(dropped > 0);
    // What nobody logged is no loss.
    assert!(!writer.event_if_room(monotonic_nanos(), &ended));
    assert_eq!(writer.dropped(), dropped);
    assert!(writer.last_event(monotonic_nanos(), &ended));
    assert_eq!(writer.dropped(), dropped);
    writer.close();
    let recording = run.load().unwrap();
    assert_eq!(recording.damage, Vec::<String>::new());
    assert_eq!(recording.dropped_rows, dropped);
    let told: Vec<&Event> = recording.events.iter().map(|timed| &timed.event).collect();
    assert_eq!(told.last(), Some(&&ended), "{told:?}");
    assert!(
        told.iter()
            .any(|event| matches!(event, Event::Lost { reason, .. } if reason == "disk full"))
    );
}

#[test]
fn a_disk_without_a_single_free_page_is_an_error_at_the_start() {
    let Some(disk) = SmallDisk::mount() else {
        return;
    };
    let run = RunFolder::create(&disk.path, &description(0)).unwrap();
    let mut ballast = std::fs::File::create(disk.path.join("ballast")).unwrap();
    while std::io::Write::write(&mut ballast, &[1; 4096]).is_ok_and(|count| count > 0) {}
    let error = RunWriter::create(run.path(), "w", WriterOptions::default()).err();
    assert!(error.unwrap().hint().unwrap().contains("free some space"));
    assert_eq!(segments(run.path()), 0);
}

#[test]
fn a_full_disk_is_compacted_before_rows_are_dropped() {
    let Some(disk) = SmallDisk::mount() else {
        return;
    };
    let run = RunFolder::create(&disk.path, &description(monotonic_nanos())).unwrap();
    disk.fill(80 << 10);
    let options = WriterOptions {
        mode: WriteMode::Mapped,
        first_segment_bytes: 64 << 10,
        max_segment_bytes: 64 << 10,
        compact: true,
        ..WriterOptions::default()
    };
    let mut writer = RunWriter::create(run.path(), "w", options).unwrap();
    let table = writer.define(&metrics("m", 5));
    // The disk has room for one segment of about 1,000 rows; compressed, these take a fraction of it.
    for index in 0..4_000 {
        let values = [f64::from(index), 1.0, 2.0, 3.0, 4.0];
        assert!(
            writer.append(table, monotonic_nanos(), None, &values),
            "row {index} was dropped: {:?}",
            writer.dropped_reason()
        );
    }
    // A reader of the half-compacted run sees every row.
    let recording = run.load().unwrap();
    assert_eq!(recording.tables[0].times.len(), 4_000);
    writer.close();
    let recording = run.load().unwrap();
    assert_eq!(recording.damage, Vec::<String>::new());
    assert_eq!(recording.dropped_rows, 0);
    let expected: Vec<f64> = (0..4_000).map(f64::from).collect();
    assert_eq!(recording.tables[0].columns[0], expected);
}

#[test]
fn the_description_is_replaced_without_a_free_inode() {
    let Some(disk) = SmallDisk::mount_with(c"size=1m,nr_inodes=32") else {
        return;
    };
    let mut described = description(monotonic_nanos());
    described.name = Some("a name that the shorter description does not have".repeat(9));
    let run = RunFolder::create(&disk.path, &described).unwrap();
    let mut count = 0;
    while std::fs::File::create(disk.path.join(format!("ballast-{count}"))).is_ok() {
        count += 1;
    }
    for (name, exit_code) in [(None, 0), (Some("x".repeat(9000)), 1)] {
        described.name = name;
        described.ending = Some(Ending {
            status: RunStatus::Exited,
            exit_code: Some(exit_code),
            signal: None,
            time_nanos: 6_000_000_000,
            oom: None,
            left_running: Vec::new(),
            recorder_death: None,
            lost_rank: None,
            gpu_out_of_memory: None,
        });
        run.write_description(&described).unwrap();
        assert_eq!(run.describe().unwrap(), described);
    }
    // Where there is no block left either, what was there stays.
    let mut ballast = std::fs::OpenOptions::new()
        .append(true)
        .open(disk.path.join("ballast-0"))
        .unwrap();
    while std::io::Write::write(&mut ballast, &[1; 4096]).is_ok_and(|count| count > 0) {}
    let before = run.describe().unwrap();
    described.name = Some("y".repeat(90_000));
    run.write_description(&described).unwrap_err();
    assert_eq!(run.describe().unwrap(), before);
}

fn segments(path: &Path) -> usize {
    let names = std::fs::read_dir(path).unwrap();
    names
        .filter(|name| {
            name.as_ref()
                .unwrap()
                .path()
                .extension()
                .is_some_and(|e| e == "nilo")
        })
        .count()
}

#[test]
fn an_attachment_that_does_not_fit_leaves_nothing_and_recording_goes_on() {
    let Some(disk) = SmallDisk::mount() else {
        return;
    };
    let start = monotonic_nanos();
    let run = RunFolder::create(&disk.path, &description(start)).unwrap();
    let mut writer = RunWriter::create(run.path(), "w", small_segments(false)).unwrap();
    let table = writer.define(&metrics("m", 1));
    let full = writer.attach("large", "text/plain", &mut &vec![7; 2 << 20][..]);
    let full = full.unwrap_err();
    let cause = std::error::Error::source(&full).unwrap().to_string();
    assert!(cause.contains("No space left"), "{full}: {cause}");
    assert_eq!(run.attachments().unwrap(), []);
    assert!(writer.append(table, start, None, &[1.0]));
    writer
        .attach("small", "text/plain", &mut &b"fits"[..])
        .unwrap();
    assert_eq!(run.attachments().unwrap().len(), 1);
    assert_eq!(writer.dropped(), 0);
    assert!(run.verify().unwrap().ok);
}

#[test]
fn a_run_that_cannot_be_described_leaves_no_folder() {
    let Some(disk) = SmallDisk::mount() else {
        return;
    };
    let runs = disk.path.join(".nilo");
    std::fs::create_dir(&runs).unwrap();
    // Folders take no blocks of a tmpfs, so one can be made when there is none left.
    std::fs::write(disk.path.join("ballast"), vec![1; 2 << 20]).unwrap_err();
    RunFolder::create(&runs, &description(0)).unwrap_err();
    let left = std::fs::read_dir(&runs).unwrap().flatten();
    let folders: Vec<_> = left.filter(|it| it.path().is_dir()).collect();
    assert!(folders.is_empty(), "{folders:?}");
}
