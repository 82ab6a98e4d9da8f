//! Several processes write at once; a follower sees everything, in order, while segments are compacted away under it.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nilo_runfile::{RunWriter, append_event, monotonic_nanos};
use nilo_sample::Event;
use support::{Scratch, metrics, small_segments};

const CHILD: &str = "NILO_TEST_FOLLOW_CHILD";
const ROWS: i64 = 30_000;
const MARKS: usize = 400;

/// One of the writing processes; without the variable, nothing.
#[test]
fn child() {
    let Ok(settings) = std::env::var(CHILD) else {
        return;
    };
    let (role, folder) = settings.split_once(':').unwrap();
    let folder = Path::new(folder);
    if role == "marker" {
        for index in 0..MARKS {
            let text = format!("{} {index}", std::process::id());
            append_event(folder, &Event::Mark { text }).unwrap();
        }
        return;
    }
    let mut writer = RunWriter::create(folder, role, small_segments(true)).unwrap();
    let table = writer.define(&metrics("m", 3));
    for step in 0..ROWS {
        let value = step as f64;
        assert!(writer.append(
            table,
            monotonic_nanos(),
            Some(step),
            &[value, value.sin(), 0.0]
        ));
        if step % 1000 == 0 {
            let text = format!("{step}");
            assert!(writer.event(monotonic_nanos(), &Event::Mark { text }));
        }
    }
}

fn start(role: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(CHILD, format!("{role}:{}", folder.display()))
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_follower_sees_every_row_of_every_process_once_and_in_order() {
    let scratch = Scratch::new();
    let roles = ["one", "two", "three", "marker", "marker"];
    let mut children: Vec<Child> = roles.map(|role| start(role, scratch.run.path())).into();
    let mut follower = scratch.run.follow();
    let mut steps: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    let mut events = 0;
    let mut take = |update: nilo_runfile::Update| {
        assert_eq!(update.damage, Vec::<String>::new());
        events += update.events.len();
        let is_empty = update.is_empty();
        for table in update.tables {
            assert_eq!(table.times.len(), table.steps.len());
            steps.entry(table.writer).or_default().extend(table.steps);
        }
        is_empty
    };
    while children
        .iter_mut()
        .any(|child| child.try_wait().unwrap().is_none())
    {
        take(follower.poll().unwrap());
    }
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    while !take(follower.poll().unwrap()) {}
    assert_eq!(steps.len(), 3);
    for (writer, steps) in &steps {
        assert!(steps.iter().copied().eq(0..ROWS), "{writer}");
    }
    assert_eq!(events, 3 * (ROWS as usize / 1000) + 2 * MARKS);

    let recording = scratch.run.load().unwrap();
    assert_eq!(recording.damage, Vec::<String>::new());
    assert_eq!(recording.events.len(), events);
    assert!(
        recording
            .tables
            .iter()
            .all(|table| table.steps.iter().copied().eq(0..ROWS))
    );
    assert!(
        scratch
            .file_names()
            .iter()
            .any(|name| name.ends_with(".nilc"))
    );
    assert!(
        !scratch
            .file_names()
            .iter()
            .any(|name| name.ends_with(".tmp"))
    );
}

#[test]
fn a_follower_that_starts_late_sees_the_same() {
    let scratch = Scratch::new();
    let mut writer = RunWriter::create(scratch.run.path(), "w", small_segments(true)).unwrap();
    let table = writer.define(&metrics("m", 3));
    for step in 0..ROWS {
        assert!(writer.append(table, scratch.start + step as u64, Some(step), &[0.0; 3]));
    }
    writer.close();
    let update = scratch.run.follow().poll().unwrap();
    assert_eq!(update.tables, scratch.run.load().unwrap().tables);
}

#[test]
fn a_follower_waits_at_a_record_that_is_not_finished() {
    let scratch = Scratch::new();
    let mut writer = RunWriter::create(scratch.run.path(), "w", small_segments(false)).unwrap();
    let table = writer.define(&metrics("m", 1));
    assert!(writer.append(table, scratch.start, None, &[1.0]));
    writer.close();
    let (name, bytes) = scratch.bytes_of(".nilo");
    let path = scratch.run.path().join(name);
    let mut follower = scratch.run.follow();
    std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
    assert!(follower.poll().unwrap().tables.is_empty());
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(follower.poll().unwrap().tables[0].times.len(), 1);
    assert!(follower.poll().unwrap().is_empty());
}

#[test]
fn a_forked_child_cannot_disturb_its_parents_stream() {
    let scratch = Scratch::new();
    let mut writer = RunWriter::create(scratch.run.path(), "w", small_segments(true)).unwrap();
    let table = writer.define(&metrics("m", 1));
    for step in 0..5000 {
        assert!(writer.append(table, scratch.start + step, None, &[1.0]));
    }
    // SAFETY: the child only calls our own code and leaves by `_exit`.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let was_refused = !writer.append(table, scratch.start, None, &[9.0]);
        drop(writer);
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(i32::from(!was_refused)) };
    }
    let mut status = 0;
    // SAFETY: `pid` is our child and `status` outlives the call.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0);
    for step in 5000..9000 {
        assert!(writer.append(table, scratch.start + step, None, &[1.0]));
    }
    writer.close();
    let recording = scratch.run.load().unwrap();
    assert_eq!(recording.damage, Vec::<String>::new());
    assert_eq!(recording.tables[0].columns[0], vec![1.0; 9000]);
    assert_eq!(recording.dropped_rows, 0);
}
