//! The limit: how much memory the job may take before something kills it, and what that something is.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a limit comes from.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum LimitSource {
    /// A cgroup on the way to the root.
    Cgroup {
        /// Path below the mount.
        path: String,
        /// 1 or 2.
        version: u8,
    },
    /// The machine's memory.
    Host,
    /// A resource limit of the process (`RLIMIT_AS`, `RLIMIT_DATA`): allocations fail, nothing is killed.
    Rlimit {
        /// `as` or `data`.
        resource: String,
    },
}

/// What counts against a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitCounts {
    /// Pages that are held: of a cgroup, or of the machine.
    Memory,
    /// Addresses that one process has mapped, touched or not (`VmSize`).
    AddressSpace,
    /// Private writable addresses of one process, touched or not (`VmData`).
    DataSize,
}

impl fmt::Display for LimitCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LimitCounts::Memory => "memory",
            LimitCounts::AddressSpace => "address space",
            LimitCounts::DataSize => "data size",
        })
    }
}

impl LimitSource {
    /// What counts against it. Resident memory says nothing of a limit of addresses.
    pub fn counts(&self) -> LimitCounts {
        match self {
            LimitSource::Cgroup { .. } | LimitSource::Host => LimitCounts::Memory,
            LimitSource::Rlimit { resource } if resource == "data" => LimitCounts::DataSize,
            LimitSource::Rlimit { .. } => LimitCounts::AddressSpace,
        }
    }
}

impl fmt::Display for LimitSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitSource::Cgroup { path, version } => write!(f, "cgroup v{version} {path}"),
            LimitSource::Host => write!(f, "host memory"),
            LimitSource::Rlimit { resource } => write!(f, "RLIMIT_{}", resource.to_uppercase()),
        }
    }
}

/// A limit in force.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Limit {
    /// How much.
    pub bytes: u64,
    /// Whose.
    pub source: LimitSource,
}

impl Limit {
    /// Whether the pages that a job holds are what counts against it.
    pub fn is_of_memory(&self) -> bool {
        self.source.counts() == LimitCounts::Memory
    }
}

/// cgroup v1 writes "no limit" as the largest page-aligned number; anything this large is none.
pub const NO_LIMIT_FROM: u64 = 1 << 62;

/// The smallest of several limits, those too large to mean anything left out.
pub fn smallest(limits: impl IntoIterator<Item = Limit>) -> Option<Limit> {
    limits
        .into_iter()
        .filter(|limit| limit.bytes < NO_LIMIT_FROM)
        .min_by_key(|limit| limit.bytes)
}

/// Whether a cgroup is another one, or lies below it.
pub fn is_cgroup_within(path: &str, outer: &str) -> bool {
    let below = path.strip_prefix(outer.trim_end_matches('/'));
    below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_lies_within_itself_and_its_ancestors() {
        assert!(is_cgroup_within("/a/b", "/a/b") && is_cgroup_within("/a/b", "/a"));
        assert!(is_cgroup_within("/a", "/") && is_cgroup_within("/", "/"));
        assert!(!is_cgroup_within("/ab", "/a") && !is_cgroup_within("/a", "/a/b"));
    }
}
