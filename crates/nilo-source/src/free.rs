//! What this process may still take before something is killed, and what it should take at the most.

use crate::{CgroupReading, Host, Roots, limiting_cgroup};

/// The least of what the machine has available and what the limiting cgroup has left, file pages not counted: the kernel drops those.
pub fn free_memory(roots: &Roots) -> Option<u64> {
    let available = Host::new(roots).ok()?.read().available_bytes;
    let in_cgroup = limiting_cgroup(roots, std::process::id())
        .and_then(|mut cgroup| left_in(&cgroup.read(true)));
    available.into_iter().chain(in_cgroup).min()
}

/// Of the free memory, what a program takes that was given no budget: the rest is for whatever else grows meanwhile.
const USUAL_SHARE: f64 = 0.8;

/// A memory budget for a program that was given none, if it is known what is free.
pub fn usual_budget(roots: &Roots) -> Option<u64> {
    Some((free_memory(roots)? as f64 * USUAL_SHARE) as u64)
}

fn left_in(reading: &CgroupReading) -> Option<u64> {
    let files = reading
        .file_bytes
        .unwrap_or(0)
        .saturating_sub(reading.shmem_bytes.unwrap_or(0));
    let needed = reading.usage_bytes?.saturating_sub(files);
    Some(reading.limit_bytes?.saturating_sub(needed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_free_here_is_something_and_less_than_all() {
        let free = free_memory(&Roots::default()).unwrap();
        let total = Host::new(&Roots::default()).unwrap().read().total_bytes;
        assert!(free > 0 && Some(free) < total, "{free} of {total:?}");
    }

    #[test]
    fn pages_of_files_are_free_and_shared_memory_is_not() {
        let reading = CgroupReading {
            usage_bytes: Some(900),
            file_bytes: Some(700),
            shmem_bytes: Some(100),
            limit_bytes: Some(1000),
            ..CgroupReading::default()
        };
        assert_eq!(left_in(&reading), Some(700));
        let unlimited = CgroupReading {
            limit_bytes: None,
            ..reading
        };
        assert_eq!(left_in(&unlimited), None);
    }
}
