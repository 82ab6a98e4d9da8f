//! What holds for every file.

use nilo_import::{Import, ImportOptions, read};
use proptest::prelude::*;

fn is_sound(import: &Import) {
    for table in &import.tables {
        assert!(table.times.is_sorted());
        for column in &table.columns {
            assert_eq!(column.values.len(), table.times.len());
            assert!(column.values.iter().all(|v| v.is_nan() || *v >= 0.0));
        }
        assert!(table.steps.is_empty() || table.steps.len() == table.times.len());
    }
    for track in import.tracks() {
        assert_eq!(track.used.times.len(), track.used.values.len());
    }
}

proptest! {
    #[test]
    fn any_text_is_survived(text in "(\\PC|\n|,|\"|;){0,200}") {
        if let Ok(import) = read(text.as_bytes(), &ImportOptions::default()) {
            is_sound(&import);
        }
    }

    #[test]
    fn any_cells_under_a_good_header_are_survived(rows in prop::collection::vec("[-0-9.eE,\"a ]{0,30}", 0..20)) {
        for header in ["t_s,step,phase,allocated,reserved", "timestamp, index, memory.used [MiB]", "time_seconds,table,column,step,value,writer", "CMDLINE x"] {
            let text = format!("{header}\n{}\n", rows.join("\n"));
            if let Ok(import) = read(text.as_bytes(), &ImportOptions::default()) {
                is_sound(&import);
            }
        }
    }

    #[test]
    fn numbers_come_back_as_they_were_written(values in prop::collection::vec(0u64..1 << 50, 1..50)) {
        let lines: String = values.iter().enumerate().map(|(row, value)| format!("{row},{value}\n")).collect();
        let import = read(format!("t,rss_bytes\n{lines}").as_bytes(), &ImportOptions::default()).expect("a good file");
        let tracks = import.tracks();
        let read_back: Vec<u64> = tracks[0].used.values.iter().map(|value| *value as u64).collect();
        prop_assert_eq!(read_back, values);
    }
}
