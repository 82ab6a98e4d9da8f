//! Any bytes as any file of a run: nothing panics, nothing runs away.
//!
//! The first byte chooses the file. Under `cargo fuzz` checksums are not compared (see `checksum.rs`), so that the bytes reach the parsers behind them.
//! Seeds: `fuzz/seed.sh` puts the golden runs into the corpus.

#![no_main]

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use nilo_runfile::{RunFolder, TableSelector};

const DESCRIPTION: &str = r#"{"schema":"nilo.run/1","id":"fuzz","mode":"run","started_unix_nanos":1794729330417000000,"started_monotonic_nanos":1000000000000}"#;

/// One folder for each fuzzing process, in memory.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new("/dev/shm").join(format!("nilo-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder in memory");
    folder
});

fuzz_target!(|data: &[u8]| {
    let Some((choice, bytes)) = data.split_first() else {
        return;
    };
    let file = match choice % 4 {
        0 => "w-1.0000.nilo",
        1 => "w-1.nilc",
        2 => "marks.nilo",
        _ => "run.json",
    };
    std::fs::write(FOLDER.join("run.json"), DESCRIPTION).expect("space in memory");
    std::fs::write(FOLDER.join(file), bytes).expect("space in memory");
    if let Ok(run) = RunFolder::open(&FOLDER) {
        let loaded = run.load();
        let _ = run.verify();
        let _ = run.follow().poll();
        if let Ok(recording) = loaded {
            for table in recording.tables.iter().take(3) {
                let selector = TableSelector::subject(table.spec.subject.clone());
                for column in table.spec.columns.iter().take(3) {
                    let one = run.load_column(&column.name, &|_| true).expect("loads as a whole");
                    assert!(one.tables.iter().all(|table| table.columns.len() == 1));
                    let _ = run.chart(&selector, &column.name, 0, 60_000_000_000, 100, Some(1));
                    let _ = run.chart(&selector, &column.name, 7, u64::MAX, 3, None);
                }
            }
        }
    }
    let _ = std::fs::remove_file(FOLDER.join(file));
});
