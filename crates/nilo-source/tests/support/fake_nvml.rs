//! The fake driver of `tests/fake-nvml`, compiled and filled with numbers.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

pub const GIB: u64 = 1 << 30;

/// A driver's library with a file of numbers beside it.
pub struct FakeDriver {
    folder: TempDir,
}

impl FakeDriver {
    /// Compiles the library into a folder of its own.
    pub fn new(lines: &[String]) -> FakeDriver {
        let folder = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../tests/fake-nvml/fake_nvml.c")
            .canonicalize()
            .unwrap();
        let status = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(folder.path().join("libnvidia-ml.so.1"))
            .arg(source)
            .arg("-ldl")
            .status()
            .unwrap();
        assert!(status.success());
        let driver = FakeDriver { folder };
        driver.say(lines);
        driver
    }

    pub fn library(&self) -> PathBuf {
        self.folder.path().join("libnvidia-ml.so.1")
    }

    /// Replaces the numbers at once.
    pub fn say(&self, lines: &[String]) {
        let draft = self.folder.path().join("draft");
        std::fs::write(&draft, lines.join("\n")).unwrap();
        std::fs::rename(draft, self.folder.path().join("gpus.txt")).unwrap();
    }
}

/// The line of a GPU of 16 GiB, of which one is reserved.
pub fn gpu(uuid: &str, used: i64, busy: i64) -> String {
    format!("gpu {uuid} {} {GIB} {used} {busy} Fake G16", 16 * GIB)
}

pub fn process(uuid: &str, pid: u32, bytes: i64) -> String {
    format!("process {uuid} {pid} {bytes}")
}
