//! Every process of the machine, for `nilo ps` and for finding a process by name. Cold: each call reads everything anew.

use std::collections::HashMap;
use std::ffi::CStr;
use std::path::{Path, PathBuf};

use nilo_sample::process::{ProcessId, ProcessInfo};

use crate::descriptors::read_kernel_file;
use crate::error::SourceError;
use crate::kernel_text::labelled;
use crate::linux::{ProcFolder, STAT_BYTES, command_of, describe, is_python, process_cpu_nanos};
use crate::roots::Roots;

/// One line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessListing {
    /// Who.
    pub id: ProcessId,
    /// Name, command line, parent, working directory, owner.
    pub info: ProcessInfo,
    /// The owner's name, where it is known.
    pub user: Option<String>,
    /// Resident memory.
    pub rss_bytes: u64,
    /// CPU time since the start.
    pub cpu_nanos: u64,
    /// Start by the wall clock, nanoseconds since 1970.
    pub started_unix_nanos: Option<u64>,
    /// Whether it is a Python interpreter.
    pub is_python: bool,
    /// Whether it is `nilo` itself: the command, or a process that it forked for its own work. What it runs is not.
    pub is_nilo: bool,
}

/// The identity of the process that has this PID at the moment. A zombie has ended, and only its parent does not know yet.
pub fn process_id(roots: &Roots, pid: u32) -> Result<ProcessId, SourceError> {
    let proc = ProcFolder::open(&roots.proc)?;
    let mut buffer = [0; STAT_BYTES];
    let stat = proc
        .stat_of(pid, &mut buffer)
        .filter(|stat| stat.state != b'Z' || stat.threads > 1)
        .ok_or(SourceError::NoSuchProcess { pid })?;
    Ok(ProcessId {
        pid,
        start_ticks: stat.start_ticks,
    })
}

/// Every process that has memory of its own: no kernel threads, no zombies. By PID.
pub fn list_processes(roots: &Roots) -> Vec<ProcessListing> {
    let Ok(proc) = ProcFolder::open(&roots.proc) else {
        return Vec::new();
    };
    let boot_secs = read_kernel_file(proc.path().join("stat"))
        .ok()
        .and_then(|text| labelled(&text, b"btime"));
    let mut users = HashMap::new();
    let mut pids = proc.pids();
    pids.sort_unstable();
    let mut list = Vec::with_capacity(pids.len());
    for pid in pids {
        let mut buffer = [0; STAT_BYTES];
        let Some(stat) = proc.stat_of(pid, &mut buffer) else {
            continue;
        };
        if stat.virtual_bytes == 0 {
            continue;
        }
        let command = command_of(&proc, pid);
        let info = describe(&proc, pid, &stat, &command);
        let user = info
            .uid
            .and_then(|uid| users.entry(uid).or_insert_with(|| user_name(uid)).clone());
        let nanos_of = |ticks: u64| {
            (u128::from(ticks) * 1_000_000_000 / u128::from(proc.ticks_per_sec)) as u64
        };
        let precise = if proc.is_live {
            process_cpu_nanos(pid)
        } else {
            None
        };
        list.push(ProcessListing {
            id: ProcessId {
                pid,
                start_ticks: stat.start_ticks,
            },
            user,
            rss_bytes: stat.rss_pages.saturating_mul(proc.page_bytes),
            cpu_nanos: precise.unwrap_or_else(|| nanos_of(stat.cpu_ticks)),
            started_unix_nanos: boot_secs.and_then(|secs| {
                secs.checked_mul(1_000_000_000)?
                    .checked_add(nanos_of(stat.start_ticks))
            }),
            is_python: is_python(&proc, pid, &command),
            is_nilo: is_nilo(proc.path(), pid, &info.command),
            info,
        });
    }
    list
}

/// Whether the process with this PID is `nilo` itself, as [`ProcessListing::is_nilo`].
pub fn is_nilo_process(roots: &Roots, pid: u32) -> bool {
    is_nilo(&roots.proc, pid, "")
}

/// By the program's file; where that is not ours to see, by the first word of the command line.
fn is_nilo(proc: &Path, pid: u32, command: &str) -> bool {
    let program = match std::fs::read_link(proc.join(pid.to_string()).join("exe")) {
        Ok(program) => program,
        Err(_) => PathBuf::from(command.split(' ').next().unwrap_or_default()),
    };
    let name = program.file_name().and_then(|name| name.to_str());
    // The kernel says so of a program whose file was replaced meanwhile.
    name.is_some_and(|name| name.trim_end_matches(" (deleted)") == "nilo")
}

/// Asked of the system rather than read from `/etc/passwd`: clusters keep their users in LDAP.
fn user_name(uid: u32) -> Option<String> {
    let mut buffer = vec![0u8; 16 * 1024];
    let mut found = std::ptr::null_mut();
    // SAFETY: an all-zero passwd is valid (null pointers and zeros); it is only read after the call filled it.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    // SAFETY: all four pointers are valid for the call, and the length is that of the buffer.
    let result = unsafe {
        libc::getpwuid_r(
            uid,
            &raw mut entry,
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            &raw mut found,
        )
    };
    if result != 0 || found.is_null() || entry.pw_name.is_null() {
        return None;
    }
    // SAFETY: on success pw_name is a NUL-terminated string inside `buffer`, which is still alive.
    let name = unsafe { CStr::from_ptr(entry.pw_name) };
    Some(name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_are_in_the_list() {
        let roots = Roots::default();
        let own = process_id(&roots, std::process::id()).unwrap();
        let list = list_processes(&roots);
        let listing = list.iter().find(|listing| listing.id == own).unwrap();
        assert!(listing.rss_bytes > 0 && listing.cpu_nanos > 0);
        assert!(!listing.is_python);
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        assert!(u128::from(listing.started_unix_nanos.unwrap()) <= now.as_nanos() + 2_000_000_000);
    }

    #[test]
    fn a_program_that_has_just_begun_is_listed_and_a_kernel_thread_is_not() {
        let folder = std::env::temp_dir().join(format!("nilo-listing-{}", std::process::id()));
        let stat = |pid: u32, virtual_bytes: u64| {
            let process = folder.join(pid.to_string());
            std::fs::create_dir_all(&process).unwrap();
            let times = "-1 0 1 0 0 0 0 0 0 0 20 0 1 0 500";
            let text = format!("{pid} (a) S 1 1 1 0 {times} {virtual_bytes} 0 0\n");
            std::fs::write(process.join("stat"), text).unwrap();
        };
        stat(7, 1 << 20);
        stat(8, 0);
        let roots = Roots {
            proc: folder.clone(),
            ..Roots::default()
        };
        let pids: Vec<u32> = list_processes(&roots)
            .iter()
            .map(|one| one.id.pid)
            .collect();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(pids, [7]);
    }

    #[test]
    fn a_pid_that_nobody_has_is_an_error() {
        let error = process_id(&Roots::default(), 4_194_305).unwrap_err();
        assert_eq!(error.to_string(), "no such process: PID 4194305");
    }
}
