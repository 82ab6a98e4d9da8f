//! Stops the job and its recorder while pages are counted: a count of a tree that moves belongs to no moment.
//!
//! Both stop, so that the recorder cannot use the rest to measure at leisure.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Waits for the end of its input, which comes with the end of the harness, however that ends;
/// then it ends everybody in the cgroup of its first argument. The rest is how to thaw.
const CLEAN_UP: &str = r#"trap '' INT TERM HUP
read -r _
for _ in 1 2 3 4 5 6 7 8 9 10; do
    for process in $(cat "$1/cgroup.procs"); do kill -KILL "$process"; done
    echo "$3" > "$2"
    rmdir "$1" && exit
    sleep 0.1
done"#;

/// A cgroup that can be frozen; its processes end with it.
#[derive(Debug)]
pub(crate) struct Freezer {
    folder: PathBuf,
    control: PathBuf,
    /// What is written to freeze and to thaw.
    words: (&'static str, &'static str),
    clean_up: Child,
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
        let control = folder.join(control);
        let clean_up = Command::new("sh")
            .args(["-c", CLEAN_UP, "sh"])
            .args([&folder, &control])
            .arg(words.1)
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Freezer {
            folder,
            control,
            words,
            clean_up,
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
        // On a busy machine a process is frozen only when it gets the processor.
        for _ in 0..200_000 {
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
        drop(self.clean_up.stdin.take());
        self.clean_up.wait().ok();
    }
}
