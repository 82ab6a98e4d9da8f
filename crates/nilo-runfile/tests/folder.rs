//! Whose folder it is: private unless told otherwise, and never another one.

#![allow(clippy::unwrap_used)]

mod support;

use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use nilo_runfile::{Access, RunFolder, RunWriter, list_runs};
use support::{Scratch, description, metrics, small_segments};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o777
}

#[test]
fn folders_are_private_unless_told_otherwise() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("above/.nilo");
    let run = RunFolder::create(&root, &description(0)).unwrap();
    assert_eq!((mode(&root), mode(run.path())), (0o700, 0o700));
    // What lies above is the user's, made as the umask says.
    let made = place.path().join("plain");
    std::fs::create_dir(&made).unwrap();
    assert_eq!(mode(root.parent().unwrap()), mode(&made));

    let root = place.path().join("shared");
    let run = RunFolder::create_for(Access::Shared, &root, &description(0)).unwrap();
    assert_eq!((mode(&root), mode(run.path())), (mode(&made), mode(&made)));

    // A root that somebody made stays as it is; the run in it is private all the same.
    let run = RunFolder::create(&made, &description(0)).unwrap();
    assert_eq!(mode(run.path()), 0o700);
    assert_ne!(mode(&made), 0o700);
}

#[test]
fn the_description_is_not_written_through_a_link_in_the_folders_place() {
    let scratch = Scratch::new();
    let victim = scratch.root().join("victim");
    std::fs::create_dir(&victim).unwrap();
    std::fs::write(victim.join("run.json"), "precious").unwrap();
    let moved = scratch.root().join("moved");
    std::fs::rename(scratch.run.path(), &moved).unwrap();
    symlink(&victim, scratch.run.path()).unwrap();
    let error = scratch.run.write_description(&description(0)).unwrap_err();
    assert!(
        format!("{error:?}").contains("taken its place"),
        "{error:?}"
    );
    assert_eq!(std::fs::read(victim.join("run.json")).unwrap(), b"precious");

    // A link in the place of `run.json` itself is replaced, not followed.
    std::fs::remove_file(scratch.run.path()).unwrap();
    std::fs::rename(&moved, scratch.run.path()).unwrap();
    let description_path = scratch.run.path().join("run.json");
    std::fs::remove_file(&description_path).unwrap();
    symlink(victim.join("run.json"), &description_path).unwrap();
    scratch.run.write_description(&description(0)).unwrap();
    assert_eq!(std::fs::read(victim.join("run.json")).unwrap(), b"precious");
    assert!(
        std::fs::symlink_metadata(&description_path)
            .unwrap()
            .is_file()
    );
}

#[test]
fn a_link_among_runs_is_none() {
    let scratch = Scratch::new();
    let link = scratch.root().join("zz-link");
    symlink(scratch.run.path(), link).unwrap();
    let listed: Vec<RunFolder> = list_runs(scratch.root())
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(listed, std::slice::from_ref(&scratch.run));
}

#[test]
fn a_single_run_of_another_program_is_not_read_with_its_job() {
    let scratch = Scratch::new();
    let told = description(scratch.start);
    let inside = scratch.run.create_inside(Access::Private, &told).unwrap();
    let only = scratch.run.only_run(&told).unwrap();
    assert_eq!(only.path(), inside.path());
    std::fs::write(scratch.run.path().join(".several-programs"), "").unwrap();
    assert!(scratch.run.only_run(&told).is_none());
}

#[test]
fn what_is_logged_to_a_job_itself_is_not_read_with_its_single_run() {
    let scratch = Scratch::new();
    let told = description(scratch.start);
    scratch.run.create_inside(Access::Private, &told).unwrap();
    let mut writer =
        RunWriter::create(scratch.run.path(), "python", small_segments(false)).unwrap();
    assert!(scratch.run.only_run(&told).is_some(), "nothing logged yet");
    let table = writer.define(&metrics("m", 1));
    assert!(writer.append(table, scratch.start, None, &[1.0]));
    assert!(scratch.run.only_run(&told).is_none());
}

/// Rows find room in a file without a name; a new one cannot be made.
#[test]
fn a_writer_whose_folder_was_deleted_says_so_and_not_what_the_system_said() {
    let scratch = Scratch::new();
    let mut writer = RunWriter::create(scratch.run.path(), "test", small_segments(false)).unwrap();
    let table = writer.define(&metrics("m", 1));
    assert!(writer.append(table, scratch.start, None, &[1.0]));
    std::fs::remove_dir_all(scratch.run.path()).unwrap();
    let mut rows = 0;
    while writer.append(table, scratch.start + rows, None, &[1.0]) {
        assert!(!writer.has_lost_its_folder());
        rows += 1;
        assert!(rows < 1_000_000);
    }
    assert!(writer.has_lost_its_folder());
    let reason = writer.dropped_reason();
    assert_eq!(reason, Some("the folder of the run was deleted"));
}

#[test]
fn rows_that_were_stored_after_their_folder_was_deleted_are_counted_once() {
    const SECOND: u64 = 1_000_000_000;
    let scratch = Scratch::new();
    let mut writer = RunWriter::create(scratch.run.path(), "test", small_segments(false)).unwrap();
    let table = writer.define(&metrics("m", 1));
    // From this row on the next look is a second away.
    let seen = nilo_runfile::monotonic_nanos() + SECOND;
    assert!(writer.append(table, seen, None, &[1.0]));
    let moved = scratch.root().join("moved");
    std::fs::rename(scratch.run.path(), &moved).unwrap();
    assert!(writer.append(table, seen + SECOND, None, &[1.0]));
    assert_eq!(writer.dropped(), 0, "what was moved is not lost");
    std::fs::remove_dir_all(moved).unwrap();
    for nanos in 1..4 {
        assert!(writer.append(table, seen + SECOND + nanos, None, &[1.0]));
    }
    assert!(!writer.append(table, seen + 2 * SECOND, None, &[1.0]));
    assert!(writer.has_lost_its_folder());
    // The row on which the look before fell was written behind it.
    assert_eq!((writer.take_lost_with_folder(), writer.dropped()), (4, 5));
    assert!(!writer.append(table, seen + 9 * SECOND, None, &[1.0]));
    assert_eq!((writer.take_lost_with_folder(), writer.dropped()), (0, 6));
}
