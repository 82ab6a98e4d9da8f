//! Made the golden run with stacks, attachments and a run inside it in `testdata/v1`, once.
//!
//! Like the first golden run it is never made anew.

#![allow(clippy::unwrap_used, missing_docs)]

use std::path::Path;

use nilo_runfile::{Access, RunFolder, RunWriter, WriterOptions};
use nilo_sample::{Column, Frame, RunDescription, STACK_COLUMN, Subject, TableSpec, Unit};

const START: u64 = 1_000_000_000_000;

fn description(id: &str, parent: &str) -> RunDescription {
    let text = format!(
        r#"{{"schema":"nilo.run/1","id":"{id}"{parent},"mode":"run","command":["python","train.py"],"started_unix_nanos":1794729330417000000,"started_monotonic_nanos":{START},"boot_id":"{}"}}"#,
        nilo_runfile::boot_id(),
    );
    serde_json::from_str(&text).unwrap()
}

fn main() {
    let root = std::env::args()
        .nth(1)
        .expect("usage: make_golden_stacks FOLDER");
    let run = RunFolder::create(Path::new(&root), &description("stacks", "")).unwrap();
    let options = || WriterOptions {
        first_segment_bytes: 16 << 10,
        max_segment_bytes: 16 << 10,
        ..WriterOptions::default()
    };
    let spec = TableSpec {
        rank: None,
        subject: Subject::Phase {
            name: "allocations".to_owned(),
        },
        columns: vec![
            Column::gauge("bytes", Unit::Bytes),
            Column::gauge(STACK_COLUMN, Unit::Count),
        ],
        hold: false,
    };
    for (name, rows) in [("one", 0..600u32), ("two", 600..700)] {
        let mut writer = RunWriter::create(run.path(), name, options()).unwrap();
        let table = writer.define(&spec);
        for row in rows {
            let frames = [
                Frame {
                    function: "<module>",
                    file: "/home/ada/train.py",
                    line: 12,
                },
                Frame {
                    function: "forward",
                    file: "/home/ada/модель.py",
                    line: 1 + row % 7,
                },
            ];
            let stack = writer.intern_stack(&frames).unwrap();
            let time = START + u64::from(row) * 1_000_000;
            assert!(writer.append(table, time, None, &[f64::from(row), stack.value()]));
        }
        let text = format!("attached by {name}\n");
        writer
            .attach(&format!("{name}.txt"), "text/plain", &mut text.as_bytes())
            .unwrap();
        writer.close();
    }
    run.attach("empty", "application/octet-stream", &mut std::io::empty())
        .unwrap();
    let inner = description("inner", r#","parent":"stacks""#);
    run.create_inside(Access::Private, &inner).unwrap();
}
