//! What started a process, and when: for programs that ask which program they belong to.

use crate::linux::{ProcFolder, STAT_BYTES, command_of};
use crate::roots::Roots;

/// The command line of a process; empty when there is no such process, or it says nothing.
pub fn arguments_of(roots: &Roots, pid: u32) -> Vec<String> {
    match ProcFolder::open(&roots.proc) {
        Ok(proc) => command_of(&proc, pid).arguments(),
        Err(_) => Vec::new(),
    }
}

/// When a process began, in the kernel's ticks since boot: with its number it is told apart from others that had that number.
pub fn started_ticks_of(roots: &Roots, pid: u32) -> Option<u64> {
    let proc = ProcFolder::open(&roots.proc).ok()?;
    let mut buffer = [0; STAT_BYTES];
    proc.stat_of(pid, &mut buffer).map(|stat| stat.start_ticks)
}

/// The process that started another, or that took it in since; `None` when there is no such process.
pub fn parent_of(roots: &Roots, pid: u32) -> Option<u32> {
    let proc = ProcFolder::open(&roots.proc).ok()?;
    let mut buffer = [0; STAT_BYTES];
    proc.stat_of(pid, &mut buffer).map(|stat| stat.parent)
}

/// Whether a process is a fork of the program that its parent runs. An orphan has another parent by now, which is another program.
pub fn is_fork_of_parent(roots: &Roots, pid: u32) -> bool {
    let Ok(proc) = ProcFolder::open(&roots.proc) else {
        return false;
    };
    let mut buffer = [0; STAT_BYTES];
    let Some(stat) = proc.stat_of(pid, &mut buffer) else {
        return false;
    };
    let program = |pid: u32| std::fs::read_link(proc.path_of(pid, "exe")).ok();
    stat.is_fork() && program(pid).is_some_and(|own| program(stat.parent) == Some(own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_is_known_by_its_command_and_its_start() {
        let roots = Roots::default();
        let mut child = Command::new("cat")
            .args(["-u", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Right after its start a process may have no command line yet: one that answers has.
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        let answer = child.stdout.as_mut().unwrap();
        answer.read_exact(&mut [0]).unwrap();
        let arguments = arguments_of(&roots, child.id());
        let started = started_ticks_of(&roots, child.id());
        let parent = parent_of(&roots, child.id());
        let is_fork = is_fork_of_parent(&roots, child.id());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(arguments, ["cat", "-u", "-"]);
        assert!(started >= started_ticks_of(&roots, std::process::id()));
        assert_eq!(parent, Some(std::process::id()));
        assert!(!is_fork);
        assert!(arguments_of(&roots, child.id()).is_empty());
        assert_eq!(started_ticks_of(&roots, child.id()), None);
        assert_eq!(parent_of(&roots, child.id()), None);
        assert!(!is_fork_of_parent(&roots, child.id()));
    }

    #[test]
    fn a_fork_of_a_program_is_known_while_its_parent_runs_that_program() {
        let proc = tempfile::tempdir().unwrap();
        let process = |pid: u32, parent: u32, flags: u64, program: &str| {
            let folder = proc.path().join(pid.to_string());
            std::fs::create_dir(&folder).unwrap();
            let stat =
                format!("{pid} (x) S {parent} 1 1 0 -1 {flags} 0 0 0 0 1 1 0 0 20 0 1 0 9 4096 1");
            std::fs::write(folder.join("stat"), stat).unwrap();
            std::os::unix::fs::symlink(program, folder.join("exe")).unwrap();
        };
        process(10, 1, 0, "/usr/bin/python3");
        process(11, 10, 0x40_0040, "/usr/bin/python3");
        process(12, 10, 0, "/usr/bin/python3");
        process(13, 99, 0x40, "/usr/bin/python3");
        let shell = 20;
        process(shell, 1, 0, "/bin/sh");
        process(21, shell, 0x40, "/usr/bin/python3");
        let roots = Roots {
            proc: proc.path().to_owned(),
            ..Roots::default()
        };
        let forks = (10..22).filter(|pid| is_fork_of_parent(&roots, *pid));
        assert_eq!(forks.collect::<Vec<u32>>(), [11]);
        assert_eq!(parent_of(&roots, 11), Some(10));
        assert_eq!(parent_of(&roots, 99), None);
    }
}
