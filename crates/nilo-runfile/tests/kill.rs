//! `kill -9` at a hundred random moments: what `append` returned from is there.
//!
//! The child is this test binary again. It counts the rows that `append` has accepted in a mapped file, which survives it.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod support;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nilo_runfile::{RunWriter, WriteMode, WriterOptions, monotonic_nanos};
use support::{Scratch, metrics, small_segments};

const CHILD: &str = "NILO_TEST_KILL_CHILD";
const KILLS_PER_MODE: u64 = 100;

/// The child's life; without the variable, nothing.
#[test]
fn child() {
    let Ok(settings) = std::env::var(CHILD) else {
        return;
    };
    let (mode, folder) = settings.split_once(':').unwrap();
    let folder = Path::new(folder);
    let options = WriterOptions {
        mode: match mode {
            "mapped" => WriteMode::Mapped,
            _ => WriteMode::Written,
        },
        ..small_segments(true)
    };
    let counter = std::fs::File::options()
        .read(true)
        .write(true)
        .open(folder.join("../counter"))
        .unwrap();
    // SAFETY: the file is eight bytes long and nobody shortens it while the child lives.
    let mut map = unsafe { memmap2::MmapMut::map_mut(&counter).unwrap() };
    // SAFETY: mappings are page-aligned, and this one holds eight bytes.
    let accepted = unsafe { AtomicU64::from_ptr(map.as_mut_ptr().cast()) };
    let mut writer = RunWriter::create(folder, "child", options).unwrap();
    let table = writer.define(&metrics("m", 5));
    for index in 0.. {
        let value = index as f64;
        let values = [value, value * 0.5, -value, 1.0, value.sqrt()];
        assert!(writer.append(table, monotonic_nanos(), Some(index), &values));
        accepted.store(index as u64 + 1, Ordering::Release);
    }
}

fn kill_many(mode: &str) {
    // A fixed sequence of odd delays; where the kill falls is random all the same.
    let mut delay_state = 0x9e37_79b9_7f4a_7c15u64;
    let (mut total, mut torn) = (0, 0);
    for _ in 0..KILLS_PER_MODE {
        let scratch = Scratch::new();
        let counter = scratch.root().join("counter");
        std::fs::write(&counter, [0; 8]).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(CHILD, format!("{mode}:{}", scratch.run.path().display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let accepted = || {
            let bytes = std::fs::read(&counter).unwrap();
            u64::from_le_bytes(bytes.try_into().unwrap())
        };
        while accepted() == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        delay_state = delay_state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        std::thread::sleep(Duration::from_micros(delay_state >> 50));
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));

        let recording = scratch.run.load().unwrap();
        assert_eq!(recording.damage, Vec::<String>::new());
        let table = &recording.tables[0];
        let accepted = accepted() as usize;
        assert!(
            table.times.len() >= accepted,
            "{} of {accepted}",
            table.times.len()
        );
        assert!(table.steps.iter().copied().eq(0..table.times.len() as i64));
        assert!(
            table.columns[2]
                .iter()
                .enumerate()
                .all(|(row, v)| *v == -(row as f64))
        );
        let verification = scratch.run.verify().unwrap();
        assert!(verification.ok);
        torn += u64::from(
            verification
                .files
                .iter()
                .any(|file| file.torn_tail_bytes > 0),
        );
        total += accepted;
    }
    println!("{mode}: {KILLS_PER_MODE} kills, {total} rows accepted, 0 lost, {torn} torn tails");
}

#[test]
fn no_accepted_row_is_lost_to_a_kill_when_mapped() {
    kill_many("mapped");
}

#[test]
fn no_accepted_row_is_lost_to_a_kill_when_written() {
    kill_many("written");
}
