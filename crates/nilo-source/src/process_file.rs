//! Whether a file of a process says something else than before (its cgroups, its limits): the cheap question, through a descriptor that is kept open.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::roots::Roots;

/// What one file in the folder of a process in `/proc` said when it was read last.
#[derive(Debug)]
pub struct ProcessFile {
    name: &'static str,
    pid: u32,
    file: Option<File>,
    text: Vec<u8>,
}

impl ProcessFile {
    /// The cgroups that a process is in.
    pub fn cgroups() -> ProcessFile {
        ProcessFile::named("cgroup")
    }

    /// The limits of a process's own, such as `RLIMIT_AS`.
    pub fn limits() -> ProcessFile {
        ProcessFile::named("limits")
    }

    fn named(name: &'static str) -> ProcessFile {
        ProcessFile {
            name,
            pid: 0,
            file: None,
            text: Vec::new(),
        }
    }

    /// Whether the file says something else than on the call before, as it does on the first one.
    pub fn has_changed(&mut self, roots: &Roots, pid: u32) -> bool {
        if self.pid != pid {
            self.pid = pid;
            self.file = File::open(roots.proc.join(pid.to_string()).join(self.name)).ok();
        }
        let mut buffer = [0u8; 4096];
        let file = self.file.as_ref();
        let read = file.and_then(|file| file.read_at(&mut buffer, 0).ok());
        let text = &buffer[..read.unwrap_or(0)];
        // That of a process that is gone says nothing.
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
        let mut cgroups = ProcessFile::cgroups();
        assert!(cgroups.has_changed(&roots, 7));
        assert!(!cgroups.has_changed(&roots, 7));
        moves_to("0::/b\n");
        assert!(cgroups.has_changed(&roots, 7));
        assert!(!cgroups.has_changed(&roots, 7));
        moves_to("");
        assert!(!cgroups.has_changed(&roots, 7));
        assert!(!cgroups.has_changed(&roots, 8));
    }
}
