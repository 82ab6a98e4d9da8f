//! Who a process is: command line, working directory, owner. Cold paths, which may allocate.

use nilo_sample::printable::text_of_bytes;
use nilo_sample::process::ProcessInfo;

use crate::descriptors::read_kernel_file;
use crate::linux::proc_folder::ProcFolder;
use crate::linux::stat::{Stat, parse_uid};
use crate::names::{command_text, display_name};
use crate::rank::rank_in;

/// The longest command line that is looked at; names and commands are shortened anyway.
const COMMAND_BYTES: usize = 8192;

/// The arguments, as bytes read and split at NUL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) raw: Vec<u8>,
}

impl Command {
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut parts: Vec<String> = self
            .raw
            .split(|byte| *byte == 0)
            .map(|part| text_of_bytes(part).into_owned())
            .collect();
        // The end of the list, and what `setproctitle` pads with.
        while parts.last().is_some_and(String::is_empty) {
            parts.pop();
        }
        parts
    }
}

/// Reads the command line; empty for kernel threads and zombies.
pub(crate) fn command_of(proc: &ProcFolder, pid: u32) -> Command {
    let mut raw = vec![0; COMMAND_BYTES];
    let count = proc
        .open_of(pid, "cmdline")
        .and_then(|file| rustix::io::read(file, &mut raw[..]))
        .unwrap_or(0);
    raw.truncate(count);
    Command { raw }
}

/// The name that people recognise, of a command line and the kernel's short name.
pub(crate) fn name_from(comm: &[u8], command: &Command) -> String {
    let arguments = command.arguments();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    display_name(&String::from_utf8_lossy(comm), &arguments)
}

/// The rank by the environment that the process was started with, where it may be read.
fn rank_of(proc: &ProcFolder, pid: u32) -> Option<u32> {
    let environment = read_kernel_file(proc.path_of(pid, "environ")).ok()?;
    rank_in(|name| {
        let mut entries = environment.split(|byte| *byte == 0);
        let value = entries.find_map(|entry| {
            entry
                .strip_prefix(name.as_bytes())?
                .strip_prefix(b"=".as_slice())
        })?;
        String::from_utf8(value.to_vec()).ok()
    })
}

/// Everything known of a process besides numbers.
pub(crate) fn describe(
    proc: &ProcFolder,
    pid: u32,
    stat: &Stat<'_>,
    command: &Command,
) -> ProcessInfo {
    let uid = read_kernel_file(proc.path_of(pid, "status"))
        .ok()
        .and_then(|status| parse_uid(&status));
    let arguments = command.arguments();
    ProcessInfo {
        parent: stat.parent,
        name: name_from(stat.comm, command),
        command: command_text(&arguments),
        arguments,
        cwd: std::fs::read_link(proc.path_of(pid, "cwd"))
            .ok()
            .map(|path| path.to_string_lossy().into_owned()),
        uid,
        rank: rank_of(proc, pid),
    }
}

/// Whether a Python interpreter runs in the process, by its program's name.
pub(crate) fn is_python(proc: &ProcFolder, pid: u32, command: &Command) -> bool {
    let looks_so = |path: &str| {
        let base = path.rsplit('/').next().unwrap_or(path);
        base.starts_with("python") || base.starts_with("pypy")
    };
    let by_program = std::fs::read_link(proc.path_of(pid, "exe"))
        .is_ok_and(|path| looks_so(&path.to_string_lossy()));
    by_program
        || command
            .arguments()
            .first()
            .is_some_and(|first| looks_so(first))
}
