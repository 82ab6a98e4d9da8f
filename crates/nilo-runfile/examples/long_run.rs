//! Makes a run of many rows and times the ways of reading it: `long_run FOLDER ROWS`.
//!
//! Half of the rows are samples of a tree every 10 ms, half a loss. `nilo plot` and others can be timed on the folder afterwards.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::path::Path;
use std::time::Instant;

use nilo_runfile::{RunFolder, RunWriter, TableSelector, WriterOptions};
use nilo_sample::{Column, RunDescription, Subject, TableSpec, Unit};

const START: u64 = 1_000_000_000_000;
const EVERY: u64 = 10_000_000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: long_run FOLDER ROWS";
    let root = arguments.next().expect(usage);
    let rows: u64 = arguments
        .next()
        .and_then(|it| it.parse().ok())
        .expect(usage);
    let end = rows / 2 * EVERY;
    let text = format!(
        r#"{{"schema":"nilo.run/1","id":"long","mode":"run","command":["python","train.py"],"interval_nanos":{EVERY},"started_unix_nanos":1794729330417000000,"started_monotonic_nanos":{START},"boot_id":"{}","ending":{{"status":"exited","exit_code":0,"time_nanos":{end}}}}}"#,
        nilo_runfile::boot_id(),
    );
    let description: RunDescription = serde_json::from_str(&text).unwrap();
    let run = RunFolder::create(Path::new(&root), &description).unwrap();
    timed("write", || write(&run, rows / 2));
    println!(
        "{:10} {:9.1} MiB",
        "size",
        run.size_bytes() as f64 / f64::from(1 << 20)
    );
    timed("load", || drop(run.load().unwrap()));
    timed("one column", || {
        let is_tree = |spec: &TableSpec| spec.subject == Subject::Tree;
        drop(run.load_column("memory_bytes", &is_tree).unwrap());
    });
    let tree = TableSelector::subject(Subject::Tree);
    timed("chart", || {
        drop(
            run.chart(&tree, "memory_bytes", 0, end, 1000, None)
                .unwrap(),
        )
    });
    let day = end / 100;
    timed("zoom", || {
        drop(
            run.chart(&tree, "memory_bytes", day, 2 * day, 1000, None)
                .unwrap(),
        )
    });
}

fn timed(what: &str, work: impl FnOnce()) {
    let begin = Instant::now();
    work();
    println!("{what:10} {:9.1} ms", begin.elapsed().as_secs_f64() * 1e3);
}

fn raw_segments(run: &RunFolder) -> usize {
    let names = std::fs::read_dir(run.path()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name());
    names
        .filter(|name| name.as_encoded_bytes().ends_with(b".nilo"))
        .count()
}

fn write(run: &RunFolder, rows: u64) {
    let mut writer = RunWriter::create(run.path(), "recorder", WriterOptions::default()).unwrap();
    let spec = TableSpec::tree();
    let width = spec.columns.len();
    let tree = writer.define(&spec);
    let train = writer.define(&TableSpec {
        rank: None,
        subject: Subject::Metrics {
            name: "log".to_owned(),
        },
        columns: vec![Column::gauge("loss", Unit::Plain)],
        hold: false,
    });
    let mut noise = 1u64;
    let mut values = vec![0.0; width];
    for row in 0..rows {
        // A real run is written more slowly than it is compacted.
        while row % 10_000 == 0 && raw_segments(run) > 2 {
            std::thread::yield_now();
        }
        noise = noise
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let wave = (row as f64 / 1e4).sin() * 1e9 + 4e9;
        let bytes = (wave / 4096.0).floor() * 4096.0 + ((noise >> 60) * 4096) as f64;
        values.fill(bytes);
        writer.append(tree, START + row * EVERY, None, &values);
        let loss = 1.0 / (1.0 + row as f64 / 1e5) + (noise >> 40) as f64 / 1e9;
        writer.append(train, START + row * EVERY + 1, Some(row as i64), &[loss]);
    }
}
