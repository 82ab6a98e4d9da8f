//! Every process below one process, for a parent that has to end all it started.

use crate::linux::{ProcFolder, STAT_BYTES};
use crate::roots::Roots;

/// The PIDs of the children of `pid`, their children and so on, parents before children.
///
/// Zombies are among them. Read from one pass over `/proc`, so a process that is forked meanwhile may be missing: ask again until nothing is left.
pub fn descendants_of(roots: &Roots, pid: u32) -> Vec<u32> {
    let Ok(proc) = ProcFolder::open(&roots.proc) else {
        return Vec::new();
    };
    let mut buffer = [0; STAT_BYTES];
    let parents: Vec<(u32, u32)> = proc
        .pids()
        .into_iter()
        .filter_map(|pid| Some((pid, proc.stat_of(pid, &mut buffer)?.parent)))
        .collect();
    let mut found = vec![pid];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        let children = parents.iter().filter(|pair| pair.1 == parent);
        let new: Vec<u32> = children
            .map(|pair| pair.0)
            .filter(|child| !found.contains(child))
            .collect();
        found.extend(new);
        next += 1;
    }
    found.remove(0);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn children_and_grandchildren_are_found() {
        use std::io::{BufRead, BufReader};
        let mut child = Command::new("sh")
            .args(["-c", "sleep 60 & echo $!; read line; kill $!; wait"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        let grandchild: u32 = line.trim().parse().unwrap();
        let found = descendants_of(&Roots::default(), std::process::id());
        drop(child.stdin.take());
        child.wait().unwrap();
        let place = |pid| found.iter().position(|found| *found == pid);
        assert!(place(child.id()).unwrap() < place(grandchild).unwrap());
    }
}
