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
        let mut compiler = Command::new("cc");
        compiler
            .args(["-shared", "-fPIC", "-o"])
            .arg(folder.path().join("libnvidia-ml.so.1"))
            .arg(sources().join("fake_nvml.c"))
            .arg("-ldl");
        let missing: Vec<&str> = lines
            .iter()
            .filter_map(|line| line.strip_prefix("missing "))
            .collect();
        if !missing.is_empty() {
            // Symbols that are hidden cannot be found, as if the driver were older.
            let script = folder.path().join("symbols");
            let hidden = missing.join("; ");
            std::fs::write(&script, format!("{{ global: *; local: {hidden}; }};")).unwrap();
            compiler.arg(format!("-Wl,--version-script={}", script.display()));
        }
        assert!(compiler.status().unwrap().success());
        let driver = FakeDriver { folder };
        driver.say(lines);
        driver
    }

    /// With a file of `scenarios`, and more lines at its beginning.
    pub fn scenario(name: &str, lines: &[String]) -> FakeDriver {
        let path = sources().join("scenarios").join(name);
        let text = std::fs::read_to_string(path).unwrap();
        let scenario = text.lines().map(str::to_owned);
        FakeDriver::new(&lines.iter().cloned().chain(scenario).collect::<Vec<_>>())
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
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

fn sources() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fake-nvml");
    folder.canonicalize().unwrap()
}
