//! Real snapshots, and a writer for small made-up pickles.

#![allow(dead_code, unreachable_pub, missing_docs, clippy::unwrap_used)]

use nilo_allocator::{GpuSnapshot, ReadOptions, SnapshotError};

pub fn bytes_of(name: &str) -> Vec<u8> {
    let path = format!("{}/testdata/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

pub fn snapshot(name: &str) -> GpuSnapshot {
    read(&bytes_of(&format!("{name}.pickle.gz"))).unwrap()
}

pub fn read(bytes: &[u8]) -> Result<GpuSnapshot, SnapshotError> {
    GpuSnapshot::read(bytes, &ReadOptions::default())
}

/// One counter of torch's own statistics of a full snapshot.
pub fn counter(name: &str, counter: &str) -> u64 {
    let all: serde_json::Value = serde_json::from_slice(&bytes_of("stats.json")).unwrap();
    let one = all
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["name"] == name);
    one.unwrap()["stats"][counter].as_u64().unwrap()
}

/// A plain object to be pickled.
#[derive(Clone)]
pub enum Object {
    None,
    Int(i128),
    Float(f64),
    Bool(bool),
    Text(&'static str),
    List(Vec<Object>),
    Tuple(Vec<Object>),
    Dict(Vec<(&'static str, Object)>),
}

/// As the C++ writer does it: protocol 2, numbered memo entries, lists in one piece.
pub fn pickled(object: &Object) -> Vec<u8> {
    let mut writer = Writer {
        bytes: vec![0x80, 2],
        memo: 0,
    };
    writer.write(object);
    writer.bytes.push(b'.');
    writer.bytes
}

struct Writer {
    bytes: Vec<u8>,
    memo: u32,
}

impl Writer {
    fn put(&mut self) {
        match u8::try_from(self.memo) {
            Ok(index) => self.bytes.extend([b'q', index]),
            Err(_) => {
                self.bytes.push(b'r');
                self.bytes.extend(self.memo.to_le_bytes());
            }
        }
        self.memo += 1;
    }

    fn write(&mut self, object: &Object) {
        match object {
            Object::None => self.bytes.push(b'N'),
            Object::Bool(value) => self.bytes.push(if *value { 0x88 } else { 0x89 }),
            Object::Float(value) => {
                self.bytes.push(b'G');
                self.bytes.extend(value.to_be_bytes());
            }
            Object::Int(value) => {
                self.bytes.extend([0x8a, 9]);
                self.bytes.extend(&value.to_le_bytes()[..9]);
            }
            Object::Text(text) => {
                self.bytes.push(b'X');
                self.bytes.extend((text.len() as u32).to_le_bytes());
                self.bytes.extend(text.as_bytes());
                self.put();
            }
            Object::List(items) => {
                self.bytes.push(b']');
                self.put();
                self.bytes.push(b'(');
                items.iter().for_each(|item| self.write(item));
                self.bytes.push(b'e');
            }
            Object::Tuple(items) => {
                self.bytes.push(b'(');
                items.iter().for_each(|item| self.write(item));
                self.bytes.push(b't');
                self.put();
            }
            Object::Dict(pairs) => {
                self.bytes.push(b'}');
                self.put();
                self.bytes.push(b'(');
                for (key, value) in pairs {
                    self.write(&Object::Text(key));
                    self.write(value);
                }
                self.bytes.push(b'u');
            }
        }
    }
}

/// An event of the default stream.
pub fn event(action: &'static str, address: i128, size: i128) -> Object {
    let place = if action == "oom" {
        "device_free"
    } else {
        "addr"
    };
    Object::Dict(vec![
        ("action", Object::Text(action)),
        (place, Object::Int(address)),
        ("size", Object::Int(size)),
        ("stream", Object::Int(0)),
        ("time_us", Object::Int(1)),
        ("frames", Object::List(vec![frame("train.py", 1)])),
    ])
}

pub fn frame(filename: &'static str, line: i128) -> Object {
    Object::Dict(vec![
        ("filename", Object::Text(filename)),
        ("name", Object::Text("f")),
        ("line", Object::Int(line)),
    ])
}

/// A snapshot of these segments and events of device 0.
pub fn made_up(segments: Vec<Object>, events: Vec<Object>) -> Object {
    Object::Dict(vec![
        ("segments", Object::List(segments)),
        ("device_traces", Object::List(vec![Object::List(events)])),
    ])
}
