//! Made the golden run of format version 1 in `testdata/v1`, once.
//!
//! The folder is never made anew: it stands for what users have on their disks.
//! A later format version gets its own folder by another program.

#![allow(clippy::unwrap_used, missing_docs)]

use std::path::Path;

use nilo_runfile::{RunFolder, RunWriter, WriterOptions, append_event_at};
use nilo_sample::{ABSENT, Column, Event, RunDescription, Subject, TableSpec, Unit};

const START: u64 = 1_000_000_000_000;

fn main() {
    let root = std::env::args().nth(1).expect("usage: make_golden FOLDER");
    let text = format!(
        r#"{{"schema":"nilo.run/1","id":"golden","mode":"run","command":["python","train.py"],"started_unix_nanos":1794729330417000000,"started_monotonic_nanos":{START},"boot_id":"{}"}}"#,
        nilo_runfile::boot_id(),
    );
    let description: RunDescription = serde_json::from_str(&text).unwrap();
    let run = RunFolder::create(Path::new(&root), &description).unwrap();
    let options = WriterOptions {
        first_segment_bytes: 16 << 10,
        max_segment_bytes: 16 << 10,
        ..WriterOptions::default()
    };
    let mut writer = RunWriter::create(run.path(), "golden", options).unwrap();
    let tree = writer.define(&TableSpec::tree());
    let loss = writer.define(&TableSpec {
        rank: None,
        subject: Subject::Metrics {
            name: "train".to_owned(),
        },
        columns: vec![
            Column::gauge("loss", Unit::Plain),
            Column::gauge("odd", Unit::Plain),
        ],
        hold: false,
    });
    for index in 0..600u64 {
        let time = START + index * 100_000_000;
        let bytes = (index * 4096) as f64;
        let values = [
            bytes,
            bytes * 2.0,
            ABSENT,
            0.0,
            (index * 7) as f64,
            1.0,
            f64::INFINITY,
        ];
        assert!(writer.append(tree, time, None, &values));
        let odd = f64::from_bits(0x7ff8_0000_0000_0000 | index);
        let values = [1.0 / (index + 1) as f64, odd];
        assert!(writer.append(loss, time + 1, Some(index as i64), &values));
        if index % 200 == 0 {
            let text = format!("epoch {}", index / 200);
            assert!(writer.event(time + 2, &Event::Mark { text }));
        }
    }
    assert!(!writer.append(loss, START, None, &[1.0]));
    writer.close();
    let text = "from a shell".to_owned();
    append_event_at(run.path(), START + 5, &Event::Mark { text }).unwrap();
}
