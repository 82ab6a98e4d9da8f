//! The children of a process.

use crate::descriptors::read_kernel_file;
use crate::kernel_text::{number, words};
use crate::roots::Roots;

/// PIDs of the children of every thread of this process, zombies included; nobody where the kernel does not list them.
///
/// Complete only while none of them ends.
pub fn own_children(roots: &Roots) -> Vec<u32> {
    children_of(roots, std::process::id())
}

/// The same of any process.
pub(crate) fn children_of(roots: &Roots, pid: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(roots.proc.join(pid.to_string()).join("task"));
    let lists = threads.into_iter().flatten().flatten();
    let lists = lists.filter_map(|thread| read_kernel_file(thread.path().join("children")).ok());
    lists.flat_map(|list| pids(&list)).collect()
}

fn pids(list: &[u8]) -> Vec<u32> {
    let numbers = words(list).filter_map(number);
    numbers.filter_map(|pid| u32::try_from(pid).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_listed_until_it_is_waited_for() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        assert!(own_children(&Roots::default()).contains(&child.id()));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!own_children(&Roots::default()).contains(&child.id()));
    }
}
