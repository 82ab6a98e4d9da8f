//! Attachments: whole or not at all, never elsewhere than in the run's folder, and checked against what was told of them.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;

use nilo_runfile::{
    AttachmentState, FileKind, MAX_ATTACHMENT_BYTES, MAX_ATTACHMENTS_BYTES, RunWriter,
    RunfileError, WriterOptions,
};
use nilo_sample::Event;
use support::Scratch;

const BYTES: &[u8] = b"what the allocator looked like";

fn writer(scratch: &Scratch) -> RunWriter {
    RunWriter::create(scratch.run.path(), "w", WriterOptions::default()).unwrap()
}

fn attached(scratch: &Scratch, name: &str) -> PathBuf {
    scratch.run.path().join("attachments").join(name)
}

/// Names and states.
fn states(scratch: &Scratch) -> Vec<(String, AttachmentState)> {
    let found = scratch.run.attachments().unwrap().into_iter();
    found.map(|it| (it.name, it.state)).collect()
}

fn files_in(scratch: &Scratch) -> usize {
    let folder = std::fs::read_dir(scratch.run.path().join("attachments"));
    folder.map_or(0, Iterator::count)
}

#[test]
fn what_was_attached_is_read_back_with_what_was_told_of_it() {
    let scratch = Scratch::new();
    let mut writer = writer(&scratch);
    writer
        .attach("one.bin", "application/x-snapshot", &mut &BYTES[..])
        .unwrap();
    // From a process without a stream.
    scratch
        .run
        .attach("empty.txt", "text/plain; charset=utf-8", &mut io::empty())
        .unwrap();
    for is_closed in [false, true] {
        let found = scratch.run.attachments().unwrap();
        let names: Vec<&str> = found.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["empty.txt", "one.bin"], "closed: {is_closed}");
        assert!(found.iter().all(|it| it.state == AttachmentState::Whole));
        assert_eq!(found[1].media_type, "application/x-snapshot");
        assert_eq!(found[1].crc32c, crc32c::crc32c(BYTES));
        let mut read = Vec::new();
        scratch
            .run
            .open_attachment(&found[1])
            .unwrap()
            .read_to_end(&mut read)
            .unwrap();
        assert_eq!(read, BYTES);
    }
    let expected = Event::Attachment {
        name: "one.bin".to_owned(),
        bytes: BYTES.len() as u64,
        crc32c: crc32c::crc32c(BYTES),
        media_type: "application/x-snapshot".to_owned(),
    };
    let events = scratch.run.load().unwrap().events;
    assert!(events.iter().any(|timed| timed.event == expected));
    assert_eq!(files_in(&scratch), 2, "no draft is left");
}

#[test]
fn a_name_is_used_once_in_a_run() {
    let scratch = Scratch::new();
    let mut writer = writer(&scratch);
    writer
        .attach("a", "text/plain", &mut &b"first"[..])
        .unwrap();
    let again = writer.attach("a", "text/plain", &mut &b"second"[..]);
    assert!(matches!(again, Err(RunfileError::AttachmentExists { .. })));
    let again = scratch.run.attach("a", "text/plain", &mut &b"third"[..]);
    assert!(matches!(again, Err(RunfileError::AttachmentExists { .. })));
    assert_eq!(std::fs::read(attached(&scratch, "a")).unwrap(), b"first");
    assert_eq!(files_in(&scratch), 1);
    assert_eq!(writer.dropped(), 0);
}

#[test]
fn a_name_taken_while_the_bytes_come_is_not_taken_away() {
    /// Attaches under the same name before its first byte.
    struct Overtaken<'a>(&'a Scratch, bool);
    impl Read for Overtaken<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if std::mem::replace(&mut self.1, true) {
                return Ok(0);
            }
            self.0
                .run
                .attach("a", "text/plain", &mut &b"other"[..])
                .unwrap();
            buffer[0] = b'x';
            Ok(1)
        }
    }
    let scratch = Scratch::new();
    let late = writer(&scratch).attach("a", "text/plain", &mut Overtaken(&scratch, false));
    assert!(matches!(late, Err(RunfileError::AttachmentExists { .. })));
    assert_eq!(states(&scratch), [("a".to_owned(), AttachmentState::Whole)]);
    assert_eq!(std::fs::read(attached(&scratch, "a")).unwrap(), b"other");
    assert_eq!(files_in(&scratch), 1);
}

#[test]
fn a_reader_that_fails_leaves_nothing() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::TimedOut.into())
        }
    }
    let scratch = Scratch::new();
    let mut writer = writer(&scratch);
    let mut half = BYTES.chain(Broken);
    assert!(writer.attach("a", "text/plain", &mut half).is_err());
    assert_eq!(files_in(&scratch), 0);
    assert_eq!(states(&scratch), []);
    assert_eq!(scratch.run.load().unwrap().events, []);
}

#[test]
fn what_is_too_large_is_refused_and_leaves_nothing() {
    let scratch = Scratch::new();
    let mut writer = writer(&scratch);
    let too_large = writer.attach(
        "a",
        "text/plain",
        &mut io::repeat(0).take(MAX_ATTACHMENT_BYTES + 1),
    );
    assert!(
        matches!(too_large, Err(RunfileError::TooLarge { limit_bytes, .. }) if limit_bytes == MAX_ATTACHMENT_BYTES)
    );
    assert_eq!(files_in(&scratch), 0);

    // A file that takes no space stands for what was attached before.
    writer.attach("b", "text/plain", &mut &BYTES[..]).unwrap();
    let before = std::fs::File::options()
        .write(true)
        .open(attached(&scratch, "b"))
        .unwrap();
    before.set_len(MAX_ATTACHMENTS_BYTES - 10).unwrap();
    let too_large = writer.attach("c", "text/plain", &mut &[0; 11][..]);
    assert!(
        matches!(too_large, Err(RunfileError::TooLarge { limit_bytes, .. }) if limit_bytes == MAX_ATTACHMENTS_BYTES)
    );
    writer.attach("c", "text/plain", &mut &[0; 10][..]).unwrap();
    assert!(scratch.run.size_bytes() >= MAX_ATTACHMENTS_BYTES);
}

#[test]
fn bad_names_and_media_types_are_refused_before_anything_is_made() {
    let scratch = Scratch::new();
    let mut writer = writer(&scratch);
    for name in ["../run.json", "a/b", ".a", ""] {
        let refused = writer.attach(name, "text/plain", &mut &BYTES[..]);
        assert!(
            matches!(refused, Err(RunfileError::BadAttachmentName { .. })),
            "{name}"
        );
    }
    for media_type in ["", "text", "text/\n", &format!("text/{}", "x".repeat(100))] {
        let refused = writer.attach("a", media_type, &mut &BYTES[..]);
        assert!(
            matches!(refused, Err(RunfileError::BadMediaType { .. })),
            "{media_type}"
        );
    }
    assert!(!scratch.run.path().join("attachments").exists());
}

#[test]
fn links_are_not_followed() {
    let scratch = Scratch::new();
    let mut writer = writer(&scratch);
    let elsewhere = scratch.root().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, scratch.run.path().join("attachments")).unwrap();
    assert!(writer.attach("a", "text/plain", &mut &BYTES[..]).is_err());
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
    assert!(scratch.run.attachments().is_err());
    assert!(!scratch.run.verify().unwrap().ok);

    std::fs::remove_file(scratch.run.path().join("attachments")).unwrap();
    writer.attach("b", "text/plain", &mut &BYTES[..]).unwrap();
    symlink(elsewhere.join("c"), attached(&scratch, "c")).unwrap();
    let taken = writer.attach("c", "text/plain", &mut &BYTES[..]);
    assert!(matches!(taken, Err(RunfileError::AttachmentExists { .. })));
    // The same bytes behind a link are not the file.
    std::fs::rename(attached(&scratch, "b"), elsewhere.join("b")).unwrap();
    symlink(elsewhere.join("b"), attached(&scratch, "b")).unwrap();
    let reason = "it is not a regular file".to_owned();
    assert_eq!(
        states(&scratch),
        [("b".to_owned(), AttachmentState::Changed { reason })]
    );

    // Another folder in the run's place gets nothing.
    let moved = scratch.root().join("moved");
    std::fs::rename(scratch.run.path(), &moved).unwrap();
    symlink(&elsewhere, scratch.run.path()).unwrap();
    assert!(writer.attach("d", "text/plain", &mut &BYTES[..]).is_err());
    assert!(!elsewhere.join("attachments").exists());
}

#[test]
fn files_are_as_private_as_the_run() {
    let scratch = Scratch::new();
    writer(&scratch)
        .attach("a", "text/plain", &mut &BYTES[..])
        .unwrap();
    let mode = |path: PathBuf| std::fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(scratch.run.path().join("attachments")), 0o700);
    assert_eq!(mode(attached(&scratch, "a")), 0o600);
}

#[test]
fn verification_says_what_is_wrong_with_an_attachment() {
    let scratch = Scratch::new();
    let mut writer = writer(&scratch);
    for name in ["changed", "gone", "longer", "whole"] {
        writer.attach(name, "text/plain", &mut &BYTES[..]).unwrap();
    }
    assert!(scratch.run.verify().unwrap().ok);
    let mut other = BYTES.to_vec();
    other[3] ^= 1;
    std::fs::write(attached(&scratch, "changed"), &other).unwrap();
    std::fs::remove_file(attached(&scratch, "gone")).unwrap();
    other.push(0);
    std::fs::write(attached(&scratch, "longer"), &other).unwrap();
    let found = scratch.run.verify().unwrap();
    assert!(!found.ok);
    let files = found
        .files
        .iter()
        .filter(|file| file.kind == FileKind::Attachment);
    let sizes: Vec<u64> = files.clone().map(|file| file.size_bytes).collect();
    assert_eq!(sizes, [30, 0, 31, 30], "as long as the files are now");
    let told: Vec<(&str, &[String])> = files.map(|it| (it.name.as_str(), &it.damage[..])).collect();
    let sentences = [
        "it is not what was attached: its checksum differs",
        "the file is missing",
        "it is not what was attached: it has 31 bytes instead of 30",
    ]
    .map(str::to_owned);
    assert_eq!(
        told,
        [
            ("attachments/changed", &sentences[0..1]),
            ("attachments/gone", &sentences[1..2]),
            ("attachments/longer", &sentences[2..3]),
            ("attachments/whole", &[]),
        ]
    );
    // Without the folder all of them are missing.
    std::fs::remove_dir_all(scratch.run.path().join("attachments")).unwrap();
    assert!(
        states(&scratch)
            .iter()
            .all(|(_, state)| *state == AttachmentState::Missing)
    );
}

#[test]
fn verification_leaves_out_what_is_no_file_of_the_recording() {
    let scratch = Scratch::new();
    writer(&scratch)
        .attach("a", "text/plain", &mut &BYTES[..])
        .unwrap();
    let before = scratch.run.verify().unwrap();
    std::fs::create_dir(scratch.run.path().join("runs")).unwrap();
    for name in [
        ".ranks-0123456789abcdef",
        ".first-program",
        ".several-programs",
    ] {
        std::fs::write(scratch.run.path().join(name), "x").unwrap();
    }
    assert_eq!(scratch.run.verify().unwrap(), before);
    std::fs::write(scratch.run.path().join("notes.txt"), "mine").unwrap();
    let found = scratch.run.verify().unwrap();
    let other = found.files.iter().find(|file| file.name == "notes.txt");
    assert_eq!(other.map(|file| file.kind), Some(FileKind::Other));
}

#[test]
fn what_a_killed_writer_left_is_unfinished_and_no_damage() {
    let scratch = Scratch::new();
    writer(&scratch)
        .attach("told", "text/plain", &mut &BYTES[..])
        .unwrap();
    std::fs::write(attached(&scratch, "renamed"), BYTES).unwrap();
    std::fs::write(attached(&scratch, ".draft.v2.4711.99.tmp"), BYTES).unwrap();
    std::fs::write(attached(&scratch, ".told.4711.99.tmp"), BYTES).unwrap();
    std::fs::write(attached(&scratch, "not a name"), BYTES).unwrap();
    let expected = [
        ("draft.v2", AttachmentState::Unfinished),
        ("renamed", AttachmentState::Unfinished),
        ("told", AttachmentState::Whole),
    ];
    assert_eq!(
        states(&scratch),
        expected.map(|(name, state)| (name.to_owned(), state))
    );
    assert!(scratch.run.verify().unwrap().ok);
}

#[test]
fn a_forked_child_attaches_nothing_through_its_parents_writer() {
    // Without a stream to tell of it, what was stored is taken back.
    let scratch = Scratch::new();
    let mut writer = writer(&scratch);
    // SAFETY: the child only attaches, which takes no lock that another thread of this process holds, and leaves at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let attached = writer.attach("a", "text/plain", &mut &BYTES[..]);
        // SAFETY: ends the child without running the parent's destructors.
        unsafe { libc::_exit(i32::from(attached.is_ok())) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(status, 0);
    assert_eq!(states(&scratch), []);
}
