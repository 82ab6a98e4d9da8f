//! What is written is read: through segments, compaction, and both ways of writing.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod support;

use nilo_runfile::{RunFolder, RunWriter, RunfileError, WriteMode, WriterOptions, list_runs};
use nilo_sample::{ABSENT, Event, RecordedTable, Subject, TableSpec};
use proptest::prelude::*;
use support::{Scratch, metrics, small_segments};

#[test]
fn rows_and_events_come_back_in_both_modes() {
    for mode in [WriteMode::Mapped, WriteMode::Written] {
        let scratch = Scratch::new();
        let options = WriterOptions {
            mode,
            ..WriterOptions::default()
        };
        let mut writer = RunWriter::create(scratch.run.path(), "test", options).unwrap();
        assert_eq!(writer.is_mapped(), mode == WriteMode::Mapped);
        let tree = writer.define(&TableSpec::tree());
        let loss = writer.define(&metrics("loss", 1));
        let odd = f64::from_bits(0x7ff8_dead_beef_0001);
        for index in 0..1000u64 {
            let value = index as f64;
            assert!(writer.append(
                tree,
                scratch.start + index,
                None,
                &[value, ABSENT, odd, f64::INFINITY, -0.0, 5.0, 6.0]
            ));
            assert!(writer.append(
                loss,
                scratch.start + index,
                Some(index as i64),
                &[value / 3.0]
            ));
        }
        let mark = Event::Mark {
            text: "epoch 1".to_owned(),
        };
        assert!(writer.event(scratch.start + 5, &mark));
        let name = writer.name().to_owned();
        writer.close();

        let recording = scratch.run.load().unwrap();
        assert_eq!(recording.damage, Vec::<String>::new());
        assert_eq!(recording.dropped_rows, 0);
        let tree = recording.table(&Subject::Tree).unwrap();
        assert_eq!(tree.writer, name);
        assert_eq!(tree.times, (0..1000).collect::<Vec<_>>());
        assert!(tree.steps.is_empty());
        assert_eq!(tree.columns[0][999], 999.0);
        assert!(tree.columns[1].iter().all(|v| nilo_sample::is_absent(*v)));
        assert!(tree.columns[2].iter().all(|v| v.to_bits() == odd.to_bits()));
        let loss = recording.table(&metrics("loss", 1).subject).unwrap();
        assert_eq!(loss.steps[7], 7);
        assert_eq!(recording.events[0].event, mark);
        assert_eq!(recording.events[0].time_nanos, 5);
    }
}

#[test]
fn compaction_changes_nothing_that_is_read() {
    let mut loaded = Vec::new();
    for compact in [false, true] {
        let scratch = Scratch::new();
        let mut writer =
            RunWriter::create(scratch.run.path(), "w", small_segments(compact)).unwrap();
        let wide = writer.define(&metrics("wide", 5));
        let rare = writer.define(&metrics("rare", 2));
        for index in 0..20_000u64 {
            let x = index as f64;
            let values = [
                x,
                x * x,
                (x / 7.0).sin(),
                if index % 3 == 0 { ABSENT } else { x },
                f64::NAN,
            ];
            assert!(writer.append(
                wide,
                scratch.start + index * 1000,
                Some(index as i64),
                &values
            ));
            if index % 500 == 0 {
                assert!(writer.append(rare, scratch.start + index * 1000, None, &[x, -x]));
                let text = format!("{index}");
                assert!(writer.event(scratch.start + index * 1000, &Event::Mark { text }));
            }
        }
        writer.close();
        let names = scratch.file_names();
        assert_eq!(
            names.iter().any(|name| name.ends_with(".nilc")),
            compact,
            "{names:?}"
        );
        let recording = scratch.run.load().unwrap();
        assert_eq!(recording.damage, Vec::<String>::new());
        assert!(scratch.run.verify().unwrap().ok);
        loaded.push(format!("{:?} {:?}", recording.tables, recording.events));
    }
    assert!(loaded[0] == loaded[1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn compaction_of_anything_equals_its_segments(
        shapes in prop::collection::vec((1usize..6, any::<bool>(), 1usize..40), 1..5),
        seed: u64,
    ) {
        let mut loaded = Vec::new();
        for compact in [false, true] {
            let scratch = Scratch::new();
            let mut writer = RunWriter::create(scratch.run.path(), "w", small_segments(compact)).unwrap();
            let tables: Vec<_> = shapes
                .iter()
                .enumerate()
                .map(|(index, (columns, _, _))| writer.define(&metrics(&format!("{index}"), *columns)))
                .collect();
            let mut state = seed | 1;
            for time in 0..6000u64 {
                for (table, (columns, has_step, every)) in tables.iter().zip(&shapes) {
                    if time % *every as u64 != 0 {
                        continue;
                    }
                    let values: Vec<f64> = (0..*columns)
                        .map(|_| {
                            state ^= state << 13;
                            state ^= state >> 7;
                            state ^= state << 17;
                            match state % 7 {
                                0 => ABSENT,
                                1 => f64::from_bits(state),
                                2 => f64::NAN,
                                _ => (state % 100_000 * 4096) as f64,
                            }
                        })
                        .collect();
                    let step = (*has_step && state % 5 > 0).then_some(time as i64 - 50);
                    prop_assert!(writer.append(*table, scratch.start + time * 997, step, &values));
                }
            }
            writer.close();
            let recording = scratch.run.load().unwrap();
            prop_assert_eq!(&recording.damage, &Vec::<String>::new());
            let bits: Vec<_> = recording
                .tables
                .iter()
                .map(|table| {
                    let bits = |column: &Vec<f64>| column.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                    let columns: Vec<_> = table.columns.iter().map(bits).collect();
                    (table.spec.clone(), table.times.clone(), table.steps.clone(), columns)
                })
                .collect();
            loaded.push(bits);
        }
        prop_assert!(loaded[0] == loaded[1]);
    }
}

#[test]
fn a_short_run_leaves_one_small_segment_and_no_thread() {
    let scratch = Scratch::new();
    let mut writer =
        RunWriter::create(scratch.run.path(), "recorder", WriterOptions::default()).unwrap();
    let table = writer.define(&metrics("m", 1));
    assert!(writer.append(table, scratch.start, None, &[1.0]));
    let bytes = writer.bytes_written();
    writer.close();
    let name = format!("recorder-{}.0000.nilo", std::process::id());
    assert_eq!(scratch.file_names(), [name.clone(), "run.json".to_owned()]);
    let length = std::fs::metadata(scratch.run.path().join(name))
        .unwrap()
        .len();
    assert_eq!(length, bytes);
}

#[test]
fn two_writers_of_one_process_have_two_names() {
    let scratch = Scratch::new();
    let make = || RunWriter::create(scratch.run.path(), "w", WriterOptions::default()).unwrap();
    let (first, second) = (make(), make());
    assert_ne!(first.name(), second.name());
    first.close();
    second.close();
    assert!(scratch.run.load().unwrap().damage.is_empty());
}

#[test]
fn a_forgotten_table_takes_no_more_rows_and_its_place_is_reused() {
    let scratch = Scratch::new();
    let mut writer = RunWriter::create(scratch.run.path(), "w", WriterOptions::default()).unwrap();
    let first = writer.define(&metrics("a", 1));
    assert!(writer.append(first, scratch.start, None, &[1.0]));
    writer.forget(first);
    let second = writer.define(&metrics("b", 1));
    assert!(!writer.append(first, scratch.start, None, &[2.0]));
    assert!(writer.append(second, scratch.start, None, &[3.0]));
    assert_eq!(writer.dropped(), 1);
    assert_eq!(writer.dropped_reason(), Some("the table was forgotten"));
    writer.close();
    let recording = scratch.run.load().unwrap();
    assert_eq!(recording.tables.len(), 2);
    assert_eq!(recording.dropped_rows, 1);
}

#[test]
fn what_programs_lose_is_counted_apart_from_samples() {
    let scratch = Scratch::new();
    for (role, lost) in [("recorder", 2), ("python", 5)] {
        let options = WriterOptions::default();
        let mut writer = RunWriter::create(scratch.run.path(), role, options).unwrap();
        let table = writer.define(&metrics("a", 2));
        for _ in 0..lost {
            assert!(!writer.append(table, scratch.start, None, &[1.0]));
        }
        writer.close();
    }
    let recording = scratch.run.load().unwrap();
    assert_eq!(recording.dropped_rows, 7);
    assert_eq!(recording.dropped_program_rows, 5);
    assert_eq!(recording.dropped_samples(), 2);
}

#[test]
fn a_row_of_the_wrong_width_is_dropped_and_counted() {
    let scratch = Scratch::new();
    let mut writer = RunWriter::create(scratch.run.path(), "w", WriterOptions::default()).unwrap();
    let table = writer.define(&metrics("a", 2));
    assert!(!writer.append(table, scratch.start, None, &[1.0]));
    assert!(writer.append(table, scratch.start, None, &[1.0, 2.0]));
    writer.close();
    let recording = scratch.run.load().unwrap();
    assert_eq!(recording.dropped_rows, 1);
    assert!(matches!(
        recording.events[0].event,
        Event::Lost { rows: 1, .. }
    ));
}

#[test]
fn only_the_wanted_tables_are_loaded() {
    let scratch = Scratch::new();
    let mut writer = RunWriter::create(scratch.run.path(), "w", small_segments(true)).unwrap();
    let tables = ["a", "b"].map(|name| writer.define(&metrics(name, 1)));
    for index in 0..5000 {
        for table in tables {
            assert!(writer.append(table, scratch.start + index, None, &[0.0]));
        }
    }
    writer.close();
    let wanted = metrics("b", 1);
    let recording = scratch.run.load_where(&|spec| *spec == wanted).unwrap();
    assert_eq!(recording.tables.len(), 1);
    assert_eq!(recording.tables[0].times.len(), 5000);
}

#[test]
fn folders_that_are_no_runs_are_told_apart() {
    let scratch = Scratch::new();
    let root = scratch.root();
    assert!(matches!(
        RunFolder::open(&root.join("nothing")),
        Err(RunfileError::NotFound { .. })
    ));
    assert!(matches!(
        RunFolder::open(root),
        Err(RunfileError::NotARunFolder { .. })
    ));
    let description = scratch.run.describe().unwrap();
    assert!(matches!(
        RunFolder::create(root, &description),
        Err(RunfileError::AlreadyExists { .. })
    ));
}

#[test]
fn only_a_root_that_we_made_gets_a_gitignore() {
    let scratch = Scratch::new();
    let description = scratch.run.describe().unwrap();
    assert!(!scratch.root().join(".gitignore").exists());
    let made = scratch.root().join("new/runs");
    RunFolder::create(&made, &description).unwrap();
    let ignored = std::fs::read_to_string(made.join(".gitignore"));
    assert_eq!(ignored.unwrap(), "*\n");
}

#[test]
fn one_broken_run_does_not_hide_the_others() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.root().join("0-broken")).unwrap();
    std::fs::create_dir(scratch.root().join("1-garbled")).unwrap();
    std::fs::write(scratch.root().join("1-garbled/run.json"), "{").unwrap();
    let runs = list_runs(scratch.root());
    assert_eq!(runs.len(), 3);
    assert!(runs[0].is_err());
    assert!(runs[1].as_ref().unwrap().describe().is_err());
    assert!(runs[2].as_ref().unwrap().load().is_ok());
}

#[test]
fn a_description_is_replaced_whole() {
    let scratch = Scratch::new();
    let mut description = scratch.run.describe().unwrap();
    description.name = Some("other".to_owned());
    scratch.run.write_description(&description).unwrap();
    assert_eq!(scratch.run.describe().unwrap(), description);
    assert_eq!(scratch.file_names(), ["run.json"]);
}

#[test]
fn a_writer_can_be_handed_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<RunWriter>();
    is_send::<nilo_runfile::Follower>();
}

#[test]
fn one_column_is_that_column_of_the_whole() {
    for compact in [false, true] {
        let scratch = Scratch::new();
        let mut writer =
            RunWriter::create(scratch.run.path(), "w", small_segments(compact)).unwrap();
        let wide = writer.define(&metrics("wide", 3));
        let narrow = writer.define(&metrics("narrow", 1));
        for row in 0..20_000u64 {
            let value = row as f64;
            let step = (row % 7 != 0).then_some(row as i64);
            writer.append(
                wide,
                scratch.start + row,
                step,
                &[value, -value, value / 3.0],
            );
            writer.append(narrow, scratch.start + row, None, &[value * 2.0]);
        }
        writer.close();
        let whole = scratch.run.load().unwrap();
        for (column, tables) in [("c0", 2), ("c1", 1), ("c2", 1), ("c9", 0)] {
            let found = scratch.run.load_column(column, &|_| true).unwrap();
            assert_eq!(found.tables.len(), tables, "{column}");
            assert_eq!(found.damage, Vec::<String>::new());
            for table in &found.tables {
                let same = |other: &&RecordedTable| other.spec.subject == table.spec.subject;
                let full = whole.tables.iter().find(same).unwrap();
                assert_eq!(table.spec.columns.len(), 1);
                assert_eq!(table.times, full.times);
                assert_eq!(table.steps, full.steps);
                let index = full.spec.column(column).unwrap();
                assert_eq!(table.columns, [full.columns[index].clone()]);
            }
        }
        let none = scratch.run.load_column("c0", &|_| false).unwrap();
        assert!(none.tables.is_empty());
    }
}
