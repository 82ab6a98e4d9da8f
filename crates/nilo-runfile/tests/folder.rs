//! Whose folder it is: private unless told otherwise, and never another one.

#![allow(clippy::unwrap_used)]

mod support;

use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use nilo_runfile::{Access, RunFolder, list_runs};
use support::{Scratch, description};

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
