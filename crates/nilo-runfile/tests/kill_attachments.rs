//! `kill -9` at random moments of a process that attaches: what `attach` returned from is whole, and nothing else is taken for whole.
//!
//! The child is this test binary again; it prints the number of each attachment once it is attached.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nilo_runfile::{AttachmentState, RunWriter, WriterOptions};
use support::Scratch;

const CHILD: &str = "NILO_TEST_KILL_ATTACHING_CHILD";
const KILLS: usize = 40;
const BYTES: usize = 300_000;

/// The child's life; without the variable, nothing.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(CHILD) else {
        return;
    };
    let mut writer =
        RunWriter::create(Path::new(&folder), "child", WriterOptions::default()).unwrap();
    for index in 0u8.. {
        let bytes = vec![index; BYTES];
        writer
            .attach(&format!("{index}"), "text/plain", &mut &bytes[..])
            .unwrap();
        println!("attached {index}");
        std::io::stdout().flush().unwrap();
    }
}

#[test]
fn no_attachment_is_lost_or_cut_by_a_kill() {
    let mut unfinished = 0;
    for kill in 0..KILLS {
        let scratch = Scratch::new();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(CHILD, scratch.run.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut numbers = lines.filter_map(|line| {
            let line = line.unwrap();
            let (_, number) = line.split_once("attached ")?;
            number.parse::<usize>().ok()
        });
        // Killed in the middle of the next one, or of the one after.
        let mut attached = numbers.by_ref().nth(kill % 3).unwrap();
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
        attached = numbers.last().unwrap_or(attached);

        let found = scratch.run.attachments().unwrap();
        for number in 0..=attached {
            let one = found
                .iter()
                .find(|it| it.name == number.to_string())
                .unwrap();
            assert_eq!(one.state, AttachmentState::Whole);
            assert_eq!(one.bytes, BYTES as u64);
        }
        for one in &found {
            match one.state {
                AttachmentState::Whole => {}
                AttachmentState::Unfinished => unfinished += 1,
                ref state => panic!("{}: {state:?}", one.name),
            }
        }
        assert!(scratch.run.verify().unwrap().ok);
    }
    eprintln!("{KILLS} kills, {unfinished} unfinished attachments");
}
