//! The processes of the program that we are part of, as far as GPUs are concerned.
//!
//! The recorder knows the tree of a job; a program that only wants to know its own share of a GPU need not follow its whole tree for that.

use crate::linux::{ProcFolder, STAT_BYTES};
use crate::roots::Roots;

/// Longer chains of parents than this are loops.
const MOST_GENERATIONS: usize = 64;

/// A process and its descendants.
#[derive(Debug)]
pub struct ProcessSubtree {
    proc: Option<ProcFolder>,
    root: u32,
}

impl ProcessSubtree {
    /// The family of the process with this PID.
    pub fn of(roots: &Roots, root: u32) -> ProcessSubtree {
        ProcessSubtree {
            proc: ProcFolder::open(&roots.proc).ok(),
            root,
        }
    }

    /// The root and those among `candidates` that descend from it, in ascending order.
    pub fn members_among(&self, candidates: impl Iterator<Item = u32>) -> Vec<u32> {
        let mut members: Vec<u32> = candidates.filter(|pid| self.has(*pid)).collect();
        members.push(self.root);
        members.sort_unstable();
        members.dedup();
        members
    }

    /// The root and all its descendants. Reads every process of the machine.
    pub fn members(&self) -> Vec<u32> {
        let pids = self.proc.as_ref().map(ProcFolder::pids);
        self.members_among(pids.unwrap_or_default().into_iter())
    }

    fn has(&self, pid: u32) -> bool {
        let Some(proc) = &self.proc else {
            return false;
        };
        let mut pid = pid;
        for _ in 0..MOST_GENERATIONS {
            if pid == self.root {
                return true;
            }
            let mut buffer = [0; STAT_BYTES];
            match proc.stat_of(pid, &mut buffer) {
                Some(stat) if stat.parent != 0 => pid = stat.parent,
                _ => return false,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_of_the_family_and_a_stranger_is_not() {
        let mut child = std::process::Command::new("sleep")
            .arg("100")
            .spawn()
            .unwrap();
        let own = std::process::id();
        let family = ProcessSubtree::of(&Roots::default(), own);
        let mut expected = vec![own, child.id()];
        expected.sort_unstable();
        let candidates = [1, child.id(), 4_194_305];
        assert_eq!(family.members_among(candidates.into_iter()), expected);
        assert!(family.members().contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
