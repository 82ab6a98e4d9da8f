//! Any bytes: refused in one sentence or read, never a panic, never more memory than the file accounts for.
//!
//! One test, so that no other thread allocates meanwhile.

#![allow(clippy::unwrap_used)]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use nilo_weights::{ShardIndex, Weights, WeightsError};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use support::{Gguf, array, entry, read, safetensors, string};

/// The system's allocator, with a count.
struct Counting;

static HELD_BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD_BYTES.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK_BYTES.fetch_max(held, Relaxed);
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD_BYTES.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The result of a reading, and the most memory it held at once.
fn measured<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD_BYTES.load(Relaxed);
    PEAK_BYTES.store(before, Relaxed);
    let result = work();
    (result, PEAK_BYTES.load(Relaxed) - before)
}

fn check<T>(file: &[u8], work: impl FnOnce() -> Result<T, WeightsError>) -> Option<T> {
    let (result, peak_bytes) = measured(work);
    assert!(
        peak_bytes <= (64 << 10) + 64 * file.len(),
        "{peak_bytes} bytes for a file of {}",
        file.len()
    );
    result
        .map_err(|error| assert!(!error.to_string().contains('\n'), "one sentence: {error}"))
        .ok()
}

fn check_file(file: &[u8], name: &str) -> Option<Weights> {
    let weights = check(file, || read(file, name))?;
    assert!(
        weights.total_bytes() <= file.len() as u64,
        "no more than the file has"
    );
    let by_kind = weights.by_kind();
    assert_eq!(
        by_kind.values().map(|total| total.bytes).sum::<u64>(),
        weights.total_bytes()
    );
    assert_eq!(
        by_kind.values().map(|total| total.parameters).sum::<u64>(),
        weights.total_parameters()
    );
    Some(weights)
}

/// Bytes at places, and the rest of a file left out.
fn mutated(mut file: Vec<u8>, changes: &[(usize, u8)], cut: Option<usize>) -> Vec<u8> {
    for (place, byte) in changes {
        let place = place % file.len();
        file[place] = *byte;
    }
    if let Some(cut) = cut {
        file.truncate(cut % file.len());
    }
    file
}

#[test]
fn any_bytes_are_refused_or_read_within_bounds() {
    let valid_gguf = Gguf::new()
        .text("general.architecture", "llama")
        .count("general.alignment", 32)
        .key("list", 9, &array(4, 3, &[0; 12]))
        .key(
            "nested",
            9,
            &array(
                9,
                2,
                &[array(0, 2, &[1, 2]), array(8, 1, &string(b"x"))].concat(),
            ),
        )
        .floats("a", 3)
        .floats("b", 2)
        .file();
    let header = format!(
        r#"{{"__metadata__":{{"format":"pt"}},{},{},{}}}"#,
        entry("a", "F32", "[2,3]", 0, 24),
        entry("b", "F4", "[4]", 24, 26),
        entry("c", "BF16", "[]", 26, 28)
    );
    let valid_safetensors = safetensors(&header, 28);
    assert!(check_file(&valid_gguf, "a.gguf").is_some());
    assert!(check_file(&valid_safetensors, "a.safetensors").is_some());

    let mut runner = TestRunner::new(Config {
        cases: 4000,
        failure_persistence: None,
        ..Config::default()
    });
    let name = prop_oneof![
        Just("a.safetensors"),
        Just("a.gguf"),
        Just("a.bin"),
        Just("a")
    ];
    runner
        .run(&(vec(any::<u8>(), 0..300), name), |(bytes, name)| {
            check_file(&bytes, name);
            check(&bytes, || ShardIndex::parse(&bytes, Path::new(name)));
            // Behind a right beginning.
            check_file(&[b"GGUF\x03\0\0\0".as_slice(), &bytes].concat(), name);
            check_file(&safetensors(&String::from_utf8_lossy(&bytes), 0), name);
            Ok(())
        })
        .unwrap();

    let byte = prop_oneof![
        any::<u8>(),
        Just(0),
        Just(1),
        Just(0xff),
        Just(0x7f),
        Just(b'9'),
        Just(b'"')
    ];
    let changes = vec((any::<usize>(), byte), 1..6);
    runner
        .run(
            &(changes, any::<bool>(), proptest::option::of(any::<usize>())),
            |(changes, gguf, cut)| {
                let file = if gguf {
                    &valid_gguf
                } else {
                    &valid_safetensors
                };
                check_file(&mutated(file.clone(), &changes, cut), "a.safetensors");
                Ok(())
            },
        )
        .unwrap();

    let tensor = (
        "[a-z]{1,8}",
        prop_oneof![Just("U8"), Just("F16"), Just("F64")],
        vec(0_u64..5, 0..4),
    );
    runner
        .run(&vec(tensor, 0..8), |tensors| {
            check_written(&tensors);
            Ok(())
        })
        .unwrap();
}

/// What a writer puts into a file comes out of it, if the names differ.
fn check_written(tensors: &[(String, &str, Vec<u64>)]) {
    let mut end = 0;
    let mut entries = Vec::new();
    for (name, kind, shape) in tensors {
        let element_bytes = match *kind {
            "U8" => 1,
            "F16" => 2,
            _ => 8,
        };
        let begin = end;
        end += element_bytes * shape.iter().product::<u64>();
        entries.push(entry(name, kind, &format!("{shape:?}"), begin, end));
    }
    // The order of the header is not that of the data.
    entries.reverse();
    let file = safetensors(&format!("{{{}}}", entries.join(",")), end as usize);
    let names: std::collections::BTreeSet<_> = tensors.iter().map(|(name, ..)| name).collect();
    let weights = check_file(&file, "a.safetensors");
    assert_eq!(weights.is_some(), names.len() == tensors.len());
    if let Some(weights) = weights {
        assert_eq!(weights.total_bytes(), end);
        assert_eq!(
            weights.total_parameters(),
            tensors
                .iter()
                .map(|(_, _, shape)| shape.iter().product::<u64>())
                .sum::<u64>()
        );
    }
}
