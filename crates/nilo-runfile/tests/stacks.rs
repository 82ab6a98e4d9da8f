//! Stacks: declared once in each segment that names them, and the same for every reader, whatever happened to the files.

#![allow(clippy::unwrap_used)]

mod support;

use nilo_runfile::{RunWriter, WriterOptions};
use nilo_sample::{
    ABSENT, Column, Event, Frame, MAX_STACK_DEPTH, RecordedTable, STACK_COLUMN, StackTree, Subject,
    TableSpec, Unit, is_absent,
};
use support::{Scratch, metrics, small_segments};

fn allocations() -> TableSpec {
    TableSpec {
        rank: None,
        subject: Subject::Phase {
            name: "allocations".to_owned(),
        },
        columns: vec![
            Column::gauge("bytes", Unit::Bytes),
            Column::gauge(STACK_COLUMN, Unit::Count),
        ],
        hold: false,
    }
}

/// `main` calls one of ten functions, which is at one of a hundred lines.
fn frames(row: u64) -> [Frame<'static>; 2] {
    const NAMES: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    [
        Frame {
            function: "main",
            file: "train.py",
            line: 7,
        },
        Frame {
            function: NAMES[(row % 10) as usize],
            file: "/home/ada/model.py",
            line: 1 + (row % 100) as u32,
        },
    ]
}

fn write_rows(writer: &mut RunWriter, start: u64, rows: std::ops::Range<u64>) {
    let table = writer.define(&allocations());
    for row in rows {
        let stack = writer.intern_stack(&frames(row)).unwrap();
        assert!(writer.append(table, start + row, None, &[row as f64, stack.value()]));
    }
}

/// Every row of the tables, with its stack from the outermost frame in.
fn rows<'a>(tables: &[RecordedTable], stacks: &'a StackTree) -> Vec<(u64, Vec<Frame<'a>>)> {
    let tables = tables.iter().filter(|it| it.spec == allocations());
    let mut found: Vec<_> = tables
        .flat_map(|table| table.columns[0].iter().zip(&table.columns[1]))
        .map(|(row, stack)| {
            let stack = stacks.find(*stack);
            let mut frames: Vec<_> = stack.map_or(vec![], |id| stacks.frames(id).collect());
            frames.reverse();
            (*row as u64, frames)
        })
        .collect();
    found.sort_by_key(|(row, _)| *row);
    found
}

fn expected(rows: std::ops::Range<u64>) -> Vec<(u64, Vec<Frame<'static>>)> {
    rows.map(|row| (row, frames(row).to_vec())).collect()
}

#[test]
fn stacks_are_the_same_raw_and_compacted() {
    for compact in [false, true] {
        let scratch = Scratch::new();
        let mut writer =
            RunWriter::create(scratch.run.path(), "w", small_segments(compact)).unwrap();
        write_rows(&mut writer, scratch.start, 0..20_000);
        writer.close();
        let has_blocks = scratch.file_names().iter().any(|it| it.ends_with(".nilc"));
        assert_eq!(has_blocks, compact);
        let recording = scratch.run.load().unwrap();
        assert_eq!(recording.damage, Vec::<String>::new());
        assert_eq!(
            rows(&recording.tables, &recording.stacks),
            expected(0..20_000)
        );
        assert_eq!(recording.stacks.len(), 101, "each frame once");
        assert!(scratch.run.verify().unwrap().ok);
    }
}

#[test]
fn a_segment_names_its_stacks_itself() {
    let scratch = Scratch::new();
    let mut writer = RunWriter::create(scratch.run.path(), "w", small_segments(false)).unwrap();
    write_rows(&mut writer, scratch.start, 0..20_000);
    writer.close();
    let names = scratch.file_names();
    let segments: Vec<_> = names.iter().filter(|it| it.ends_with(".nilo")).collect();
    assert!(segments.len() > 3);
    // Without all segments but the last there is no other place to read them from.
    for name in &segments[..segments.len() - 1] {
        std::fs::remove_file(scratch.run.path().join(name)).unwrap();
    }
    let recording = scratch.run.load().unwrap();
    let found = rows(&recording.tables, &recording.stacks);
    assert!(!found.is_empty());
    // The first row may lie behind a stack that was declared at the end of the segment before.
    for (row, stack) in &found[1..] {
        assert_eq!(stack, &frames(*row));
    }
}

#[test]
fn writers_have_numbers_of_their_own_and_readers_one_for_each_stack() {
    let scratch = Scratch::new();
    let options = WriterOptions::default;
    let mut one = RunWriter::create(scratch.run.path(), "w", options()).unwrap();
    let mut other = RunWriter::create(scratch.run.path(), "w", options()).unwrap();
    write_rows(&mut one, scratch.start, 0..200);
    // In another order, so that the numbers differ.
    other.intern_stack(&frames(177)).unwrap();
    write_rows(&mut other, scratch.start, 200..400);
    let recording = scratch.run.load().unwrap();
    assert_eq!(rows(&recording.tables, &recording.stacks), expected(0..400));
    assert_eq!(recording.stacks.len(), 101);

    let one_column = scratch.run.load_column(STACK_COLUMN, &|_| true).unwrap();
    let count = |table: &RecordedTable| {
        table.columns[0]
            .iter()
            .filter(|it| !is_absent(**it))
            .count()
    };
    assert_eq!(one_column.tables.iter().map(count).sum::<usize>(), 400);
    assert_eq!(one_column.stacks, recording.stacks);
}

#[test]
fn a_follower_keeps_the_numbers_from_poll_to_poll() {
    let scratch = Scratch::new();
    let mut follower = scratch.run.follow();
    let mut writer = RunWriter::create(scratch.run.path(), "w", small_segments(true)).unwrap();
    let table = writer.define(&allocations());
    let mut tables = Vec::new();
    for row in 0..6_000 {
        let stack = writer.intern_stack(&frames(row)).unwrap();
        writer.append(
            table,
            scratch.start + row,
            None,
            &[row as f64, stack.value()],
        );
        if row % 1_000 == 37 {
            tables.extend(follower.poll().unwrap().tables);
        }
        if row == 3_000 {
            // Sorts before the other one.
            let mut early =
                RunWriter::create(scratch.run.path(), "a", small_segments(true)).unwrap();
            write_rows(&mut early, scratch.start, 6_000..6_010);
        }
    }
    writer.close();
    tables.extend(follower.poll().unwrap().tables);
    assert_eq!(rows(&tables, follower.stacks()), expected(0..6_010));
}

#[test]
fn a_cut_at_any_byte_never_gives_a_row_another_stack() {
    let scratch = Scratch::new();
    let mut writer = RunWriter::create(scratch.run.path(), "w", WriterOptions::default()).unwrap();
    write_rows(&mut writer, scratch.start, 0..12);
    writer.close();
    let (name, whole) = scratch.bytes_of(".nilo");
    let path = scratch.run.path().join(name);
    let mut most = 0;
    for cut in 128..whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let recording = scratch.run.load().unwrap();
        let found = rows(&recording.tables, &recording.stacks);
        assert_eq!(found, expected(0..found.len() as u64), "cut at {cut}");
        most = most.max(found.len());
    }
    assert_eq!(most, 11);
}

#[test]
fn a_damaged_declaration_costs_its_rows_the_stack_and_is_told() {
    let scratch = Scratch::new();
    let mut writer = RunWriter::create(scratch.run.path(), "w", WriterOptions::default()).unwrap();
    write_rows(&mut writer, scratch.start, 0..12);
    writer.close();
    let (name, whole) = scratch.bytes_of(".nilo");
    let mut told = 0;
    for at in 128..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        std::fs::write(scratch.run.path().join(&name), &damaged).unwrap();
        let recording = scratch.run.load().unwrap();
        for (row, stack) in rows(&recording.tables, &recording.stacks) {
            assert!(
                stack.is_empty() || stack == frames(row),
                "byte {at}: {stack:?}"
            );
            told += usize::from(stack.is_empty() && !recording.damage.is_empty());
        }
    }
    assert!(told > 0);
}

#[test]
fn a_stack_is_cut_at_its_outer_end_and_none_has_no_number() {
    let scratch = Scratch::new();
    let mut writer = RunWriter::create(scratch.run.path(), "w", WriterOptions::default()).unwrap();
    assert_eq!(writer.intern_stack(&[]), None);
    let deep: Vec<Frame<'_>> = (0..1_000)
        .map(|line| Frame {
            function: "recurse",
            file: "deep.py",
            line,
        })
        .collect();
    let id = writer.intern_stack(&deep).unwrap();
    let table = writer.define(&allocations());
    writer.append(table, scratch.start, None, &[0.0, id.value()]);
    writer.append(table, scratch.start + 1, None, &[1.0, ABSENT]);
    let recording = scratch.run.load().unwrap();
    let found = rows(&recording.tables, &recording.stacks);
    assert_eq!(found[0].1, deep[1_000 - MAX_STACK_DEPTH..]);
    assert_eq!(found[1].1, []);
}

#[test]
fn too_many_stacks_are_refused_and_told_once() {
    let scratch = Scratch::new();
    let mut writer = RunWriter::create(scratch.run.path(), "w", WriterOptions::default()).unwrap();
    let frame = |line| Frame {
        function: "f",
        file: "generated.py",
        line,
    };
    for line in 0..1 << 16 {
        assert!(writer.intern_stack(&[frame(line)]).is_some());
    }
    for line in 1 << 16..(1 << 16) + 10 {
        assert_eq!(writer.intern_stack(&[frame(line)]), None);
    }
    assert!(writer.intern_stack(&[frame(5)]).is_some());
    assert_eq!(writer.dropped(), 0);
    writer.close();
    let events = scratch.run.load().unwrap().events;
    let told = events
        .iter()
        .filter(|it| matches!(it.event, Event::Blind { .. }));
    assert_eq!(told.count(), 1);
}

#[test]
fn a_metric_that_is_called_like_the_column_is_left_alone() {
    let scratch = Scratch::new();
    let mut writer = RunWriter::create(scratch.run.path(), "w", WriterOptions::default()).unwrap();
    let mut spec = metrics("train", 1);
    spec.columns[0].name = STACK_COLUMN.to_owned();
    let table = writer.define(&spec);
    writer.append(table, scratch.start, None, &[12.5]);
    let recording = scratch.run.load().unwrap();
    assert_eq!(recording.tables[0].columns[0], [12.5]);
}

#[test]
fn the_single_run_of_a_job_brings_its_stacks_along() {
    let scratch = Scratch::new();
    let job = scratch.run.path();
    let mut outer = RunWriter::create(job, "recorder", WriterOptions::default()).unwrap();
    write_rows(&mut outer, scratch.start, 0..20);
    let description = support::description(scratch.start);
    let access = nilo_runfile::Access::Private;
    let inside = scratch.run.create_inside(access, &description).unwrap();
    let mut inner = RunWriter::create(inside.path(), "w", WriterOptions::default()).unwrap();
    inner.intern_stack(&frames(55)).unwrap();
    write_rows(&mut inner, scratch.start, 20..80);
    let recording = scratch.run.load().unwrap();
    assert_eq!(rows(&recording.tables, &recording.stacks), expected(0..80));
}
