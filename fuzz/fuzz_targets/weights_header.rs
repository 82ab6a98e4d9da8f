//! Any bytes as a file of a checkpoint or as its index: refused in one sentence, or tensors that fit into the file, with sums that add up.
//!
//! The first byte chooses: the file as it is, the JSON of a safetensors header with a right length before it, what follows the version of a GGUF file, or an index.

#![no_main]

use std::io::Cursor;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use nilo_weights::{ShardIndex, Weights};

/// The data behind a header that has a right length.
const DATA_BYTES: usize = 64;

fn check(file: &[u8], name: &str) {
    let weights = match Weights::read_one_file(Cursor::new(file), Path::new(name)) {
        Ok(weights) => weights,
        Err(error) => return assert!(!error.to_string().contains('\n'), "one sentence: {error}"),
    };
    assert_eq!(weights.files, 1);
    assert!(weights.total_bytes() <= file.len() as u64);
    let by_kind = weights.by_kind();
    assert_eq!(
        by_kind.values().map(|total| total.bytes).sum::<u64>(),
        weights.total_bytes()
    );
    assert_eq!(
        by_kind.values().map(|total| total.parameters).sum::<u64>(),
        weights.total_parameters()
    );
    for tensor in &weights.tensors {
        assert_eq!(tensor.shape.iter().product::<u64>(), tensor.parameters);
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((choice, data)) = data.split_first() else {
        return;
    };
    match choice % 4 {
        0 => check(data, "model.safetensors"),
        1 => check(
            &[&(data.len() as u64).to_le_bytes(), data, &[0; DATA_BYTES]].concat(),
            "model.safetensors",
        ),
        2 => check(&[b"GGUF\x03\0\0\0", data].concat(), "model.gguf"),
        _ => match ShardIndex::parse(data, Path::new("model.safetensors.index.json")) {
            Ok(index) => assert!(
                index
                    .shards
                    .keys()
                    .all(|shard| Path::new(shard).components().count() == 1)
            ),
            Err(error) => assert!(!error.to_string().contains('\n'), "one sentence: {error}"),
        },
    }
});
