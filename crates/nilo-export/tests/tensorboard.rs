//! The event file, read back by a small reader of our own; `tests/python` reads it with TensorBoard itself.

// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

use nilo_analysis::{EndingEvidence, judge_ending, summarize};
use nilo_export::{
    CsvColumns, ExportError, write_csv, write_tensorboard, write_tensorboard_folder,
};
use nilo_sample::fixture::{level, table_of};
use nilo_sample::rows::{CgroupRow, GpuRow, ThroughputRow, TreeRow};
use nilo_sample::{ABSENT, RecordedTable, Recording, RunDescription, RunId, TableSpec, TypedRow};

const SECOND: u64 = 1_000_000_000;

/// One scalar of an event file.
#[derive(Debug, Clone, PartialEq)]
struct Scalar {
    wall_secs: f64,
    step: i64,
    tag: String,
    value: f32,
}

fn recording(tables: Vec<RecordedTable>) -> Recording {
    let text = r#"{"schema":"nilo.run/1","id":"x","mode":"run","host":"node 7/../x",
        "started_unix_nanos":1794729330000000000,"started_monotonic_nanos":0,"recorder_pid":4711}"#;
    let mut description: RunDescription = serde_json::from_str(text).unwrap();
    description.id = RunId::new(0, "job");
    Recording {
        tables,
        ..Recording::empty(description)
    }
}

fn table(writer: &str, spec: TableSpec, rows: &[(u64, i64, &[f64])]) -> RecordedTable {
    let columns = (0..spec.columns.len())
        .map(|column| rows.iter().map(|(_, _, values)| values[column]).collect())
        .collect();
    RecordedTable {
        spec,
        writer: writer.into(),
        times: rows.iter().map(|(time, _, _)| *time).collect(),
        steps: rows.iter().map(|(_, step, _)| *step).collect(),
        columns,
    }
}

/// A message's fields: number and content, numbers of fixed size as their bytes, varints as eight.
fn fields(mut message: &[u8]) -> Vec<(u64, Vec<u8>)> {
    fn varint(message: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let byte = message[0];
            *message = &message[1..];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }
    let mut found = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message);
        let length = match key & 7 {
            0 => {
                let value = varint(&mut message);
                found.push((key >> 3, value.to_le_bytes().to_vec()));
                continue;
            }
            1 => 8,
            2 => varint(&mut message) as usize,
            5 => 4,
            kind => panic!("wire type {kind}"),
        };
        found.push((key >> 3, message[..length].to_vec()));
        message = &message[length..];
    }
    found
}

fn field(fields: &[(u64, Vec<u8>)], number: u64) -> Option<&[u8]> {
    let found = fields.iter().find(|(field, _)| *field == number);
    found.map(|(_, content)| content.as_slice())
}

/// Reads a file, checking every frame; the first record must name the version.
fn read(mut bytes: &[u8]) -> Vec<Scalar> {
    let checksum = |bytes: &[u8]| {
        let plain = crc32c::crc32c(bytes);
        (plain.rotate_right(15).wrapping_add(0xa282_ead8)).to_le_bytes()
    };
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        assert_eq!(bytes[8..12], checksum(&bytes[..8]));
        let data = &bytes[12..12 + length];
        assert_eq!(bytes[12 + length..16 + length], checksum(data));
        records.push(fields(data));
        bytes = &bytes[16 + length..];
    }
    assert_eq!(field(&records[0], 3), Some(&b"brain.Event:2"[..]));
    let scalar = |event: &Vec<(u64, Vec<u8>)>| {
        let value = fields(&fields(field(event, 5).unwrap())[0].1);
        Scalar {
            wall_secs: f64::from_le_bytes(field(event, 1).unwrap().try_into().unwrap()),
            step: i64::from_le_bytes(field(event, 2).unwrap().try_into().unwrap()),
            tag: String::from_utf8(field(&value, 1).unwrap().to_vec()).unwrap(),
            value: f32::from_le_bytes(field(&value, 2).unwrap().try_into().unwrap()),
        }
    };
    records[1..].iter().map(scalar).collect()
}

fn exported(tables: Vec<RecordedTable>) -> Vec<Scalar> {
    let mut bytes = Vec::new();
    write_tensorboard(&recording(tables), &mut bytes).unwrap();
    read(&bytes)
}

fn of(scalars: &[Scalar], tag: &str) -> Vec<(i64, f32)> {
    let mine = scalars.iter().filter(|scalar| scalar.tag == tag);
    mine.map(|scalar| (scalar.step, scalar.value)).collect()
}

#[test]
fn metrics_keep_their_steps_and_every_point() {
    let loss = TableSpec::metrics("metrics", ["loss"]);
    let scalars = exported(vec![
        table(
            "python-1",
            loss.clone(),
            &[(SECOND, -1, &[3.0]), (2 * SECOND, 5, &[2.0])],
        ),
        table(
            "python-2",
            loss,
            &[(3 * SECOND, 5, &[1.5]), (4 * SECOND, 6, &[f64::NAN])],
        ),
    ]);
    assert_eq!(scalars[0].wall_secs, 1794729331.0);
    let points = of(&scalars, "loss");
    assert_eq!(points[..3], [(-1, 3.0), (5, 2.0), (5, 1.5)]);
    assert!(points[3].0 == 6 && points[3].1.is_nan());
    assert_eq!(points.len(), 4);
}

#[test]
fn what_the_clock_measured_gets_the_step_of_its_time() {
    let memory = |gib: f64| {
        let row = TreeRow {
            rss_bytes: 0.0,
            swap_bytes: ABSENT,
            ..level(gib * 1073741824.0)
        };
        row.values()
    };
    let mut tree = table(
        "recorder-1",
        TableSpec::tree(),
        &[
            (0, 0, &memory(1.0)),
            (2 * SECOND, 0, &memory(2.0)),
            (9 * SECOND, 0, &memory(3.0)),
        ],
    );
    tree.steps.clear();
    let loss = TableSpec::metrics("metrics", ["loss"]);
    let loss = table(
        "python-1",
        loss,
        &[(SECOND, 10, &[1.0]), (5 * SECOND, 11, &[1.0])],
    );
    let scalars = exported(vec![tree.clone(), loss]);
    assert_eq!(
        of(&scalars, "memory/tree_gib"),
        [(10, 1.0), (10, 2.0), (11, 3.0)]
    );
    assert!(of(&scalars, "memory/swap_gib").is_empty());
    let scalars = exported(vec![tree]);
    assert_eq!(
        of(&scalars, "memory/tree_gib"),
        [(0, 1.0), (2, 2.0), (9, 3.0)]
    );
}

/// `nilo show` tells the working set of the job's own cgroup, and so do both exports; which one it is has one definition.
#[test]
fn every_view_means_the_same_cgroup_by_the_jobs_own() {
    let gib = 1073741824.0;
    let row = |held: f64, owned: f64| CgroupRow {
        working_set_bytes: held * gib,
        peak_bytes: held * gib,
        owned,
        ..CgroupRow::ABSENT
    };
    // The deepest one had others in it at first, and the outermost has them still.
    let rows = |path: &str, rows: &[(u64, CgroupRow)]| table_of(TableSpec::cgroup(path), rows);
    let tables = vec![
        table_of(TableSpec::tree(), &[(SECOND, level(gib))]),
        rows(
            "/job/step/task",
            &[(0, row(8.0, 0.0)), (SECOND, row(8.0, 1.0))],
        ),
        rows("/job", &[(0, row(4.0, 1.0))]),
        rows("/job/step", &[(0, row(2.0, 1.0))]),
        rows("/", &[(0, row(16.0, 0.0))]),
    ];
    let recording = recording(tables.clone());
    let scalars = exported(tables);
    assert_eq!(of(&scalars, "memory/cgroup_working_set_gib"), [(0, 2.0)]);
    let mut csv = Vec::new();
    write_csv(&recording, CsvColumns::Full, &mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    assert!(csv.contains(",2048.00,"), "{csv}");
    let ending = judge_ending(&recording, &EndingEvidence::default());
    let shown = summarize(&recording, &ending).memory;
    assert_eq!(shown.cgroup_working_set_peak_bytes, Some(2 << 30));
}

#[test]
fn a_gpu_has_a_tag_for_the_whole_and_one_for_the_jobs_part() {
    let gib = 1073741824.0;
    let row = GpuRow {
        used_bytes: 4.0 * gib,
        total_bytes: 16.0 * gib,
        job_bytes: 3.0 * gib,
        ..GpuRow::ABSENT
    };
    let row = row.values();
    let mut gpu = table("recorder-1", TableSpec::gpu(2), &[(SECOND, 0, &row)]);
    gpu.steps.clear();
    let scalars = exported(vec![gpu]);
    assert_eq!(of(&scalars, "memory/gpu2_used_gib"), [(1, 4.0)]);
    assert_eq!(of(&scalars, "memory/gpu2_job_gib"), [(1, 3.0)]);
}

#[test]
fn phases_and_throughput_have_tags_of_their_own() {
    let phase = table(
        "python-1",
        TableSpec::phase("step/forward"),
        &[(SECOND, 3, &[0.25e9])],
    );
    let total = |batches: f64, samples: f64| {
        let row = ThroughputRow {
            batches,
            samples,
            ..ThroughputRow::ABSENT
        };
        row.values()
    };
    let counted = |writer, tracker| {
        table(
            writer,
            TableSpec::throughput(tracker),
            &[
                (SECOND, 1, &total(1.0, 32.0)),
                (3 * SECOND, 2, &total(2.0, 96.0)),
                (3 * SECOND, 2, &total(9.0, 99.0)),
                (4 * SECOND, 3, &total(0.0, 0.0)),
            ],
        )
    };
    let scalars = exported(vec![
        phase.clone(),
        counted("python-1", 0),
        counted("python-1", 1),
    ]);
    assert_eq!(of(&scalars, "phase/step/forward_seconds"), [(3, 0.25)]);
    assert_eq!(of(&scalars, "throughput/samples_per_second"), [(2, 32.0)]);
    assert_eq!(
        of(&scalars, "throughput/samples_per_second/tracker-1"),
        [(2, 32.0)]
    );
    assert!(of(&scalars, "throughput/tokens_per_second").is_empty());
    let scalars = exported(vec![phase, counted("python-1", 0), counted("python-2", 0)]);
    assert_eq!(
        of(&scalars, "throughput/batches_per_second/python-2"),
        [(2, 0.5)]
    );
}

#[test]
fn hostile_tables_are_survived() {
    let spec = TableSpec::metrics("metrics", ["", "\u{1b}[2J\n", "損失", "損失"]);
    let mut hostile = table(
        "python-1",
        spec,
        &[
            (0, i64::MAX, &[1e308, f64::INFINITY, ABSENT, 1.0]),
            (u64::MAX, i64::MIN, &[0.0; 4]),
        ],
    );
    let scalars = exported(vec![hostile.clone()]);
    assert_eq!(of(&scalars, "")[0], (i64::MAX, f32::INFINITY));
    assert_eq!(of(&scalars, "損失").len(), 3);
    hostile.columns.truncate(1);
    hostile.columns[0].clear();
    assert!(exported(vec![hostile]).is_empty());
}

#[test]
fn a_folder_with_events_is_refused_and_nothing_half_written_stays() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("logs/run");
    let recording = recording(vec![]);
    let path = write_tensorboard_folder(&recording, &place).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    assert_eq!(name, "events.out.tfevents.1794729330.node-7----x.4711.0");
    let error = write_tensorboard_folder(&recording, &place).unwrap_err();
    assert!(matches!(error, ExportError::AlreadyThere { .. }), "{error}");
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 1);
}
