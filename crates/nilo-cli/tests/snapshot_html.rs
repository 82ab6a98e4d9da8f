//! `nilo snapshot html` on snapshots that were taken on a real GPU: its figures are those of the other answers.
//! How the page looks and works in a browser is tested in `tests/python/test_snapshot_page.py`.

// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

#[path = "support/command.rs"]
mod command;

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use command::nilo;
use serde_json::Value;

const SNAPSHOTS: [&str; 5] = [
    "full-varlen.pickle.gz",
    "full-steady.pickle.gz",
    "full-fragmentation-oom.pickle.gz",
    "window-retain-graph.pickle.gz",
    "seeds/expandable-5.pickle",
];

fn testdata(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../nilo-allocator/testdata")
        .join(name)
}

fn page_of(root: &Path, arguments: &[&str]) -> String {
    let arguments = [&["snapshot", "html", "-o", "-"], arguments].concat();
    let output = nilo(root, &arguments);
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    String::from_utf8(output.stdout).unwrap()
}

fn data_of(page: &str) -> Value {
    let mark = "<script type=\"application/json\" id=\"data\">";
    let start = page.find(mark).unwrap() + mark.len();
    let end = start + page[start..].find("</script>").unwrap();
    serde_json::from_str(&page[start..end]).unwrap()
}

fn json_of(arguments: &[&str]) -> Value {
    let arguments = [&["snapshot"], arguments, &["--format", "json"]].concat();
    serde_json::from_slice(&nilo(Path::new("."), &arguments).stdout).unwrap()
}

/// The numbers of a packed list.
fn unpacked(text: &Value) -> Vec<u64> {
    let mut numbers = Vec::new();
    let (mut number, mut shift) = (0, 0);
    for byte in STANDARD.decode(text.as_str().unwrap()).unwrap() {
        number |= u64::from(byte & 127) << shift;
        shift += 7;
        if byte < 128 {
            numbers.push(number);
            (number, shift) = (0, 0);
        }
    }
    numbers
}

fn change(number: u64) -> i64 {
    match number % 2 {
        0 => (number / 2) as i64,
        _ => -((number / 2 + 1) as i64),
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

#[test]
fn the_figures_of_the_page_are_those_of_summary_and_why() {
    for name in SNAPSHOTS {
        let file = testdata(name);
        let file = file.to_str().unwrap();
        let data = data_of(&page_of(Path::new("."), &[file]));
        let mut summary = json_of(&["summary", file, "--stacks", "100"]);
        assert_eq!(
            data["devices"][0]["summary"],
            summary["snapshots"][0]["devices"][0].take()
        );
        let why = json_of(&["why", file, "--last", "5", "--stacks", "10"]);
        assert_eq!(data["devices"][0]["ooms"], why["ooms"], "{name}");
    }
}

#[test]
fn the_curve_has_both_peaks_and_every_event() {
    for name in SNAPSHOTS {
        let file = testdata(name);
        let data = data_of(&page_of(Path::new("."), &[file.to_str().unwrap()]));
        let device = &data["devices"][0];
        let packed = &device["timeline"];
        let unit = number(&packed["unit_bytes"]);
        let (mut most, mut reserved, mut micros) = (0, 0, 0);
        let (mut highest, mut highest_reserved) = (0, 0);
        let numbers = unpacked(&packed["data"]);
        assert_eq!(numbers.len() as u64, 4 * number(&packed["buckets"]));
        for bucket in numbers.chunks_exact(4) {
            micros += bucket[0];
            most += change(bucket[1]);
            assert!(
                bucket[2] as i64 <= most,
                "the lowest is no less than nothing"
            );
            reserved += change(bucket[3]);
            highest = highest.max(most);
            highest_reserved = highest_reserved.max(reserved);
        }
        let summary = &device["summary"];
        assert_eq!(
            highest as u64 * unit,
            number(&summary["peak_allocated_bytes"])
        );
        assert_eq!(
            highest_reserved as u64 * unit,
            number(&summary["peak_reserved_bytes"])
        );
        assert_eq!(packed["events"], summary["events"]);
        let events = number(&packed["buckets"]) * number(&packed["events_per_bucket"]);
        assert!(events >= number(&packed["events"]));
        if let Some(secs) = summary["duration_secs"].as_f64() {
            assert!(micros as f64 / 1e6 <= secs + 1e-6);
        }
    }
}

#[test]
fn the_calls_add_up_to_the_peak_and_children_fit_into_their_callers() {
    for name in SNAPSHOTS {
        let file = testdata(name);
        let data = data_of(&page_of(Path::new("."), &[file.to_str().unwrap()]));
        let device = &data["devices"][0];
        let flame = &device["flame"];
        let peak = number(&device["summary"]["peak_allocated_bytes"]);
        assert_eq!(number(&flame["bytes"]), peak);
        let frames = data["frames"].as_array().unwrap().len() as u64;
        let mut room = vec![peak];
        for call in unpacked(&flame["data"]).chunks_exact(3) {
            let (depth, bytes) = (call[0] as usize, call[2]);
            assert!(depth < room.len() && call[1] <= frames, "{name}");
            room.truncate(depth + 1);
            room[depth] = room[depth].checked_sub(bytes).unwrap();
            room.push(bytes);
        }
        assert_eq!(room[0], 0, "{name}: the outermost calls are all bytes");
        assert_eq!(flame["left_out"], 0);
    }
}

#[test]
fn the_pieces_of_the_segments_add_up_to_the_reserved_bytes() {
    for name in SNAPSHOTS {
        let file = testdata(name);
        let data = data_of(&page_of(Path::new("."), &[file.to_str().unwrap()]));
        for map in data["devices"][0]["maps"].as_array().unwrap() {
            let numbers = unpacked(&map["data"]);
            let mut numbers = numbers.into_iter();
            let unit = number(&map["unit_bytes"]);
            let mut sums = [0; 4];
            for _ in 0..number(&map["segments"]) {
                let pieces = numbers.by_ref().nth(3).unwrap();
                for _ in 0..pieces {
                    let usage = numbers.next().unwrap() as usize;
                    sums[usage] += numbers.next().unwrap() * unit;
                    if usage < 2 {
                        let stack = numbers.next().unwrap() as usize;
                        assert!(stack >= 1 && data["stacks"][stack - 1].is_object());
                    }
                }
            }
            assert_eq!(numbers.next(), None, "{name}");
            let told = ["allocated", "pending", "releasable", "stranded"];
            let told = told.map(|part| number(&map[format!("{part}_bytes")]));
            assert_eq!(sums, told, "{name} {}", map["kind"]);
            assert_eq!(sums.iter().sum::<u64>(), number(&map["reserved_bytes"]));
        }
    }
}

/// A text of a pickle.
fn text(words: &str) -> Vec<u8> {
    let length = (words.len() as u32).to_le_bytes();
    [b"X", &length[..], words.as_bytes()].concat()
}

fn int(number: i32) -> Vec<u8> {
    [b"J", &number.to_le_bytes()[..]].concat()
}

fn dict(pairs: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let pairs = pairs.iter();
    let pairs = pairs.flat_map(|(key, value)| [text(key), value.clone()].concat());
    [b"}(", &pairs.collect::<Vec<u8>>()[..], b"u"].concat()
}

fn list(items: &[Vec<u8>]) -> Vec<u8> {
    [b"](", &items.concat()[..], b"e"].concat()
}

/// A snapshot with one block, all of whose names are this one.
fn named(name: &str) -> Vec<u8> {
    let frame = dict(&[
        ("filename", text(&format!("{name}.py"))),
        ("line", int(3)),
        ("name", text(name)),
    ]);
    let event = |action: &str| {
        dict(&[
            ("action", text(action)),
            ("addr", int(1 << 21)),
            ("size", int(1 << 21)),
            ("stream", int(0)),
            ("time_us", int(5)),
            ("frames", list(std::slice::from_ref(&frame))),
            ("user_metadata", text(name)),
        ])
    };
    let stage = dict(&[
        ("stage", text("START")),
        ("name", text(name)),
        ("device", int(0)),
        ("time_us", int(1)),
    ]);
    let events = list(&[event("segment_alloc"), event("alloc"), event("oom")]);
    let snapshot = dict(&[
        ("segments", b"]".to_vec()),
        ("device_traces", list(&[events])),
        ("external_annotations", list(&[stage])),
    ]);
    [b"\x80\x02", &snapshot[..], b"."].concat()
}

#[test]
fn hostile_names_stay_text_and_nothing_is_asked_from_outside() {
    let name = "</script><img src=x onerror=alert(1)><!--%DATA%\u{202e}&\"'";
    let folder = tempfile::tempdir().unwrap();
    let file = "%DATA%<b onclick='x'>&\".pickle";
    std::fs::write(folder.path().join(file), named(name)).unwrap();
    let page = page_of(folder.path(), &[file]);
    assert_eq!(page.matches("</script>").count(), 2);
    assert_eq!(page.matches("<script").count(), 2);
    assert!(!page.contains("<img") && !page.contains("<b ") && !page.contains('\u{202e}'));
    assert!(page.contains("<title>%DATA%&lt;b onclick=&#39;x&#39;&gt;&amp;&quot;.pickle</title>"));
    assert!(page.contains(
        "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-"
    ));
    assert!(!page.contains("http://") && !page.contains("https://"));
    let data = data_of(&page);
    assert_eq!(data["devices"][0]["summary"]["phases"][0]["phase"], name);
    assert!(
        data["frames"][0]["function"]
            .as_str()
            .unwrap()
            .starts_with("</script>")
    );
    assert_eq!(data["devices"][0]["summary"]["oom_events"], 1);
}

#[test]
fn the_page_is_named_after_the_snapshot_and_a_range_is_a_page_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let name = "full-varlen.pickle.gz";
    std::fs::copy(testdata(name), folder.path().join(name)).unwrap();
    let output = nilo(folder.path(), &["snapshot", "html", name]);
    assert!(output.status.success() && output.stdout.is_empty());
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "nilo: wrote full-varlen.html\n"
    );
    let page = std::fs::read_to_string(folder.path().join("full-varlen.html")).unwrap();
    assert_eq!(page, page_of(folder.path(), &[name]), "the same every time");
    let part = data_of(&page_of(
        folder.path(),
        &[name, "--from", "20001ev", "--to", "30000ev"],
    ));
    let device = &part["devices"][0];
    assert_eq!(device["timeline"]["first_event"], 20_001);
    assert_eq!(device["timeline"]["events"], 10_000);
    let end = device["maps"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&end["kind"], &end["event"]),
        (&"end".into(), &30_000.into())
    );
}

#[test]
fn a_snapshot_without_stacks_has_a_page() {
    let file = testdata("pairs/two_streams.default.pickle.gz");
    let data = data_of(&page_of(Path::new("."), &[file.to_str().unwrap()]));
    assert_eq!(data["has_stacks"], false);
    let device = &data["devices"][0];
    assert_eq!(
        device["flame"]["bytes"],
        device["summary"]["peak_allocated_bytes"]
    );
    assert_eq!(
        unpacked(&device["flame"]["data"])[..2],
        [0, 0],
        "one call that has no stack"
    );
    assert!(!device["maps"].as_array().unwrap().is_empty());
}

/// A snapshot with many blocks in one segment of 64 MiB: 2,000 with a call stack of 25 functions of its own, the others without.
fn crowded(blocks: i32) -> Vec<u8> {
    let start = 1 << 24;
    let event = |action: &str, address: i32, size: i32, frames: Vec<u8>| {
        dict(&[
            ("action", text(action)),
            ("addr", int(address)),
            ("size", int(size)),
            ("stream", int(0)),
            ("time_us", int(5)),
            ("frames", frames),
        ])
    };
    let none = || b"]".to_vec();
    let mut events = vec![event("segment_alloc", start, 64 << 20, none())];
    for block in 0..blocks {
        let frames = (0..25).map(|depth| {
            dict(&[
                ("filename", text("model.py")),
                ("line", int(block + 1)),
                ("name", text(&format!("f{depth}"))),
            ])
        });
        let frames = match block < 2_000 {
            true => list(&frames.collect::<Vec<_>>()),
            false => none(),
        };
        events.push(event("alloc", start + block * 1024, 512, frames));
    }
    let snapshot = dict(&[
        ("segments", none()),
        ("device_traces", list(&[list(&events)])),
    ]);
    [b"\x80\x02", &snapshot[..], b"."].concat()
}

#[test]
fn a_crowded_snapshot_is_bounded_and_still_adds_up() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("crowded"), crowded(60_000)).unwrap();
    let page = page_of(folder.path(), &["crowded"]);
    assert!(page.len() < 4 << 20, "{}", page.len());
    let data = data_of(&page);
    let device = &data["devices"][0];
    let map = device["maps"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&map["segments"], &map["summed_segments"]),
        (&1.into(), &1.into())
    );
    let numbers = unpacked(&map["data"]);
    let unit = number(&map["unit_bytes"]);
    let (allocated, stranded) = (
        number(&map["allocated_bytes"]),
        number(&map["stranded_bytes"]),
    );
    assert_eq!(allocated, 60_000 * 512);
    assert_eq!(
        numbers[2..],
        [4, 2, 0, allocated / unit, 0, 3, stranded / unit]
    );
    let flame = &device["flame"];
    assert_eq!(number(&flame["calls"]), 40_000);
    assert_eq!(number(&flame["left_out"]), 10_001);
    assert_eq!(number(&flame["bytes"]), allocated);
}
