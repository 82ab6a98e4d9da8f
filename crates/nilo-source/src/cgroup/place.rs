//! Where the memory cgroups of a process lie, from its own up to the root of the mount.
//!
//! `/proc/PID/cgroup` names the cgroup below its hierarchy's root, `/proc/self/mountinfo` says which part of that hierarchy is mounted where.
//! In a container without a cgroup namespace the mount shows only a subtree, so the mount's root must be taken off the path.
//! On hybrid hosts both versions are mounted; the one that has the memory controller counts, and both are walked.

use std::path::{Path, PathBuf};

use crate::descriptors::read_kernel_file;
use crate::roots::Roots;

/// One cgroup on the way to the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CgroupAncestor {
    /// The path below the hierarchy's root, as the kernel names it.
    pub(crate) path: String,
    /// Where its files are.
    pub(crate) folder: PathBuf,
    /// 1 or 2.
    pub(crate) version: u8,
}

/// A mounted cgroup hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CgroupMount {
    /// Which part of the hierarchy is mounted: `/` is all of it.
    root: String,
    at: PathBuf,
    version: u8,
}

/// The memory cgroups of a process, its own first, for each version that is there.
pub(crate) fn levels_of(roots: &Roots, pid: u32) -> Vec<CgroupAncestor> {
    let Ok(membership) = read_kernel_file(roots.proc.join(pid.to_string()).join("cgroup")) else {
        return Vec::new();
    };
    let mounts = read_kernel_file(roots.proc.join("self/mountinfo"))
        .map(|text| parse_mounts(&String::from_utf8_lossy(&text), &roots.cgroup))
        .unwrap_or_default();
    let mut levels = Vec::new();
    for (version, path) in parse_membership(&String::from_utf8_lossy(&membership)) {
        let mount = mounts
            .iter()
            .find(|mount| mount.version == version)
            .cloned()
            .or_else(|| default_mount(roots, version));
        if let Some(mount) = mount {
            levels.extend(climb(&mount, path));
        }
    }
    levels
}

/// The path of the memory cgroup that a process is in, as the kernel names it: one read.
pub fn memory_cgroup_path(roots: &Roots, pid: u32) -> Option<String> {
    let text = read_kernel_file(roots.proc.join(pid.to_string()).join("cgroup")).ok()?;
    let text = String::from_utf8_lossy(&text);
    let (_, path) = parse_membership(&text).into_iter().next()?;
    Some(path.to_owned())
}

/// Version and path of the memory cgroups, version 1 first: where both are there, version 1 has the controller.
fn parse_membership(text: &str) -> Vec<(u8, &str)> {
    let mut found: Vec<(u8, &str)> = text
        .lines()
        .filter_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let version = match (number, controllers) {
                ("0", "") => 2,
                (_, list) if list.split(',').any(|name| name == "memory") => 1,
                _ => return None,
            };
            // The kernel marks a cgroup whose folder was removed.
            let path = path.strip_suffix(" (deleted)").unwrap_or(path);
            path.starts_with('/').then_some((version, path))
        })
        .collect();
    found.sort_by_key(|(version, _)| *version);
    found
}

/// The mounts that can hold memory cgroups. Mount points below `/sys/fs/cgroup` are looked up in `cgroup_root`.
fn parse_mounts(text: &str, cgroup_root: &Path) -> Vec<CgroupMount> {
    text.lines()
        .filter_map(|line| {
            // id parent major:minor root mount-point options [optional…] - type source super-options
            let (before, after) = line.split_once(" - ")?;
            let mut fields = before.split(' ').skip(3);
            let (root, at) = (fields.next()?, fields.next()?);
            let mut fields = after.split(' ');
            let kind = fields.next()?;
            let options = fields.nth(1)?;
            let version = match kind {
                "cgroup2" => 2,
                "cgroup" if options.split(',').any(|option| option == "memory") => 1,
                _ => return None,
            };
            let at = PathBuf::from(unescape(at));
            let at = match at.strip_prefix("/sys/fs/cgroup") {
                Ok(below) => cgroup_root.join(below),
                Err(_) => at,
            };
            Some(CgroupMount {
                root: unescape(root),
                at,
                version,
            })
        })
        .collect()
}

/// Where the hierarchies usually are, for hosts whose mount list may not be read.
fn default_mount(roots: &Roots, version: u8) -> Option<CgroupMount> {
    let candidates = match version {
        1 => vec![roots.cgroup.join("memory")],
        _ => vec![roots.cgroup.clone(), roots.cgroup.join("unified")],
    };
    let at = candidates
        .into_iter()
        .find(|at| at.join("cgroup.procs").exists())?;
    Some(CgroupMount {
        root: "/".to_owned(),
        at,
        version,
    })
}

/// From the process's cgroup up to the mount's root.
fn climb(mount: &CgroupMount, path: &str) -> Vec<CgroupAncestor> {
    let (prefix, below) = match below_root(&mount.root, path) {
        Some(below) => (mount.root.trim_end_matches('/'), below),
        // Seen from another namespace: what is mounted is then the job's own root, unless the path happens to exist in it.
        None if mount.at.join(path.trim_start_matches('/')).is_dir() => ("", path),
        None => ("", "/"),
    };
    if below.split('/').any(|part| part == "..") {
        // Outside of what our namespace shows.
        return Vec::new();
    }
    let parts: Vec<&str> = below.split('/').filter(|part| !part.is_empty()).collect();
    (0..=parts.len())
        .rev()
        .map(|depth| {
            let below = parts[..depth].join("/");
            let mut path = prefix.to_owned();
            if !below.is_empty() || path.is_empty() {
                path = format!("{path}/{below}");
            }
            CgroupAncestor {
                path,
                folder: if below.is_empty() {
                    mount.at.clone()
                } else {
                    mount.at.join(below)
                },
                version: mount.version,
            }
        })
        .collect()
}

/// The path below the mounted part; `None` when it lies elsewhere.
fn below_root<'a>(root: &str, path: &'a str) -> Option<&'a str> {
    let below = path.strip_prefix(root.trim_end_matches('/'))?;
    (below.is_empty() || below.starts_with('/')).then_some(below)
}

/// `mountinfo` writes blanks, tabs, newlines and backslashes as octal numbers.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        let code = rest
            .get(at + 1..at + 4)
            .and_then(|digits| u8::from_str_radix(digits, 8).ok())
            .filter(u8::is_ascii);
        match code {
            Some(byte) => {
                plain.push(char::from(byte));
                rest = &rest[at + 4..];
            }
            None => {
                plain.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn paths(mount_root: &str, path: &str) -> Vec<(String, String)> {
        let mount = CgroupMount {
            root: mount_root.to_owned(),
            at: PathBuf::from("/nowhere/cg"),
            version: 2,
        };
        climb(&mount, path)
            .into_iter()
            .map(|level| (level.path, level.folder.display().to_string()))
            .collect()
    }

    fn pair(path: &str, folder: &str) -> (String, String) {
        (path.to_owned(), folder.to_owned())
    }

    #[test]
    fn the_way_leads_to_the_mounts_root() {
        assert_eq!(
            paths("/", "/a/b"),
            [
                pair("/a/b", "/nowhere/cg/a/b"),
                pair("/a", "/nowhere/cg/a"),
                pair("/", "/nowhere/cg"),
            ]
        );
        assert_eq!(paths("/", "/"), [pair("/", "/nowhere/cg")]);
    }

    #[test]
    fn a_mounted_subtree_is_taken_off_the_path() {
        assert_eq!(
            paths("/docker/abc", "/docker/abc/x"),
            [
                pair("/docker/abc/x", "/nowhere/cg/x"),
                pair("/docker/abc", "/nowhere/cg"),
            ]
        );
        // Not the same folder, only the same beginning.
        assert_eq!(
            paths("/docker/ab", "/docker/abc"),
            [pair("/", "/nowhere/cg")]
        );
    }

    #[test]
    fn a_path_outside_the_namespace_is_not_followed() {
        assert_eq!(paths("/", "/../other"), []);
    }

    #[test]
    fn both_versions_are_found_and_the_first_comes_first() {
        let text = "0::/user.slice\n4:memory:/job (deleted)\n3:cpuset,cpu:/x\n1:name=systemd:/y\n";
        assert_eq!(parse_membership(text), [(1, "/job"), (2, "/user.slice")]);
    }

    #[test]
    fn mount_points_with_blanks_are_read() {
        let text = "31 23 0:28 / /mnt/a\\040b rw,relatime shared:7 - cgroup2 cgroup2 rw\n32 31 0:29 /x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n33 31 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        let mounts = parse_mounts(text, Path::new("/fixture"));
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts[0].at, Path::new("/mnt/a b"));
        assert_eq!(mounts[1].at, Path::new("/fixture/memory"));
        assert_eq!((mounts[1].root.as_str(), mounts[1].version), ("/x", 1));
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "(?s).*", lines in "([0-9 :/\\\\a-c.-]|\n| - cgroup2 x memory){0,200}") {
            for text in [&text, &lines] {
                for mount in parse_mounts(text, Path::new("/r")) {
                    let _ = climb(&mount, text);
                }
                let _ = parse_membership(text);
                let _ = unescape(text);
            }
        }
    }
}
