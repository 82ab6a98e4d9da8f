//! Every limit on a process's memory. The smallest is the one in force: `nilo_sample::limit::smallest`.
//!
//! The limit that kills is often an ancestor's: in Slurm the task's own cgroup is unlimited and the step's and the job's are not, in Kubernetes there are pod and container.

use nilo_sample::limit::{Limit, LimitSource, NO_LIMIT_FROM};

use crate::cgroup::{CgroupAncestor, MemoryCgroup, levels_of, parse_limit};
use crate::descriptors::read_kernel_file;
use crate::kernel_text::{labelled_kib, line_after, number};
use crate::roots::Roots;

/// Every finite limit: the cgroups from the process's own up to the root, both versions; the machine; resource limits.
pub fn resolve_limits(roots: &Roots, pid: u32) -> Vec<Limit> {
    let mut limits: Vec<Limit> = cgroup_limits(roots, pid)
        .map(|(bytes, level)| Limit {
            bytes,
            source: LimitSource::Cgroup {
                path: level.path,
                version: level.version,
            },
        })
        .collect();
    let host = read_kernel_file(roots.proc.join("meminfo"))
        .ok()
        .and_then(|text| labelled_kib(&text, b"MemTotal:"));
    limits.extend(host.map(|bytes| Limit {
        bytes,
        source: LimitSource::Host,
    }));
    if let Ok(text) = read_kernel_file(roots.proc.join(pid.to_string()).join("limits")) {
        limits.extend(parse_rlimits(&text));
    }
    limits
}

/// The cgroup that holds the smallest limit; its counters are those that tell of a kill.
pub fn limiting_cgroup(roots: &Roots, pid: u32) -> Option<MemoryCgroup> {
    let (_, level) = cgroup_limits(roots, pid).min_by_key(|(bytes, _)| *bytes)?;
    MemoryCgroup::open(level).ok()
}

fn cgroup_limits(roots: &Roots, pid: u32) -> impl Iterator<Item = (u64, CgroupAncestor)> {
    levels_of(roots, pid).into_iter().filter_map(|level| {
        let name = match level.version {
            1 => "memory.limit_in_bytes",
            _ => "memory.max",
        };
        let text = read_kernel_file(level.folder.join(name)).ok()?;
        Some((parse_limit(&text)?, level))
    })
}

/// The soft limits that make allocations fail, of `/proc/PID/limits`.
fn parse_rlimits(text: &[u8]) -> Vec<Limit> {
    [("as", "Max address space"), ("data", "Max data size")]
        .into_iter()
        .filter_map(|(resource, label)| {
            let bytes = number(line_after(text, label.as_bytes())?)?;
            (bytes < NO_LIMIT_FROM).then(|| Limit {
                bytes,
                source: LimitSource::Rlimit {
                    resource: resource.to_owned(),
                },
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn unlimited_resources_are_no_limits() {
        let text = b"Limit                     Soft Limit           Hard Limit           Units     \nMax data size             unlimited            unlimited            bytes     \nMax address space         400000000            unlimited            bytes     \n";
        let limits = parse_rlimits(text);
        assert_eq!(limits.len(), 1);
        assert_eq!(limits[0].bytes, 400_000_000);
        assert_eq!(limits[0].source.to_string(), "RLIMIT_AS");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(text: Vec<u8>) {
            let _ = parse_rlimits(&text);
        }
    }
}
