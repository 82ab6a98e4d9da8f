//! Runs recorded by released versions read the same for ever. The files under `testdata/` are never made anew.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

use std::path::Path;

use nilo_runfile::{AttachmentState, FileKind, RunFolder, TableSelector};
use nilo_sample::{ABSENT, CodePlace, Event, RecordedTable, StackTree, Subject, TableSpec};

fn golden() -> RunFolder {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/v1/golden");
    RunFolder::open(&path).unwrap()
}

#[test]
fn a_run_of_format_version_1_reads_to_the_last_bit() {
    let recording = golden().load().unwrap();
    assert_eq!(recording.damage, Vec::<String>::new());
    assert_eq!(recording.description.command, ["python", "train.py"]);
    assert_eq!(recording.dropped_rows, 1);
    assert_eq!(recording.tables.len(), 2);

    let tree = recording.table(&Subject::Tree).unwrap();
    assert_eq!(tree.spec, TableSpec::tree());
    assert!(tree.steps.is_empty());
    assert!(
        tree.times
            .iter()
            .copied()
            .eq((0..600).map(|i| i * 100_000_000))
    );
    let subject = Subject::Metrics {
        name: "train".to_owned(),
    };
    let train = recording.table(&subject).unwrap();
    assert!(train.steps.iter().copied().eq(0..600));
    assert_eq!((tree.times.len(), train.times.len()), (600, 600));
    for row in 0..600 {
        let bytes = (row * 4096) as f64;
        let expected = [
            bytes,
            bytes * 2.0,
            ABSENT,
            0.0,
            (row * 7) as f64,
            1.0,
            f64::INFINITY,
        ];
        for (column, expected) in tree.columns.iter().zip(expected) {
            assert_eq!(column[row].to_bits(), expected.to_bits());
        }
        assert_eq!(train.times[row], row as u64 * 100_000_000 + 1);
        assert_eq!(train.columns[0][row], 1.0 / (row + 1) as f64);
        assert_eq!(
            train.columns[1][row].to_bits(),
            0x7ff8_0000_0000_0000 | row as u64
        );
    }

    let texts: Vec<(u64, String)> = recording
        .events
        .iter()
        .map(|event| match &event.event {
            Event::Mark { text } => (event.time_nanos, text.clone()),
            Event::Lost { rows, .. } => (0, format!("lost {rows}")),
            other => panic!("{other:?}"),
        })
        .collect();
    let marks = [
        (2, "epoch 0"),
        (5, "from a shell"),
        (20_000_000_002, "epoch 1"),
        (40_000_000_002, "epoch 2"),
        (0, "lost 1"),
    ];
    assert_eq!(texts, marks.map(|(time, text)| (time, text.to_owned())));
}

#[test]
fn the_golden_run_holds_every_kind_of_file() {
    let verification = golden().verify().unwrap();
    assert!(verification.ok);
    for kind in [
        FileKind::Description,
        FileKind::Segment,
        FileKind::Compacted,
        FileKind::Marks,
    ] {
        assert!(
            verification.files.iter().any(|file| file.kind == kind),
            "{kind:?}"
        );
    }
    let rows: u64 = verification.files.iter().map(|file| file.rows).sum();
    assert_eq!(rows, 1200);
}

#[test]
fn the_golden_run_can_be_charted_and_followed() {
    let run = golden();
    let table = TableSelector::subject(Subject::Tree);
    let chart = run
        .chart(&table, "memory_bytes", 0, 60_000_000_000, 50, None)
        .unwrap();
    assert_eq!(chart.len(), 50);
    assert_eq!(chart[49].max.value, 599.0 * 4096.0);
    let (followed, loaded) = (
        run.follow().poll().unwrap().tables,
        run.load().unwrap().tables,
    );
    // NaN is not equal to itself, its text is.
    assert!(format!("{followed:?}") == format!("{loaded:?}"));
}

fn golden_with_stacks() -> RunFolder {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/v1/stacks");
    RunFolder::open(&path).unwrap()
}

/// Bytes and stacks of all rows, in order.
fn allocations(tables: &[RecordedTable], stacks: &StackTree) -> Vec<(u32, Vec<CodePlace>)> {
    let values = tables
        .iter()
        .flat_map(|table| table.columns[0].iter().zip(&table.columns[1]));
    let rows = values.map(|(bytes, stack)| {
        let frames = stacks.frames(stacks.find(*stack).unwrap());
        let places = frames.map(|frame| CodePlace {
            file: frame.file.to_owned(),
            line: frame.line,
            function: frame.function.to_owned(),
        });
        (*bytes as u32, places.collect())
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by_key(|(bytes, _)| *bytes);
    rows
}

#[test]
fn the_stacks_of_version_1_read_the_same() {
    let run = golden_with_stacks();
    let recording = run.load_alone(&|_| true).unwrap();
    assert_eq!(recording.damage, Vec::<String>::new());
    let place = |function: &str, file: &str, line| CodePlace {
        file: file.to_owned(),
        line,
        function: function.to_owned(),
    };
    let expected: Vec<(u32, Vec<CodePlace>)> = (0..700)
        .map(|row| {
            let inner = place("forward", "/home/ada/модель.py", 1 + row % 7);
            (
                row,
                vec![inner, place("<module>", "/home/ada/train.py", 12)],
            )
        })
        .collect();
    assert_eq!(allocations(&recording.tables, &recording.stacks), expected);
    assert_eq!(recording.stacks.len(), 8);
    let mut follower = run.follow();
    let followed = follower.poll().unwrap();
    assert_eq!(allocations(&followed.tables, follower.stacks()), expected);
}

#[test]
fn the_attachments_of_version_1_are_whole() {
    let run = golden_with_stacks();
    let found = run.attachments().unwrap();
    let told: Vec<_> = found
        .iter()
        .map(|it| {
            (
                it.name.as_str(),
                it.media_type.as_str(),
                it.bytes,
                &it.state,
            )
        })
        .collect();
    let whole = &AttachmentState::Whole;
    assert_eq!(
        told,
        [
            ("empty", "application/octet-stream", 0, whole),
            ("one.txt", "text/plain", 16, whole),
            ("two.txt", "text/plain", 16, whole),
        ]
    );
    assert_eq!(found[1].crc32c, crc32c::crc32c(b"attached by one\n"));
    let verification = run.verify().unwrap();
    assert!(verification.ok);
    for kind in [FileKind::Compacted, FileKind::Segment, FileKind::Attachment] {
        assert!(
            verification.files.iter().any(|file| file.kind == kind),
            "{kind:?}"
        );
    }
}

#[test]
fn the_run_inside_a_job_of_version_1_names_its_job() {
    let inside = golden_with_stacks().runs_inside();
    assert_eq!(inside.len(), 1);
    let description = inside[0].describe().unwrap();
    assert_eq!(description.parent.unwrap().as_str(), "stacks");
    assert_eq!(
        inside[0].job().unwrap().describe().unwrap().id.as_str(),
        "stacks"
    );
}
