//! What started a process, and when: for programs that ask who their parent is.

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
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(arguments, ["cat", "-u", "-"]);
        assert!(started >= started_ticks_of(&roots, std::process::id()));
        assert!(arguments_of(&roots, child.id()).is_empty());
        assert_eq!(started_ticks_of(&roots, child.id()), None);
    }
}
