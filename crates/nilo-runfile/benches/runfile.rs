//! What the run file costs: appending, charting, loading, bytes for each point.
//!
//! The floor is measured in the same rounds, interleaved: the same bytes copied into the same kind of mapping with the same checksum, and nothing else.
//! Run with `cargo bench -p nilo-runfile`.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use nilo_runfile::{
    RunFolder, RunWriter, TableId, TableSelector, WriteMode, WriterOptions, monotonic_nanos,
};
use nilo_sample::{Column, Frame, RunDescription, RunId, Subject, TableSpec, Unit};

const ROUNDS: usize = 5;
const ROWS: usize = 200_000;
const POINTS: u64 = 1_000_000;

fn main() {
    // `cargo bench ... -- chart` leaves the appends out.
    let wants_appends = !std::env::args().any(|argument| argument == "chart");
    if wants_appends {
        append(1, WriteMode::Mapped);
        append(5, WriteMode::Mapped);
        append(5, WriteMode::Written);
        stacks();
    }
    for columns in [1, 5] {
        for compact in [false, true] {
            million(columns, compact);
        }
    }
}

/// Nanoseconds of each call, the timer's own cost taken off.
fn time_each(count: usize, timer_nanos: u64, mut call: impl FnMut(u64)) -> Vec<u64> {
    (0..count as u64)
        .map(|index| {
            let start = Instant::now();
            call(index);
            (start.elapsed().as_nanos() as u64).saturating_sub(timer_nanos)
        })
        .collect()
}

fn timer_nanos() -> u64 {
    let mut times = time_each(10_000, 0, |_| {});
    times.sort_unstable();
    times[times.len() / 2]
}

fn quantile(sorted: &[u64], share: f64) -> u64 {
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}

fn append(columns: usize, mode: WriteMode) {
    let folder = tempfile::tempdir().unwrap();
    let run = create(folder.path());
    let options = WriterOptions {
        mode,
        compact: false,
        ..WriterOptions::default()
    };
    let mut writer = RunWriter::create(run.path(), "bench", options).unwrap();
    let table = writer.define(&metrics(columns));
    let step = |index: u64| (columns > 1).then_some(index as i64);
    let timer = timer_nanos();
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    let (mut ours_bulk, mut floor_bulk) = (f64::MAX, f64::MAX);
    let start = monotonic_nanos();
    let values = |index: u64| [index as f64; 5];
    for round in 0..ROUNDS {
        ours.extend(time_each(ROWS, timer, |index| {
            assert!(writer.append(table, start + index, step(index), &values(index)[..columns]));
        }));
        ours_bulk = ours_bulk.min(bulk(|index| {
            writer.append(table, start + index, step(index), &values(index)[..columns])
        }));
        let record_len = 20 + 8 * columns + if columns > 1 { 8 } else { 0 };
        let mut map = Floor::new(
            &folder.path().join(format!("floor{round}")),
            2 * ROWS * record_len,
        );
        floor.extend(time_each(ROWS, timer, |index| {
            map.append(&values(index), record_len)
        }));
        floor_bulk = floor_bulk.min(bulk(|index| {
            map.append(&values(index), record_len);
            true
        }));
    }
    ours.sort_unstable();
    floor.sort_unstable();
    println!(
        "append {columns} value(s), {mode:?}: p50 {} ns, p99 {} ns, p99.9 {} ns, mean in bulk {ours_bulk:.1} ns; floor p50 {} ns, p99 {} ns, bulk {floor_bulk:.1} ns; bulk ratio {:.2}; {:.1} bytes a point",
        quantile(&ours, 0.5),
        quantile(&ours, 0.99),
        quantile(&ours, 0.999),
        quantile(&floor, 0.5),
        quantile(&floor, 0.99),
        ours_bulk / floor_bulk,
        writer.bytes_written() as f64 / (2 * ROWS * ROUNDS * columns) as f64,
    );
}

/// A row that names a known stack: one of a hundred with thirty frames each.
fn stacks() {
    const DEPTH: u32 = 30;
    let folder = tempfile::tempdir().unwrap();
    let run = create(folder.path());
    let mut writer = RunWriter::create(run.path(), "bench", WriterOptions::default()).unwrap();
    let stacks: Vec<Vec<Frame<'_>>> = (0..100)
        .map(|line| {
            let frame = |depth| Frame {
                function: "forward",
                file: "/home/ada/project/models/transformer.py",
                line: if depth + 1 == DEPTH { line } else { depth },
            };
            (0..DEPTH).map(frame).collect()
        })
        .collect();
    let mean = bulk(|index| {
        let frames = &stacks[index as usize % stacks.len()];
        writer.intern_stack(black_box(frames)).is_some()
    });
    println!("a known stack of {DEPTH} frames: {mean:.0} ns");
}

/// Mean nanoseconds of a call in a row of many.
fn bulk(mut call: impl FnMut(u64) -> bool) -> f64 {
    let start = Instant::now();
    for index in 0..ROWS as u64 {
        black_box(call(index));
    }
    start.elapsed().as_nanos() as f64 / ROWS as f64
}

/// A mapping, a copy, a checksum.
struct Floor {
    map: memmap2::MmapMut,
    used: usize,
}

impl Floor {
    fn new(path: &Path, bytes: usize) -> Floor {
        let file = std::fs::File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
            .unwrap();
        file.set_len(bytes as u64).unwrap();
        // SAFETY: the file is ours alone and keeps its length.
        let map = unsafe { memmap2::MmapMut::map_mut(&file).unwrap() };
        Floor { map, used: 0 }
    }

    #[inline]
    fn append(&mut self, values: &[f64; 5], len: usize) {
        let mut bytes = [0u8; 68];
        for (cell, value) in bytes[20..60].chunks_exact_mut(8).zip(values) {
            cell.copy_from_slice(&value.to_le_bytes());
        }
        let slot = &mut self.map[self.used..self.used + len];
        slot.copy_from_slice(&bytes[..len]);
        let crc = crc32c::crc32c(&slot[8..]);
        slot[4..8].copy_from_slice(&crc.to_le_bytes());
        self.used += len;
    }
}

/// A million rows of a random walk with jittered times, raw or compacted: size, chart, load.
fn million(columns: usize, compact: bool) {
    let folder = tempfile::tempdir().unwrap();
    let run = create(folder.path());
    let options = WriterOptions {
        compact,
        ..WriterOptions::default()
    };
    let mut writer = RunWriter::create(run.path(), "bench", options).unwrap();
    let table = writer.define(&metrics(columns));
    let start = run.describe().unwrap().started_monotonic_nanos;
    // Forgets the high-water mark of what came before.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let resident_before = resident_peak_bytes();
    fill(&mut writer, table, start, columns);
    writer.close();
    let resident = resident_peak_bytes().saturating_sub(resident_before);
    let files = std::fs::read_dir(run.path()).unwrap().count();
    let selector = TableSelector::subject(metrics(columns).subject);
    let mut chart = Vec::new();
    let mut load = Vec::new();
    let to = POINTS * 1_000_000;
    for _ in 0..3 * ROUNDS {
        let begin = Instant::now();
        let buckets = run.chart(&selector, "c0", 0, to, 1000, Some(1_000_000_000));
        assert!(buckets.unwrap().len() > 900);
        chart.push(begin.elapsed().as_secs_f64() * 1e3);
        let begin = Instant::now();
        assert_eq!(run.load().unwrap().tables[0].times.len() as u64, POINTS);
        load.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    chart.sort_by(f64::total_cmp);
    load.sort_by(f64::total_cmp);
    println!(
        "1 M rows of {columns} value(s), {}: chart {:.1} ms (best {:.1}), load {:.0} ms, {:.2} bytes a point, {files} files, writing took {:.1} MiB of memory",
        if compact { "compacted" } else { "raw" },
        chart[chart.len() / 2],
        chart[0],
        load[load.len() / 2],
        run.size_bytes() as f64 / (POINTS * columns as u64) as f64,
        resident as f64 / 1048576.0,
    );
}

/// The most that this process ever had resident, since the mark was last cleared.
fn resident_peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn fill(writer: &mut RunWriter, table: TableId, start: u64, columns: usize) {
    let mut state = 1u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut values = [0.0f64; 5];
    for index in 0..POINTS {
        for value in &mut values {
            *value += random() - 0.5;
        }
        let time = start + index * 1_000_000 + (random() * 50_000.0) as u64;
        let step = (columns > 1).then_some(index as i64);
        assert!(writer.append(table, time, step, &values[..columns]));
        // A job that logs at full speed for ever would only measure how far compaction lags behind.
        if index % 15_000 == 0 {
            std::thread::sleep(std::time::Duration::from_millis(15));
        }
    }
}

fn metrics(columns: usize) -> TableSpec {
    TableSpec {
        rank: None,
        subject: Subject::Metrics {
            name: "bench".to_owned(),
        },
        columns: (0..columns)
            .map(|index| Column::gauge(&format!("c{index}"), Unit::Plain))
            .collect(),
        hold: false,
    }
}

fn create(root: &Path) -> RunFolder {
    let text = format!(
        r#"{{"schema":"nilo.run/1","id":"{}","mode":"run","started_unix_nanos":{},"started_monotonic_nanos":{},"boot_id":"{}"}}"#,
        RunId::new(nilo_runfile::unix_nanos().into(), "bench"),
        nilo_runfile::unix_nanos(),
        monotonic_nanos(),
        nilo_runfile::boot_id(),
    );
    let description: RunDescription = serde_json::from_str(&text).unwrap();
    RunFolder::create(root, &description).unwrap()
}
