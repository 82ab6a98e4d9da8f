//! What this process may still take before something is killed.

use crate::{Host, Roots, limiting_cgroup, resolve_limits};

/// The least of what the machine has available and what the limiting cgroup has left.
pub fn free_memory(roots: &Roots) -> Option<u64> {
    let available = Host::new(roots).ok()?.read().available_bytes;
    let pid = std::process::id();
    let used = limiting_cgroup(roots, pid).and_then(|cgroup| cgroup.usage_bytes());
    let in_cgroup = resolve_limits(roots, pid)
        .first()
        .zip(used)
        .map(|(limit, used)| limit.bytes.saturating_sub(used));
    available.into_iter().chain(in_cgroup).min()
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
}
