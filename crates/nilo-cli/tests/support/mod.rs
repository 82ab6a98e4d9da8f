//! Made-up runs on disk: what `nilo run` and a training program that logs leave behind.

// Each program that includes this file uses another part of it.
#![allow(dead_code, clippy::unwrap_used, unreachable_pub)]

use std::path::{Path, PathBuf};

use nilo_runfile::{RunFolder, RunWriter, TableId, WriterOptions, boot_id};
use nilo_sample::fixture::level;
use nilo_sample::rows::{PhaseRow, ThroughputRow, TorchMemoryRow, TreeRow};
use nilo_sample::{ABSENT, Event, RunDescription, TableSpec, TypedRow};

const SECOND: u64 = 1_000_000_000;
const MIB: f64 = 1048576.0;
const GIB: f64 = 1073741824.0;
/// The monotonic clock when every made-up run begins.
const START: u64 = 1_000 * SECOND;

/// Creates the folder of a run that ended well after a number of seconds.
pub fn create(root: &Path, name: &str, mode: &str, secs: u64) -> RunFolder {
    let text = format!(
        r#"{{"schema":"nilo.run/1","id":"20261115-075530-417-{name}","name":"{name}","mode":"{mode}",
        "command":["python","train.py"],"host":"node-7","started_unix_nanos":1794729330417000000,
        "started_monotonic_nanos":{START},"boot_id":"{}","interval_nanos":100000000,
        "ending":{{"status":"exited","exit_code":0,"time_nanos":{}}}}}"#,
        boot_id(),
        secs * SECOND
    );
    let description: RunDescription = serde_json::from_str(&text).unwrap();
    RunFolder::create(root, &description).unwrap()
}

/// A stream of one process, with its tables as they are needed.
pub struct Program {
    writer: RunWriter,
    tables: Vec<(TableSpec, TableId)>,
}

impl Program {
    pub fn in_run(folder: &RunFolder, role: &str) -> Program {
        let writer = RunWriter::create(folder.path(), role, WriterOptions::default()).unwrap();
        Program {
            writer,
            tables: Vec::new(),
        }
    }

    /// One process that holds so much and has used so much CPU time.
    pub fn tree(&mut self, secs: f64, memory_bytes: f64, cpu_nanos: f64) {
        let row = TreeRow {
            cpu_nanos,
            ..level(memory_bytes)
        };
        self.row(&TableSpec::tree(), secs, None, row);
    }

    pub fn row(&mut self, spec: &TableSpec, secs: f64, step: Option<i64>, row: impl TypedRow) {
        self.values(spec, secs, step, row.values().as_ref());
    }

    fn values(&mut self, spec: &TableSpec, secs: f64, step: Option<i64>, values: &[f64]) {
        let known = self.tables.iter().find(|(known, _)| known == spec);
        let table = match known {
            Some((_, table)) => *table,
            None => {
                let table = self.writer.define(spec);
                self.tables.push((spec.clone(), table));
                table
            }
        };
        let time_nanos = START + (secs * 1e9) as u64;
        assert!(self.writer.append(table, time_nanos, step, values));
    }

    pub fn log(&mut self, secs: f64, step: Option<i64>, values: &[(&str, f64)]) {
        let spec = TableSpec::metrics("metrics", values.iter().map(|(name, _)| *name));
        let values: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
        self.values(&spec, secs, step, &values);
    }

    pub fn event(&mut self, secs: f64, event: &Event) {
        let time_nanos = START + (secs * 1e9) as u64;
        assert!(self.writer.event(time_nanos, event));
    }
}

/// What the recorder writes when the program has ended.
pub fn command_ended(exit_code: Option<i32>, signal: Option<i32>) -> Event {
    Event::CommandEnded {
        cpu_nanos: None,
        peak_bytes: None,
        exit_code,
        signal,
    }
}

/// The only stream of a run's recorder.
pub fn recorder_stream(run: &Path) -> PathBuf {
    let files = std::fs::read_dir(run).unwrap();
    let paths = files.map(|entry| entry.unwrap().path());
    let is_stream = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("recorder-")
    };
    let mut streams: Vec<_> = paths.filter(is_stream).collect();
    assert_eq!(streams.len(), 1);
    streams.remove(0)
}

/// The recorder's part: the tree's memory, sampled ten times a second.
pub fn record_memory(folder: &RunFolder, secs: u64) {
    let mut recorder = Program::in_run(folder, "recorder");
    for tick in 0..secs * 10 {
        let at = tick as f64 / 10.0;
        let step = 90.0 * (at % 1.0) * MIB;
        let memory = 300.0 * MIB + (at / 8.0).min(1.0) * 900.0 * MIB + step;
        recorder.tree(at, memory, at * 0.9e9);
    }
    recorder.event(secs as f64, &command_ended(Some(0), None));
}

/// A loss that falls from `from` with some noise that is the same each time.
pub fn loss(step: i64, from: f64) -> f64 {
    let noise = (step * 7919 % 101) as f64 / 101.0;
    from / (1.0 + step as f64 / 20.0) + 0.05 * noise
}

/// One training step a second: metrics of two kinds, phases, counters and PyTorch's memory.
pub fn train(program: &mut Program, steps: std::ops::Range<i64>, begin_secs: f64, from_loss: f64) {
    for (index, step) in steps.enumerate() {
        let end = begin_secs + (index + 1) as f64 - 0.05;
        let at = Some(step);
        for (name, secs) in [
            ("step/forward", 0.2),
            ("step/backward", 0.45),
            ("step", 0.7),
        ] {
            let secs = secs + 0.001 * (step % 7) as f64;
            let duration_nanos = secs * 1e9;
            program.row(
                &TableSpec::phase(name),
                end - 0.2,
                at,
                PhaseRow { duration_nanos },
            );
        }
        let data = PhaseRow {
            duration_nanos: 0.15e9,
        };
        program.row(&TableSpec::phase("data"), end - 0.01, at, data);
        let norm = if step == 41 {
            f64::NAN
        } else {
            2.0 + (step % 5) as f64 / 10.0
        };
        let learning_rate = 3e-4 * (1.0 - step as f64 / 200.0);
        let values = [
            ("loss", loss(step, from_loss)),
            ("lr", learning_rate),
            ("grad_norm", norm),
        ];
        program.log(end, at, &values);
        if step % 10 == 9 {
            let accuracy = 1.0 - loss(step, from_loss) / 10.0;
            program.log(
                end,
                at,
                &[
                    ("eval/loss", loss(step, from_loss) * 1.1),
                    ("eval/accuracy", accuracy),
                ],
            );
        }
        let batches = (index + 1) as f64;
        let counted = ThroughputRow {
            batches,
            samples: 32.0 * batches,
            tokens: 16384.0 * batches,
            counted_nanos: 1e9 * batches,
        };
        program.row(&TableSpec::throughput(0), end, at, counted);
        let held = (2.0 + (index as f64).min(10.0) / 5.0) * GIB;
        let torch = TorchMemoryRow {
            allocated_bytes: held,
            reserved_bytes: held * 1.2,
            peak_allocated_bytes: held * 1.4,
            peak_reserved_bytes: held * 1.5,
            device_free_bytes: 20.0 * GIB,
            device_total_bytes: 80.0 * GIB,
            ..TorchMemoryRow::ABSENT
        };
        program.row(&TableSpec::torch_memory(0), end, at, torch);
    }
}

/// A run of a minute under `nilo run`, whose program logs; `from_loss` makes runs differ.
pub fn training_run(root: &Path, name: &str, from_loss: f64) -> RunFolder {
    let folder = create(root, name, "run", 60);
    record_memory(&folder, 60);
    let mut program = Program::in_run(&folder, "python");
    train(&mut program, 0..50, 8.0, from_loss);
    folder
}

/// Two processes of one program: the second resumes at an earlier step. Nobody recorded memory.
pub fn resumed_run(root: &Path) -> RunFolder {
    let folder = create(root, "resumed", "python", 80);
    train(&mut Program::in_run(&folder, "python"), 0..40, 0.0, 4.0);
    train(&mut Program::in_run(&folder, "python"), 30..60, 45.0, 3.9);
    folder
}

/// Everything that a key or a value must not break.
pub fn hostile_run(root: &Path) -> RunFolder {
    let folder = create(root, "hostile", "python", 10);
    let mut program = Program::in_run(&folder, "python");
    for (secs, step) in [(1.0, i64::MIN), (2.0, i64::MAX), (3.0, -1), (4.0, 0)] {
        program.log(secs, Some(step), &[("edges", secs)]);
    }
    for secs in 0..5 {
        let secs = f64::from(secs);
        program.log(secs, Some(secs as i64), &[("only nan", f64::NAN)]);
        program.log(secs, None, &[("no step", secs), ("inf", f64::NEG_INFINITY)]);
        program.log(
            secs,
            Some(1),
            &[("twice", secs), ("twice", -secs), ("absent", ABSENT)],
        );
        program.log(
            secs,
            Some(1),
            &[("\u{1b}[2J\u{1b}]0;x\u{7}red\nnew line\u{202e}", 1e308)],
        );
        program.log(
            secs,
            Some(1),
            &[("損失/平均 🚀", -1e308), ("", 0.0), ("huge", 1.5e300)],
        );
        program.log(
            secs,
            Some(1),
            &[("x".repeat(5000).as_str(), 1e-300), ("tiny", 5e-324)],
        );
        program.row(
            &TableSpec::phase("\u{1b}[31mphase\n/in"),
            secs,
            None,
            PhaseRow {
                duration_nanos: f64::NAN,
            },
        );
        let counted = ThroughputRow {
            batches: f64::NAN,
            samples: -1.0,
            tokens: f64::INFINITY,
            counted_nanos: -1.0,
        };
        program.row(&TableSpec::throughput(0), secs, None, counted);
        let torch = TableSpec::torch_memory(u32::MAX);
        program.row(&torch, secs, None, TorchMemoryRow::ABSENT);
    }
    folder
}

/// Ten thousand metrics, three values each.
pub fn wide_run(root: &Path) -> RunFolder {
    let folder = create(root, "wide", "python", 3);
    let mut program = Program::in_run(&folder, "python");
    let names: Vec<String> = (0..10_000).map(|n| format!("layer/{n:05}/norm")).collect();
    for part in names.chunks(5_000) {
        let spec = TableSpec::metrics("metrics", part.iter().map(String::as_str));
        for step in 0..3 {
            program.values(
                &spec,
                step as f64,
                Some(step),
                &vec![step as f64; part.len()],
            );
        }
    }
    folder
}
