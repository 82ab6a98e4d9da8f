//! The two folders that the kernel speaks through, as parameters.

use std::path::PathBuf;

/// Where `/proc` and `/sys/fs/cgroup` are; elsewhere only for captured trees and for hosts seen from a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots {
    /// Usually `/proc`.
    pub proc: PathBuf,
    /// Usually `/sys/fs/cgroup`; mount points below that path are looked up here.
    pub cgroup: PathBuf,
}

impl Default for Roots {
    fn default() -> Roots {
        Roots {
            proc: PathBuf::from("/proc"),
            cgroup: PathBuf::from("/sys/fs/cgroup"),
        }
    }
}
