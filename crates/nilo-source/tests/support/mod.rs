//! Real jobs to watch: started in a process group of their own, and gone with their guard.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test program uses some of it"
)]

pub mod fake_nvml;
pub mod kernel_model;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nilo_source::{Change, ProcessTree, TrackedProcess};

/// A job that reads lines from its stdin and says things on its stdout.
pub struct Job {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Job {
    pub fn start(command: &mut Command) -> Job {
        let mut child = command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Job {
            child,
            input,
            output,
        }
    }

    pub fn sh(script: &str) -> Job {
        Job::start(Command::new("sh").args(["-c", script]))
    }

    pub fn python(code: &str) -> Job {
        Job::start(Command::new("python3").args(["-c", code]))
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the next line.
    pub fn hear(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub fn tell(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
        input.flush().unwrap();
    }

    /// Lets a job that waits for the end of its input go on.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    pub fn wait(&mut self) -> std::process::ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.child.wait();
    }
}

/// A process that has left its job's group, ended with its guard.
pub struct Stray(pub u32);

impl Stray {
    /// Of a line with its parent's PID and its own; waits until the parent is gone.
    pub fn orphaned(line: &str) -> Stray {
        let (parent, own) = line.split_once(' ').unwrap();
        let stray = Stray(own.parse().unwrap());
        while std::path::Path::new("/proc").join(parent).exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        stray
    }
}

impl Drop for Stray {
    fn drop(&mut self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.0.cast_signed()) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

/// A clock of the test's own, which moves 100 ms a tick.
pub struct Ticker {
    pub now_nanos: u64,
    pub changes: Vec<Change>,
}

impl Ticker {
    pub fn new() -> Ticker {
        Ticker {
            now_nanos: 1_000_000_000,
            changes: Vec::new(),
        }
    }

    pub fn tick(&mut self, tree: &mut ProcessTree) {
        self.now_nanos += 100_000_000;
        tree.tick(self.now_nanos);
        tree.take_changes(&mut self.changes);
    }

    /// Ticks until it is so; gives up after a long while, with the tree's processes in the message.
    pub fn tick_until(
        &mut self,
        tree: &mut ProcessTree,
        what: &str,
        is_so: impl Fn(&ProcessTree) -> bool,
    ) {
        let patience = Instant::now() + Duration::from_secs(60);
        loop {
            self.tick(tree);
            if is_so(tree) {
                return;
            }
            assert!(
                Instant::now() < patience,
                "never: {what}; {:?}",
                tree.processes()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn ended(&self, pid: u32) -> bool {
        self.changes
            .iter()
            .any(|change| matches!(change, Change::Ended { id, .. } if id.pid == pid))
    }
}

pub fn find(tree: &ProcessTree, pid: u32) -> Option<&TrackedProcess> {
    tree.processes()
        .iter()
        .find(|process| process.id.pid == pid)
}
