//! The Python hooks: files that every Python below the command imports when it starts, and what they tell.
//!
//! They lie in a private folder inside the run's folder, which is the first of `PYTHONPATH`. `docs/hooks.md` says what they change and what not.
//! A job tells by adding lines to a file there; they are read on each tick, by one system call where nothing was added.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nilo_runfile::{
    HOOKS, HookMessage, RowSink, RunFolder, TableId, hook_lines_path, monotonic_nanos,
    open_hook_lines, parse_hook_line,
};
use nilo_sample::{Event, ProcessInfo, TableSpec, TypedRow};

use crate::privacy::stored_exception;

/// The files of the hooks. Python looks for the first one.
const FILES: [(&str, &str); 7] = [
    (
        "sitecustomize.py",
        include_str!("../hooks/sitecustomize.py"),
    ),
    ("nilo_hooks.py", include_str!("../hooks/nilo_hooks.py")),
    ("nilo_tell.py", include_str!("../hooks/nilo_tell.py")),
    ("nilo_threads.py", include_str!("../hooks/nilo_threads.py")),
    (
        "nilo_children.py",
        include_str!("../hooks/nilo_children.py"),
    ),
    ("nilo_torch.py", include_str!("../hooks/nilo_torch.py")),
    ("nilo_holders.py", include_str!("../hooks/nilo_holders.py")),
];
/// What the first of them is told where `PYTHONPATH` was not set.
const WAS_UNSET: [&str; 2] = ["_was_unset = False", "_was_unset = True"];
/// What is read at once.
const CHUNK: usize = 8 << 10;
/// A line that does not end within this is none of ours.
const LONGEST_LINE: usize = 64 << 10;
/// So many events are recorded; a program whose threads fail again and again tells nothing new.
const MOST_EVENTS: u32 = 1000;
/// So many devices of processes are recorded.
const MOST_TABLES: usize = 128;
/// What PyTorch writes.
const SNAPSHOT_TYPE: &str = "application/x-python-pickle";
/// So many snapshots are attached.
const MOST_SNAPSHOTS: usize = 8;
/// A file that has grown to this is replaced by an empty one once it is read.
const LONG_FILE: u64 = 4 << 20;

/// The hooks of one run.
pub(crate) struct Hooks {
    folder: PathBuf,
    run_dir: PathBuf,
    python_path: OsString,
    lines: File,
    offset: u64,
    /// The beginning of a line.
    rest: Vec<u8>,
    events: u32,
    /// The tables of PyTorch's memory, by process and device.
    tables: HashMap<(u32, u32), TableId>,
    /// Files of what allocators held, to be attached at the end.
    snapshots: Vec<String>,
    /// Said once.
    is_other_user_said: bool,
}

impl Hooks {
    /// Writes the files into the folder of a run, whose command would have `PYTHONPATH` as `before`.
    pub(crate) fn create(run_dir: &Path, before: Option<OsString>) -> io::Result<Hooks> {
        let folder = run_dir.join(HOOKS);
        if folder.as_os_str().as_bytes().contains(&b':') {
            // It would be two folders of PYTHONPATH.
            return Err(io::Error::other("the path of the run has a colon in it"));
        }
        DirBuilder::new().mode(0o700).create(&folder)?;
        let write = |path: &Path, text: &str| {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o600);
            options.open(path)?.write_all(text.as_bytes())
        };
        let before = before.filter(|before| !before.is_empty());
        for (name, text) in FILES {
            let [set, unset] = WAS_UNSET;
            match before {
                Some(_) => write(&folder.join(name), text)?,
                None => write(&folder.join(name), &text.replace(set, unset))?,
            }
        }
        write(&hook_lines_path(run_dir), "")?;
        Ok(Hooks {
            lines: open_hook_lines(run_dir)?,
            python_path: python_path(&folder, before),
            folder,
            run_dir: run_dir.to_owned(),
            offset: 0,
            rest: Vec::new(),
            events: 0,
            tables: HashMap::new(),
            snapshots: Vec::new(),
            is_other_user_said: false,
        })
    }

    /// `PYTHONPATH` for the command.
    pub(crate) fn python_path(&self) -> &OsStr {
        &self.python_path
    }

    /// Writes down what was told since the last time.
    pub(crate) fn poll(&mut self, writer: &mut impl RowSink) {
        let mut chunk = [0; CHUNK];
        while let Ok(read @ 1..) = self.lines.read_at(&mut chunk, self.offset) {
            self.offset += read as u64;
            for piece in chunk[..read].split_inclusive(|byte| *byte == b'\n') {
                self.take(piece, writer);
            }
        }
        if self.offset > LONG_FILE && self.rest.is_empty() {
            self.replace_file();
        }
    }

    /// That nothing is told by Python programs of another user, once there is one: the folder is private, so they find no hooks there.
    pub(crate) fn blind_to<'a>(
        &mut self,
        mut processes: impl Iterator<Item = &'a ProcessInfo>,
    ) -> Option<Event> {
        let own = rustix::process::geteuid().as_raw();
        let is_others =
            |info: &ProcessInfo| info.uid.is_some_and(|uid| uid != own) && is_python(info);
        if self.is_other_user_said || !processes.any(is_others) {
            return None;
        }
        self.is_other_user_said = true;
        let text = "exceptions and PyTorch's GPU memory in Python programs of other users, who cannot read the hooks";
        let text = text.to_owned();
        Some(Event::Blind { text })
    }

    /// The end of the run. The folder is kept where processes go on that may start Python again.
    pub(crate) fn finish(mut self, run: &RunFolder, writer: &mut impl RowSink, is_in_use: bool) {
        self.poll(writer);
        for name in self.snapshots.iter().take(MOST_SNAPSHOTS) {
            attach_snapshot(run, &self.folder, name);
        }
        if is_in_use {
            fs::remove_file(hook_lines_path(&self.run_dir)).ok();
        } else {
            fs::remove_dir_all(&self.folder).ok();
        }
    }

    fn take(&mut self, piece: &[u8], writer: &mut impl RowSink) {
        if self.rest.len() <= LONGEST_LINE {
            self.rest.extend_from_slice(piece);
        }
        if piece.ends_with(b"\n") {
            let line = std::mem::take(&mut self.rest);
            self.tell(&line[..line.len() - 1], writer);
        }
    }

    fn tell(&mut self, line: &[u8], writer: &mut impl RowSink) {
        let now_nanos = monotonic_nanos();
        let told = parse_hook_line(line).filter(|told| told.time_nanos <= now_nanos);
        let Some(told) = told.filter(|_| self.events <= MOST_EVENTS) else {
            return;
        };
        let event = match told.message {
            HookMessage::TorchMemory { pid, device, row } => {
                let is_known = self.tables.contains_key(&(pid, device));
                if is_known || self.tables.len() < MOST_TABLES {
                    let spec = TableSpec::torch_memory_of(pid, device);
                    let table = self.tables.entry((pid, device));
                    let table = *table.or_insert_with(|| writer.define(&spec));
                    writer.append(table, told.time_nanos, None, &row.values());
                }
                return;
            }
            HookMessage::Event(event) => event,
        };
        self.events += 1;
        if self.events <= MOST_EVENTS {
            let event = match event {
                Event::Exception(exception) => {
                    Event::Exception(Box::new(stored_exception(*exception).bounded()))
                }
                Event::GpuAllocationFailed(failure) => {
                    self.snapshots.extend(failure.snapshot.clone());
                    Event::GpuAllocationFailed(failure)
                }
                other => other,
            };
            writer.event(told.time_nanos, &event);
        } else {
            let text = format!(
                "exceptions of Python programs, of which the first {MOST_EVENTS} are recorded"
            );
            writer.event(now_nanos, &Event::Blind { text });
        }
    }

    /// Begins another file. The hooks open it for each line; one that is being added in this moment is lost.
    fn replace_file(&mut self) {
        let path = hook_lines_path(&self.run_dir);
        let draft = self.folder.join("told.next");
        let mut options = OpenOptions::new();
        options.write(true).create(true).mode(0o600);
        let replaced = options
            .open(&draft)
            .and_then(|_| fs::rename(&draft, &path))
            .and_then(|()| open_hook_lines(&self.run_dir));
        if let Ok(lines) = replaced {
            self.lines = lines;
            self.offset = 0;
        }
    }
}

/// Whether the program is a Python, by its name: `python3.12`, `/usr/bin/python`.
fn is_python(info: &ProcessInfo) -> bool {
    let program = info.command.split(' ').next().unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default();
    name.strip_prefix("python").is_some_and(|version| {
        version
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
    })
}

fn python_path(folder: &Path, before: Option<OsString>) -> OsString {
    let mut path = folder.as_os_str().to_owned();
    if let Some(before) = before {
        path.push(":");
        path.push(before);
    }
    path
}

/// Attaches a file of the hooks' folder to the run. Its name comes from the job.
fn attach_snapshot(run: &RunFolder, folder: &Path, name: &str) {
    let is_plain = name.starts_with("snapshot-") && !name.contains('/');
    let mut options = OpenOptions::new();
    options
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    if is_plain
        && let Ok(mut file) = options.open(folder.join(name))
        && file.metadata().is_ok_and(|found| found.is_file())
    {
        run.attach(name, SNAPSHOT_TYPE, &mut file).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_stands_before_what_was_there() {
        let of = |before: Option<&str>| {
            let scratch = tempfile::tempdir().unwrap();
            let hooks = Hooks::create(scratch.path(), before.map(OsString::from)).unwrap();
            let own = scratch.path().join(HOOKS);
            let first = fs::read_to_string(own.join("sitecustomize.py")).unwrap();
            let path = hooks.python_path().to_string_lossy().into_owned();
            let more = path.strip_prefix(own.to_str().unwrap()).unwrap();
            (more.to_owned(), first.contains("_was_unset = True"))
        };
        assert_eq!(of(None), (String::new(), true));
        assert_eq!(of(Some("")), (String::new(), true));
        assert_eq!(of(Some("/a:")), (":/a:".to_owned(), false));
    }

    #[test]
    fn a_path_that_python_would_split_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let run_dir = scratch.path().join("a:b");
        fs::create_dir(&run_dir).unwrap();
        assert!(Hooks::create(&run_dir, None).is_err());
    }

    #[test]
    fn python_programs_of_other_users_are_said_once() {
        let scratch = tempfile::tempdir().unwrap();
        let mut hooks = Hooks::create(scratch.path(), None).unwrap();
        let own = rustix::process::geteuid().as_raw();
        let of = |uid, command: &str| ProcessInfo {
            uid: Some(uid),
            command: command.to_owned(),
            ..ProcessInfo::default()
        };
        let silent = [of(own, "python train.py"), of(own + 1, "python-helper")];
        assert_eq!(hooks.blind_to(silent.iter()), None);
        let others = [of(own + 1, "/opt/bin/python3.12 train.py")];
        assert!(hooks.blind_to(others.iter()).is_some());
        assert_eq!(hooks.blind_to(others.iter()), None);
    }
}
