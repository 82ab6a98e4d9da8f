//! Any bytes as a recording of another tool: refused or read, never a panic, and what is read keeps its promises.
//!
//! The first byte chooses the options. Seeds: `fuzz/seed.sh` puts the samples of real tools into the corpus.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nilo_import::{ByteUnit, ImportOptions, read};

fuzz_target!(|data: &[u8]| {
    let Some((choice, bytes)) = data.split_first() else {
        return;
    };
    let mut options = ImportOptions {
        most_rows: 5_000,
        ..ImportOptions::default()
    };
    if choice & 1 != 0 {
        options.unit = Some(ByteUnit::Mib);
    }
    if choice & 2 != 0 {
        options.total_bytes = Some(1 << 34);
    }
    if choice & 4 != 0 {
        options.columns = vec!["rss".to_owned()];
    }
    match read(bytes, &options) {
        Err(error) => assert!(!error.to_string().contains('\n'), "one sentence: {error}"),
        Ok(import) => {
            for table in &import.tables {
                assert!(table.times.is_sorted());
                assert!(table.columns.iter().all(|c| c.values.len() == table.times.len()));
                assert!(table.steps.is_empty() || table.steps.len() == table.times.len());
            }
            assert!(!import.tracks().is_empty());
        }
    }
});
