//! The processes above one process.

use std::collections::BTreeSet;

use crate::linux::{ProcFolder, STAT_BYTES};
use crate::roots::Roots;

/// Nobody has so many; a captured tree may go round in circles.
const MOST_ANCESTORS: usize = 64;

/// The process itself and its parents, up to the first process of the machine, which is not among them.
pub fn with_ancestors(roots: &Roots, pid: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let Ok(proc) = ProcFolder::open(&roots.proc) else {
        return BTreeSet::from([pid]);
    };
    let mut buffer = [0; STAT_BYTES];
    let mut next = pid;
    while next > 1 && found.insert(next) && found.len() < MOST_ANCESTORS {
        next = proc.stat_of(next, &mut buffer).map_or(0, |it| it.parent);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_has_us_above_it() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let found = with_ancestors(&Roots::default(), child.id());
        drop(child.stdin.take());
        child.wait().unwrap();
        let own = with_ancestors(&Roots::default(), std::process::id());
        assert!(own.contains(&std::process::id()) && !own.contains(&1));
        assert!(found.is_superset(&own) && found.len() == own.len() + 1);
    }
}
