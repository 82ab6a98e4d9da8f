//! Stops the job and its recorder while pages are counted: a count of a tree that moves belongs to no moment.
//!
//! Both stop, so that the recorder cannot use the rest to measure at leisure.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A cgroup that can be frozen; removed in the end.
#[derive(Debug)]
pub(crate) struct Freezer {
    folder: PathBuf,
    control: PathBuf,
    /// What is written to freeze and to thaw.
    words: (&'static str, &'static str),
}

impl Freezer {
    /// A new cgroup of version 2 or 1.
    pub(crate) fn new(name: &str) -> io::Result<Freezer> {
        let version_2 = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
            .into_iter()
            .map(Path::new)
            .find(|root| root.join("cgroup.controllers").exists());
        let (root, control, words) = match version_2 {
            Some(root) => (root, "cgroup.freeze", ("1", "0")),
            None => (
                Path::new("/sys/fs/cgroup/freezer"),
                "freezer.state",
                ("FROZEN", "THAWED"),
            ),
        };
        let folder = root.join(name);
        fs::create_dir(&folder)?;
        Ok(Freezer {
            control: folder.join(control),
            folder,
            words,
        })
    }

    /// Lets a command start in this cgroup.
    pub(crate) fn hold(&self, command: &mut Command) -> io::Result<()> {
        use std::io::Write as _;
        let members = fs::File::options()
            .write(true)
            .open(self.folder.join("cgroup.procs"))?;
        // SAFETY: one `write` to an open descriptor may be made between `fork` and `exec`.
        unsafe {
            command.pre_exec(move || (&members).write_all(b"0"));
        }
        Ok(())
    }

    /// Does something while everybody stands still.
    pub(crate) fn frozen<T>(&self, count: impl FnOnce() -> T) -> io::Result<T> {
        fs::write(&self.control, self.words.0)?;
        let outcome = self.wait_until_frozen().map(|()| count());
        fs::write(&self.control, self.words.1)?;
        outcome
    }

    fn wait_until_frozen(&self) -> io::Result<()> {
        for _ in 0..20_000 {
            let is_frozen = match self.words.0 {
                "1" => fs::read_to_string(self.folder.join("cgroup.events"))?.contains("frozen 1"),
                word => fs::read_to_string(&self.control)?.trim() == word,
            };
            if is_frozen {
                return Ok(());
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        Err(io::Error::other("the job cannot be frozen"))
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        fs::write(&self.control, self.words.1).ok();
        // Whoever was there has just ended; the kernel may need a moment to notice.
        for _ in 0..100 {
            match fs::remove_dir(&self.folder) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                _ => return,
            }
        }
    }
}
