//! `nilo snapshot` on snapshots that were taken on a real GPU, as transcripts.

// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

#[path = "support/command.rs"]
mod command;

use std::path::{Path, PathBuf};

use command::{nilo, transcript};
use serde_json::Value;
use tempfile::TempDir;

const VARLEN: &str = "full-varlen.pickle.gz";
const STEADY: &str = "full-steady.pickle.gz";
const FRAGMENTED: &str = "full-fragmentation-oom.pickle.gz";
const RETAINED: &str = "window-retain-graph.pickle.gz";

fn testdata() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../nilo-allocator/testdata")
}

/// A folder with these snapshots, so that their names are short.
fn folder_with(names: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        let file = Path::new(name).file_name().unwrap();
        std::fs::copy(testdata().join(name), folder.path().join(file)).unwrap();
    }
    folder
}

fn json_of(root: &Path, arguments: &[&str]) -> Value {
    let arguments = [&["snapshot"], arguments, &["--format", "json"]].concat();
    let output = nilo(root, &arguments);
    assert!(output.stderr.is_empty(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn data(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(testdata().join(name)).unwrap()).unwrap()
}

#[test]
fn summaries() {
    let folder = folder_with(&[VARLEN, FRAGMENTED, STEADY, RETAINED]);
    let said = |arguments: &[&str]| {
        transcript(
            folder.path(),
            &[&["snapshot", "summary"], arguments].concat(),
        )
    };
    insta::assert_snapshot!("summary-varlen", said(&[VARLEN]));
    insta::assert_snapshot!("summary-fragmented", said(&[FRAGMENTED, "--stacks", "1"]));
    insta::assert_snapshot!("summary-late", said(&[RETAINED, "--stacks", "2"]));
    insta::assert_snapshot!(
        "summary-ranks",
        said(&[STEADY, VARLEN, FRAGMENTED, "--stacks", "0"])
    );
}

#[test]
fn peaks_are_those_torch_counted_and_the_parts_add_up_to_the_byte() {
    let folder = folder_with(&[VARLEN, FRAGMENTED, STEADY]);
    for one in data("stats.json").as_array().unwrap() {
        let name = one["name"].as_str().unwrap();
        let answer = json_of(folder.path(), &["summary", &format!("{name}.pickle.gz")]);
        let stats = &one["stats"];
        assert_eq!(answer["schema"], "nilo.snapshot-summary/1");
        assert_eq!(
            answer["peak_reserved_bytes"],
            stats["reserved_bytes.all.peak"]
        );
        assert_eq!(
            answer["peak_allocated_bytes"],
            stats["allocated_bytes.all.peak"]
        );
        for at in ["at_peak_allocated", "at_peak_reserved"] {
            let at = &answer["snapshots"][0]["devices"][0][at];
            let bytes = |part: &str| at[format!("{part}_bytes")].as_u64().unwrap();
            let parts = ["requested", "rounding", "pending", "releasable", "stranded"];
            let sum: u64 = parts.iter().map(|part| bytes(part)).sum();
            assert_eq!(sum, bytes("reserved"), "{name}");
            assert_eq!(bytes("requested") + bytes("rounding"), bytes("allocated"));
        }
        let device = &answer["snapshots"][0]["devices"][0];
        assert_eq!(
            device["at_peak_reserved"]["reserved_bytes"],
            answer["peak_reserved_bytes"]
        );
        assert_eq!(
            device["at_peak_allocated"]["allocated_bytes"],
            answer["peak_allocated_bytes"]
        );
    }
}

#[test]
fn categories_and_phases_add_up_to_the_peak() {
    let folder = folder_with(&[VARLEN, FRAGMENTED, STEADY, RETAINED]);
    for name in [VARLEN, FRAGMENTED, STEADY, RETAINED] {
        let answer = json_of(folder.path(), &["summary", name]);
        let device = &answer["snapshots"][0]["devices"][0];
        for rows in ["categories", "phases"] {
            let rows = device[rows].as_array().unwrap();
            let sum: u64 = rows.iter().map(|row| row["bytes"].as_u64().unwrap()).sum();
            let is_told = !rows.is_empty();
            assert!(!is_told || sum == device["peak_allocated_bytes"], "{name}");
        }
    }
    let answer = json_of(folder.path(), &["summary", STEADY]);
    let device = &answer["snapshots"][0]["devices"][0];
    let bytes = |rows: &str, key: &str, value: &str| {
        let rows = device[rows].as_array().unwrap().iter();
        let found = rows.filter(|row| row[key] == value);
        found.map(|row| row["bytes"].as_u64().unwrap()).sum::<u64>()
    };
    // AdamW has two states for each parameter, and a step counter.
    let parameters = bytes("categories", "category", "parameters");
    let state = bytes("categories", "category", "optimizer-state");
    assert!(parameters > 0 && (2 * parameters).abs_diff(state) < parameters / 50);
    assert!(bytes("categories", "category", "activations") > parameters);
    let step = bytes("phases", "phase", "Optimizer.step#AdamW.step");
    assert_eq!(step, state, "what the first step made");
}

#[test]
fn a_range_has_peaks_of_its_own() {
    let folder = folder_with(&[VARLEN]);
    let peak = |range: &[&str]| {
        let answer = json_of(folder.path(), &[&["summary", VARLEN], range].concat());
        let device = &answer["snapshots"][0]["devices"][0];
        let event = device["at_peak_allocated"]["event"].as_u64().unwrap();
        (event, device["events"].as_u64().unwrap())
    };
    let (whole, all) = peak(&[]);
    assert_eq!((whole, all), (15_434, 48_641));
    assert_eq!(peak(&["--from", "1ev", "--to", "48641ev"]), (whole, all));
    let (before, events) = peak(&["--to", "15433ev"]);
    assert!(before < whole && events == 15_433);
    let (after, _) = peak(&["--from", "0.9"]);
    assert!(after > whole);
    let (early, _) = peak(&["--to", "500ms"]);
    assert!(early < before);
}

#[test]
fn a_level_that_held_when_the_range_began_is_no_event_of_it() {
    let folder = folder_with(&[VARLEN, "window-steady.pickle.gz"]);
    let said = |arguments: &[&str]| {
        let output = nilo(folder.path(), &[&["snapshot"], arguments].concat());
        String::from_utf8(output.stdout).unwrap()
    };
    let last = said(&["summary", VARLEN, "--from", "48641ev"]);
    let lines: Vec<&str> = last.lines().collect();
    assert!(lines[0].ends_with(", GPU 0: 1 event"), "{last}");
    assert!(
        lines[1].ends_with(" bytes) when the range begins"),
        "{last}"
    );
    assert!(
        lines[2].ends_with(" bytes) when the range begins"),
        "{last}"
    );
    let late = said(&["summary", "window-steady.pickle.gz"]);
    assert!(late.contains(" bytes) before the first event\n"), "{late}");
    let from = ["--from", "48641ev"];
    let diff = said(&[&["diff", VARLEN, VARLEN], &from[..]].concat());
    assert!(
        diff.contains("most allocated when the range begins\n"),
        "{diff}"
    );
    let at_start = |arguments: &[&str]| {
        let answer = json_of(folder.path(), &[&["summary", VARLEN], arguments].concat());
        answer["snapshots"][0]["devices"][0]["at_peak_allocated"]["at_start"].clone()
    };
    assert_eq!(at_start(&from), true);
    assert_eq!(at_start(&[]), false);
}

#[test]
fn what_another_setting_reserves_is_foretold_as_it_was_measured() {
    let measured = data("pairs/measured.json");
    for name in ["varying_lengths", "images_of_many_sizes", "random_sizes"] {
        let program = &measured["programs"][name];
        let file = testdata().join(format!("pairs/{name}.default.pickle.gz"));
        let file = file.to_str().unwrap();
        for (option, setting) in [
            (&["--expandable-segments"][..], "expandable"),
            (&["--max-split-size-mb", "128"], "split128"),
        ] {
            let arguments = [&["whatif", file], option].concat();
            let answer = json_of(Path::new("."), &arguments);
            for (key, setting) in [("replayed", "default"), ("whatif", setting)] {
                assert_eq!(
                    answer[key]["peak_reserved_bytes"], program[setting]["peak_reserved_bytes"],
                    "{name} {setting}"
                );
            }
            assert!(answer["replay_is_exact"].as_bool().unwrap());
            assert!(answer["whatif"]["peak_allocated_bytes"].is_u64());
        }
    }
}

#[test]
fn both_replays_have_the_same_keys_whatever_they_came_to() {
    let folder = folder_with(&[FRAGMENTED, VARLEN]);
    for file in [FRAGMENTED, VARLEN] {
        let answer = json_of(folder.path(), &["whatif", file, "--expandable-segments"]);
        let keys = |replay: &str| -> Vec<String> {
            let replay = answer[replay].as_object().unwrap();
            replay.keys().cloned().collect()
        };
        assert_eq!(keys("replayed"), keys("whatif"), "{file}");
    }
}

#[test]
fn where_frees_waited_for_another_stream_it_is_said_that_the_gpu_decides() {
    let two_streams = "two_streams.default.pickle.gz";
    let folder = folder_with(&["pairs/two_streams.default.pickle.gz", VARLEN]);
    let said = |file| {
        let text = transcript(folder.path(), &["snapshot", "whatif", file]);
        text.contains("180 frees waited for another stream")
    };
    assert!(said(two_streams) && !said(VARLEN));
    let of = |file| json_of(folder.path(), &["whatif", file])["waiting_frees"].clone();
    assert_eq!((of(two_streams), of(VARLEN)), (180.into(), 0.into()));
}

#[test]
fn settings_are_compared() {
    let folder = folder_with(&[VARLEN, FRAGMENTED, RETAINED, "window-steady.pickle.gz"]);
    let said = |arguments: &[&str]| {
        transcript(
            folder.path(),
            &[&["snapshot", "whatif"], arguments].concat(),
        )
    };
    insta::assert_snapshot!("whatif-all", said(&[VARLEN]));
    insta::assert_snapshot!("whatif-oom", said(&[FRAGMENTED]));
    insta::assert_snapshot!("whatif-avoided", said(&[RETAINED, "--expandable-segments"]));
    let worse = ["--max-split-size-mb", "64", "--limit", "3GiB"];
    insta::assert_snapshot!("whatif-worse", said(&[&[VARLEN], &worse[..]].concat()));
    insta::assert_snapshot!("whatif-too-small", said(&[VARLEN, "--limit", "1KiB"]));
    let late = ["window-steady.pickle.gz", "--limit"];
    let late = |limit: &str| said(&[&late[..], &[limit]].concat());
    insta::assert_snapshot!("whatif-too-small-late", late("1GiB") + &late("5GiB"));
    let nowhere = said(&[VARLEN, "--limit", "1GiB"]);
    assert!(
        nowhere.contains("The program would not fit into 1.00 GiB with any of these settings."),
        "{nowhere}"
    );
    assert!(!nowhere.contains("export"), "{nowhere}");
    let collection = said(&[VARLEN, "--garbage-collection-threshold", "0.8"]);
    assert!(collection.contains("warning: garbage_collection_threshold"));
}

#[test]
fn failed_allocations_are_explained() {
    let folder = folder_with(&[FRAGMENTED, RETAINED, STEADY]);
    let said =
        |arguments: &[&str]| transcript(folder.path(), &[&["snapshot", "why"], arguments].concat());
    insta::assert_snapshot!("why-fragmented", said(&[FRAGMENTED]));
    insta::assert_snapshot!("why-leak", said(&[RETAINED, "--stacks", "2"]));
    insta::assert_snapshot!("why-nothing", said(&[STEADY]));
    let before = json_of(folder.path(), &["why", RETAINED, "--to", "19683ev"]);
    assert_eq!(before["oom_events"], 0);
    let leaking = json_of(folder.path(), &["why", RETAINED]);
    assert_eq!(leaking["ooms"][0]["cause"], "accumulation");
    let answer = json_of(folder.path(), &["why", FRAGMENTED]);
    assert_eq!(answer["schema"], "nilo.snapshot-why/1");
    let oom = &answer["ooms"][0];
    assert_eq!(oom["cause"], "fragmentation");
    assert_eq!(oom["limited_by"], "process");
    assert_eq!(oom["asked_bytes"], 1_992_294_400);
    assert_eq!(oom["request"]["user_frame"]["line"], 43);
    assert_eq!(oom["fits_defragmented"], true);
    assert_eq!(oom["pinned_by"][0]["user_frame"]["function"], "make_holes");
}

#[test]
fn what_accumulates_is_found_and_a_steady_training_is_not_accused() {
    let folder = folder_with(&[RETAINED, STEADY, VARLEN, "window-steady.pickle.gz"]);
    let said = |arguments: &[&str]| {
        transcript(folder.path(), &[&["snapshot", "leaks"], arguments].concat())
    };
    insta::assert_snapshot!("leaks-retained", said(&[RETAINED, "--stacks", "3"]));
    insta::assert_snapshot!("leaks-steady", said(&[STEADY]));
    for name in [STEADY, VARLEN, "window-steady.pickle.gz"] {
        let answer = json_of(folder.path(), &["leaks", name]);
        assert_eq!(answer["stack_count"], 0, "{name}");
    }
    let answer = json_of(folder.path(), &["leaks", RETAINED]);
    assert_eq!(answer["schema"], "nilo.snapshot-leaks/1");
    assert_eq!(answer["events"], 19_684, "up to the failed allocation");
    assert!(answer["stacks"][0]["freed_ratio"].as_f64().unwrap() > 0.5);
}

#[test]
fn several_files_have_a_part_each_and_a_list_in_json() {
    let folder = folder_with(&[RETAINED, STEADY, FRAGMENTED]);
    for (verb, first, second) in [("why", STEADY, FRAGMENTED), ("leaks", STEADY, RETAINED)] {
        let alone = |name: &str| {
            let output = nilo(folder.path(), &["snapshot", verb, name]);
            (output.status.code(), output.stdout)
        };
        let both = nilo(folder.path(), &["snapshot", verb, first, second]);
        assert_eq!(alone(first).0, Some(0));
        assert_eq!(both.status.code(), Some(1), "one of them is enough");
        let parts = [alone(first).1, b"\n".to_vec(), alone(second).1].concat();
        assert_eq!(both.stdout, parts);
        let list = json_of(folder.path(), &[verb, first, second]);
        let one = json_of(folder.path(), &[verb, second]);
        assert_eq!((list[0]["file"].as_str(), &list[1]), (Some(first), &one));
    }
}

#[test]
fn of_several_ranks_those_that_can_be_read_are_answered_for() {
    let folder = folder_with(&[STEADY, FRAGMENTED]);
    let packed = std::fs::read(folder.path().join(STEADY)).unwrap();
    std::fs::write(folder.path().join("cut"), &packed[..packed.len() / 2]).unwrap();
    std::fs::write(folder.path().join("empty"), b"").unwrap();
    for (verb, answered) in [
        ("summary", FRAGMENTED),
        ("why", FRAGMENTED),
        ("leaks", STEADY),
    ] {
        let files = ["snapshot", verb, "cut", answered, "empty"];
        let output = nilo(folder.path(), &files);
        assert_eq!(output.status.code(), Some(2), "{verb}");
        let said = String::from_utf8(output.stderr).unwrap();
        for problem in ["error: cut: damaged gzip data", "error: empty is empty"] {
            assert!(said.contains(problem), "{verb}: {said}");
        }
        let alone = nilo(folder.path(), &["snapshot", verb, answered]);
        assert_eq!(output.stdout, alone.stdout, "{verb}");
        let json = nilo(folder.path(), &[&files[..], &["--format", "json"]].concat());
        let answer: Value = serde_json::from_slice(&json.stdout).unwrap();
        let list = match verb {
            "summary" => &answer["snapshots"],
            _ => &answer,
        };
        assert_eq!(list.as_array().unwrap().len(), 1, "{verb}");
        assert_eq!(list[0]["file"], answered);
    }
    let none = nilo(folder.path(), &["snapshot", "why", "cut", "empty"]);
    assert_eq!((none.status.code(), none.stdout), (Some(2), Vec::new()));
    let said = String::from_utf8(none.stderr).unwrap();
    assert_eq!(said.matches("error: ").count(), 2, "{said}");
}

#[test]
fn two_snapshots_are_compared_by_stack() {
    let folder = folder_with(&[STEADY, VARLEN]);
    let arguments = ["snapshot", "diff", STEADY, VARLEN, "--stacks", "3"];
    insta::assert_snapshot!("diff", transcript(folder.path(), &arguments));
    let answer = json_of(folder.path(), &["diff", STEADY, VARLEN, "--stacks", "1000"]);
    let changes = answer["stacks"].as_array().unwrap().iter();
    let sum: i64 = changes
        .map(|stack| stack["change_bytes"].as_i64().unwrap())
        .sum();
    assert_eq!(answer["peak_allocated_change_bytes"], sum);
    let same = json_of(folder.path(), &["diff", STEADY, STEADY]);
    assert_eq!(same["changed_stacks"], 0);
}

#[test]
fn the_peak_is_drawn() {
    let folder = folder_with(&[VARLEN]);
    let drawn = |arguments: &[&str]| {
        let output = nilo(
            folder.path(),
            &[&["snapshot", "flame", VARLEN], arguments].concat(),
        );
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        match arguments[1] {
            "-" => assert_eq!(said, ""),
            name => assert_eq!(said, format!("nilo: wrote {name}\n")),
        }
        output.stdout
    };
    let flame = |arguments: &[&str]| String::from_utf8(drawn(arguments)).unwrap();
    assert_eq!(flame(&["-o", "peak.svg"]), "");
    let svg = std::fs::read_to_string(folder.path().join("peak.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    assert!(svg.contains("all: 2.43 GiB (100.0 %)"), "{svg}");
    assert!(svg.contains("train.py:57 one: "));
    assert!(svg.contains(">2.43 GiB allocated on GPU 0 at the peak</text>"));
    assert!(svg.contains(">one train.py:57</text>"));
    assert_eq!(flame(&["-o", "-"]), svg);
    let profile: Value =
        serde_json::from_str(&flame(&["-o", "-", "--format", "speedscope"])).unwrap();
    let weights = profile["profiles"][0]["weights"].as_array().unwrap();
    let sum: u64 = weights.iter().map(|bytes| bytes.as_u64().unwrap()).sum();
    assert_eq!(sum, 2_612_486_656);
    let samples = profile["profiles"][0]["samples"].as_array().unwrap();
    let frames = profile["shared"]["frames"].as_array().unwrap();
    let mut named = samples.iter().flat_map(|stack| stack.as_array().unwrap());
    assert_eq!(samples.len(), weights.len());
    assert!(named.all(|frame| (frame.as_u64().unwrap() as usize) < frames.len()));
    flame(&["-o", "peak.json"]);
    let written = std::fs::read(folder.path().join("peak.json")).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&written).unwrap(), profile);
    flame(&["-o", "peak.PNG"]);
    let written = std::fs::read(folder.path().join("peak.PNG")).unwrap();
    assert!(written.starts_with(b"\x89PNG"));
    assert_eq!(drawn(&["-o", "-", "--format", "png"]), written);
}

#[test]
fn a_picture_of_an_unknown_format_is_refused() {
    let folder = folder_with(&[STEADY]);
    for name in ["peak.gif", "peak"] {
        let refused = nilo(folder.path(), &["snapshot", "flame", STEADY, "-o", name]);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{said}");
        let expected = format!("error: cannot tell the format of {name}\nhint: ");
        assert!(said.starts_with(&expected), "{said}");
        assert!(said.contains(".svg, .png or .json"), "{said}");
        assert!(!folder.path().join(name).exists());
    }
}

#[test]
fn a_snapshot_is_never_written_over_by_what_is_made_of_it() {
    let folder = folder_with(&[STEADY]);
    let root = folder.path();
    std::os::unix::fs::symlink(STEADY, root.join("symlink")).unwrap();
    std::fs::hard_link(root.join(STEADY), root.join("hard-link")).unwrap();
    let before = std::fs::read(root.join(STEADY)).unwrap();
    let here = format!("./{STEADY}");
    for output in [STEADY, &here, "symlink", "hard-link"] {
        for verb in [&["html"][..], &["flame", "--format", "svg"]] {
            let arguments = [&["snapshot"], verb, &[STEADY, "-o", output]].concat();
            let refused = nilo(root, &arguments);
            let said = String::from_utf8(refused.stderr).unwrap();
            assert_eq!(refused.status.code(), Some(2), "{said}");
            let expected = format!("error: {STEADY} is both the input and the output\nhint: ");
            assert!(said.starts_with(&expected), "{said}");
        }
    }
    assert_eq!(std::fs::read(root.join(STEADY)).unwrap(), before);
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let folder = folder_with(&[STEADY]);
    for verb in [&["html"][..], &["flame", "--format", "svg"]] {
        let arguments = [&["snapshot"], verb, &[STEADY, "-o", "/dev/full"]].concat();
        let output = nilo(folder.path(), &arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.starts_with("error: cannot write /dev/full: No space left"),
            "{said}"
        );
    }
}

#[test]
fn a_file_that_decompresses_to_far_more_than_a_snapshot_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    // A zstd frame with a window of 128 KiB; each block of that size is one byte, repeated.
    let mut bomb = b"\x28\xb5\x2f\xfd\x00\x38".to_vec();
    bomb.extend(b"\x02\x00\x10]".repeat(2400));
    std::fs::write(folder.path().join("bomb.zst"), &bomb).unwrap();
    let refused = nilo(folder.path(), &["snapshot", "summary", "bomb.zst"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    let expected = format!(
        "error: bomb.zst: {} bytes of zstd data decompress",
        bomb.len()
    );
    assert!(said.starts_with(&expected), "{said}");
    assert!(said.contains("\nhint: decompress it first"), "{said}");
}

/// `[]` under each key of a snapshot, as Python pickles it.
const NO_EVENTS: &[u8] =
    b"\x80\x02}q\x00(X\x08\x00\x00\x00segmentsq\x01]q\x02X\x0d\x00\x00\x00device_tracesq\x03]q\x04u.";

#[test]
fn what_cannot_be_read_is_one_sentence_and_a_hint() {
    let folder = folder_with(&[STEADY, "pairs/two_streams.default.pickle.gz"]);
    let packed = std::fs::read(folder.path().join(STEADY)).unwrap();
    let plain = std::fs::read(testdata().join("seeds/plain-4.pickle")).unwrap();
    let hostile = b"\x80\x04cos\nsystem\n(S'touch owned'\ntR.";
    for (name, bytes) in [
        ("empty", &[][..]),
        ("text", b"hello\n"),
        ("damaged.gz", &packed[..packed.len() / 2]),
        ("cut", &plain[..plain.len() / 2]),
        ("hostile", hostile),
        ("list", b"\x80\x02]q\x00K\x01a."),
        ("no-events", NO_EVENTS),
    ] {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let mut said = String::new();
    for arguments in [
        &["summary", "missing"][..],
        &["summary", "."],
        &["summary", "empty"],
        &["summary", "text"],
        &["whatif", "damaged.gz"],
        &["why", "cut"],
        &["leaks", "hostile"],
        &["diff", "list", STEADY],
        &["summary", "no-events"],
        &["whatif", "no-events"],
        &["why", "no-events"],
        &["leaks", "two_streams.default.pickle.gz"],
        &["flame", "two_streams.default.pickle.gz", "-o", "x.svg"],
        &["diff", STEADY, "two_streams.default.pickle.gz"],
        &["summary", STEADY, "--from", "10"],
        &["leaks", STEADY, "--from", "20ev", "--to", "10ev"],
        &["whatif", STEADY, "--device", "3"],
        &["whatif", STEADY, "--max-split-size-mb", "20"],
        &["whatif", STEADY, "--roundup-power2-divisions", "3"],
        &["whatif", STEADY, "--garbage-collection-threshold", "1"],
        &["summary", STEADY, "--from", "soon"],
        &["flame", STEADY],
        &["why", STEADY, "missing"],
        &["html", "missing"],
        &["html", "text"],
        &["html", "cut"],
        &["html", "hostile"],
        &["html", "no-events"],
        &["html", STEADY, "--from", "10"],
        &["html", STEADY, "--device", "3"],
        &["html", STEADY, "-o", "nowhere/page.html"],
        &[STEADY],
    ] {
        let text = transcript(folder.path(), &[&["snapshot"], arguments].concat());
        assert!(
            text.contains("exit status: 2\n--- stdout\n--- stderr\nerror: "),
            "{text}"
        );
        said += &text;
    }
    assert!(!folder.path().join("owned").exists());
    assert!(!folder.path().join("x.svg").exists());
    let names = std::fs::read_dir(folder.path()).unwrap();
    let mut pages = names.filter(|file| {
        file.as_ref()
            .unwrap()
            .path()
            .extension()
            .is_some_and(|end| end == "html")
    });
    assert!(pages.next().is_none());
    insta::assert_snapshot!("snapshot-errors", said);
}

#[test]
fn snapshots_come_in_every_packing() {
    let folder = tempfile::tempdir().unwrap();
    let mut peaks = Vec::new();
    for name in [
        "full-fragmentation-oom",
        "protocol-2",
        "protocol-3",
        "protocol-5",
    ] {
        let file = testdata().join(format!("{name}.pickle.gz"));
        let answer = json_of(folder.path(), &["summary", file.to_str().unwrap()]);
        peaks.push(answer["peak_reserved_bytes"].as_u64().unwrap());
    }
    assert_eq!(peaks, [3_774_873_600; 4]);
    let raw = testdata().join("seeds/expandable-5.pickle");
    let answer = json_of(folder.path(), &["summary", raw.to_str().unwrap()]);
    assert!(answer["peak_reserved_bytes"].as_u64().unwrap() > 0);
}
