//! Whether a process moved into another cgroup: the cheap question, through a descriptor that is kept open.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::roots::Roots;

/// Which cgroups a process was in when it was asked last.
#[derive(Debug, Default)]
pub struct CgroupMembership {
    pid: u32,
    file: Option<File>,
    text: Vec<u8>,
}

impl CgroupMembership {
    /// Whether the process is in other cgroups than on the call before, as it is on the first one.
    pub fn has_changed(&mut self, roots: &Roots, pid: u32) -> bool {
        if self.pid != pid {
            self.pid = pid;
            self.file = File::open(roots.proc.join(pid.to_string()).join("cgroup")).ok();
        }
        let mut buffer = [0u8; 4096];
        let file = self.file.as_ref();
        let read = file.and_then(|file| file.read_at(&mut buffer, 0).ok());
        let text = &buffer[..read.unwrap_or(0)];
        // A process that is gone is in no other cgroup.
        let has_changed = !text.is_empty() && text != self.text;
        if has_changed {
            self.text = text.to_vec();
        }
        has_changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_is_seen_once() {
        let folder = tempfile::tempdir().unwrap();
        let process = folder.path().join("7");
        std::fs::create_dir(&process).unwrap();
        let roots = Roots {
            proc: folder.path().to_owned(),
            ..Roots::default()
        };
        let moves_to = |text: &str| std::fs::write(process.join("cgroup"), text).unwrap();
        moves_to("0::/a\n");
        let mut membership = CgroupMembership::default();
        assert!(membership.has_changed(&roots, 7));
        assert!(!membership.has_changed(&roots, 7));
        moves_to("0::/b\n");
        assert!(membership.has_changed(&roots, 7));
        assert!(!membership.has_changed(&roots, 7));
        moves_to("");
        assert!(!membership.has_changed(&roots, 7));
        assert!(!membership.has_changed(&roots, 8));
    }
}
